"""Results without Snakemake's records: copied elsewhere, or its folder lost."""

import os
import shutil

import pytest

pytestmark = [pytest.mark.workflow, pytest.mark.slow]


@pytest.fixture
def moved(finished):
    """Return the project with its results, but nothing of what Snakemake remembers of them."""
    shutil.rmtree(finished.folder / ".snakemake")
    return finished


def test_results_alone_are_enough_to_move_a_run(moved):
    assert moved.pending() == set()


def test_results_of_other_settings_are_made_again(moved):
    """This said 'Nothing to be done' over results of seed 1."""
    listed = moved.snakemake("--dry-run", "--config", "seed=7", "max_samples=2").stdout
    assert "results of other settings, of which Snakemake has no record, are made again" in listed
    assert "rule sample_dataset" in listed
    assert "rule evaluate_soft" in listed
    moved.snakemake("--cores", "2", "--config", "seed=7", "max_samples=2")
    again = moved.snakemake("--dry-run", "--config", "seed=7", "max_samples=2").stdout
    assert "Nothing to be done" in again


def test_tables_and_figures_of_other_settings_are_made_again_alone(moved):
    run_file = moved.folder / "config/tiny.yaml"
    run_file.write_text(run_file.read_text().replace("label: Toy sentiment", "label: Changed"))
    pending = moved.pending()
    assert "tables/pi_soft_auc/dynamic/toy.html" in pending
    assert "figures/pi_curves/dynamic/toy/toy-sentiment.svg" in pending
    assert all(name.startswith(("tables/", "figures/")) or "/" not in name for name in pending)


def test_a_touch_does_not_make_results_right(moved):
    refused = moved.snakemake("--touch", "--cores", "1", "--config", "seed=7", check=False)
    assert refused.returncode == 1
    assert "--touch: results/tiny/" in refused.stdout
    assert "was made with other settings than the run has now" in refused.stdout
    assert "Traceback" not in refused.stdout


def test_a_copy_without_times_is_complete_after_a_touch(moved):
    for path in sorted((moved.folder / "results").rglob("*"), reverse=True):
        os.utime(path)  # figures are older than what they are made from
    assert moved.pending() != set()
    moved.snakemake("--touch", "--cores", "1")
    assert moved.pending() == set()
