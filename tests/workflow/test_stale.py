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


@pytest.mark.parametrize("option", ["--dry-run", "--touch"])
def test_results_of_other_settings_are_refused(moved, option):
    """This said 'Nothing to be done' over results of seed 1; a touch would have kept it so."""
    refused = moved.snakemake(
        option, "--cores", "1", "--config", "seed=7", "max_samples=2", check=False
    )
    assert refused.returncode == 1
    assert (
        "results/tiny/data/attribution_times/toy/attention/toy-sentiment.parquet and "
        in refused.stdout
    )
    assert "were made with other settings than the run has now" in refused.stdout
    assert "Traceback" not in refused.stdout


def test_a_touch_never_records_results_of_other_settings_as_right(finished):
    """Snakemake has a record of them, by which it would compute them again."""
    other = ("--config", "seed=7")
    refused = finished.snakemake("--touch", "--cores", "1", *other, check=False)
    assert refused.returncode == 1
    assert "were made with other settings than the run has now" in refused.stdout
    assert "Traceback" not in refused.stdout
    assert "data/soft/dynamic/toy/random/toy-sentiment.parquet" in finished.pending(*other)


def test_tables_and_figures_of_other_settings_are_made_again_alone(moved):
    run_file = moved.folder / "config/tiny.yaml"
    run_file.write_text(run_file.read_text().replace("label: Toy sentiment", "label: Changed"))
    assert "other settings" in moved.snakemake("--dry-run", check=False).stdout
    before = set((moved.folder / "results").rglob("*"))
    for option in ("--dry-run", "-np"):
        moved.snakemake(option, "--config", "delete_stale=true")
        assert set((moved.folder / "results").rglob("*")) == before, "a dry run deletes nothing"
    records = "results/tiny/data/samples/toy-sentiment.parquet"  # up to date: nothing is run for it
    moved.snakemake("--cores", "1", "--config", "delete_stale=true", "--", records)
    pending = moved.pending()
    assert "tables/pi_soft_auc/dynamic/toy.html" in pending
    assert "figures/pi_curves/dynamic/toy/toy-sentiment.svg" in pending
    assert all(name.startswith(("tables/", "figures/")) or "/" not in name for name in pending)


def test_a_model_trained_with_other_settings_is_refused(project):
    report = "results/tiny/data/models/demo-llama/training.json"
    (project.folder / report).parent.mkdir(parents=True)
    project.write(report, '{"settings": {"seed": 2}}')
    trained = ("models=[demo-llama]", "datasets=[demo-sentiment,demo-why]")
    refused = project.snakemake("--dry-run", "--config", *trained, check=False)
    assert f"{report} was made with other settings than the run has now" in refused.stdout


def test_a_copy_without_times_is_complete_after_a_touch(moved):
    files = sorted((moved.folder / "results").rglob("*"), reverse=True)
    for second, path in enumerate(files):
        os.utime(path, (second, second))  # figures are older than what they are made from
    assert moved.pending() != set()
    moved.snakemake("--touch", "--cores", "1")
    assert moved.pending() == set()
