"""Insertion and deletion are planned for datasets of label words, if the run wants them."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

JOBS = {
    *(
        f"data/ranking/toy/{name}/toy-sentiment.parquet"
        for name in ("random", "attention", "saliency")
    ),
    "data/summary/ranking_samples.parquet",
    "tables/insertion_deletion/toy.html",
}


def ranking_jobs(pending):
    return {name for name in pending if "ranking" in name or "insertion_deletion" in name}


def test_open_generation_is_left_out_unless_its_file_is_asked_for(project):
    run_file = project.folder / "config/tiny.yaml"
    run_file.write_text(
        run_file.read_text().replace("[toy-sentiment]", "[toy-sentiment, demo-why]")
    )
    assert ranking_jobs(project.pending()) == JOBS
    asked = "results/tiny/data/ranking/toy/random/demo-why.parquet"
    listed = project.snakemake("--dry-run", "--printshellcmds", asked).stdout
    assert f"--output {asked}" in listed
    assert "open generation has no label word that could flip" in listed


def test_a_run_can_do_without(project):
    with_ranking = project.pending()
    run_file = project.folder / "config/tiny.yaml"
    run_file.write_text(run_file.read_text() + "ranking: null\n")
    assert project.pending() == with_ranking - JOBS
    asked = "results/tiny/data/ranking/toy/random/toy-sentiment.parquet"
    refused = project.snakemake("--dry-run", "--quiet", "--", asked, check=False)
    assert refused.returncode != 0
    assert " ranking: is null, which switches it off" in refused.stdout
