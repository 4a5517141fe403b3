"""A study adds its own jobs when a run file asks for it, and none otherwise."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

STUDY = "layer_study: {depths: [1, 8, 16], token_weights: [loosened]}\n"
DEPTHS = ("01", "02")  # of a model with 2 decoder layers: 8 and 16 both stand for 2
JOBS = {
    *(
        f"data/attributions/toy/grad_ellm-loosened-{depth}/toy-sentiment.parquet"
        for depth in DEPTHS
    ),
    *(
        f"data/soft/dynamic/toy/grad_ellm-loosened-{depth}/toy-sentiment.parquet"
        for depth in DEPTHS
    ),
    "data/summary/layer_study.parquet",
    "data/summary/depth_selected/soft_samples.parquet",
    "tables/layer_study/dynamic/toy.html",
    "figures/layer_study/dynamic/toy/toy-sentiment.svg",
}


def test_the_layer_study_adds_exactly_its_own_jobs_and_only_if_asked(project):
    run_file = project.folder / "config/tiny.yaml"
    without = project.pending()
    assert not {name for name in without if "grad_ellm" in name or "layer_study" in name}
    run_file.write_text(run_file.read_text() + STUDY)
    assert project.pending() == without | JOBS


def test_figures_of_single_texts_are_left_out_if_not_wanted(project):
    run_file = project.folder / "config/tiny.yaml"
    texts = {"figures/tokens/toy/toy-sentiment/sentence.svg"}
    wanted = project.pending()
    run_file.write_text(run_file.read_text() + "qualitative: null\n")
    assert wanted - project.pending() == texts


def test_an_unknown_model_of_the_study_is_said_before_any_job(project):
    result = project.snakemake("--dry-run", "--config", "layer_study={models: [toys]}", check=False)
    assert result.returncode != 0
    assert "layer_study.models: unknown name 'toys'; did you mean 'toy'?" in result.stdout
    assert "Traceback" not in result.stdout
