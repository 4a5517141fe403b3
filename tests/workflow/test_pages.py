"""Pages of a run: made by default, and not where the run file wants none."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.workflow, pytest.mark.slow]


def test_the_explorer_is_made_unless_the_run_file_says_null(project):
    with_page = project.snakemake("--dry-run", "--printshellcmds").stdout
    run_file = project.folder / "config/tiny.yaml"
    run_file.write_text(run_file.read_text() + "explorer: null\n")
    without = project.snakemake("--dry-run", "--printshellcmds").stdout
    assert "build_explorer" in with_page
    assert "build_explorer" not in without
    assert "--explorer results/tiny/explorer.html --warning" in with_page, "where tables lead to"
    assert "explorer.html" not in without


def test_a_number_of_samples_that_shows_nothing_is_refused(project):
    result = project.snakemake("--dry-run", "--config", "explorer={samples: 0}", check=False)
    assert result.returncode != 0
    assert "explorer.samples: must be greater than 0" in result.stdout
    result = project.snakemake("--dry-run", "--config", "explorer={sample: 3}", check=False)
    assert "explorer.sample: unknown key; did you mean 'samples'?" in result.stdout


def test_a_run_of_one_method_ends(project):
    project.snakemake("--cores", "2", "--config", "methods=[saliency]")
    results = project.folder / "results/tiny"
    assert (results / "index.html").is_file()
    assert not (results / "figures/method_agreement").exists(), "there is nothing to compare"
