"""A study adds its own jobs when a run file asks for it, and none otherwise."""

from __future__ import annotations

import re

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
    "data/summary/depths.parquet",
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


TRUST = """
metric_validation: {noise: [1], permuted_methods: [saliency]}
sanity_checks: {layers: [1, 2], methods: [saliency]}
"""
CONTROLS = ("oracle", "oracle-noise-1", "anti-oracle", "position", "uniform", "first-token")
MADE = (*CONTROLS, "saliency-permuted-1")
SUMMARIES = ("metric_validation", "normalised_scores", "sanity_checks")
VARIANTS = ("reinit-1", "reinit-2")
TRUST_JOBS = {
    *(f"data/attributions/toy/{name}/toy-sentiment.parquet" for name in MADE),
    *(f"data/attributions/toy@{name}/saliency/toy-sentiment.parquet" for name in VARIANTS),
    *(f"data/soft/dynamic/toy/{name}/toy-sentiment.parquet" for name in MADE),
    *(f"data/ranking/toy/{name}/toy-sentiment.parquet" for name in CONTROLS),
    *(
        f"data/summary/{name}/{kind}.parquet"
        for name in ("controls", "permutation_baseline")
        for kind in ("soft_samples", "curves", "soft_sample_curves")
    ),
    *(f"data/summary/controls/{name}_samples.parquet" for name in ("ranking", "datamodel")),
    *(f"data/summary/{name}.parquet" for name in (*SUMMARIES, "permutation_baseline")),
    *(f"tables/{name}/toy.html" for name in SUMMARIES),
    "tables/permutation_baseline/dynamic/toy.html",
    "figures/metric_validation/dynamic/toy/toy-sentiment.svg",
    "figures/permutation_baseline/dynamic/toy.svg",
    "figures/sanity_checks/toy.svg",
}


def test_the_tests_of_metrics_and_methods_add_exactly_their_own_jobs(project):
    run_file = project.folder / "config/tiny.yaml"
    without = project.pending()
    run_file.write_text(run_file.read_text() + TRUST)
    assert project.pending() == without | TRUST_JOBS


def test_a_twin_on_shuffled_labels_is_trained_and_explained_and_its_model_as_before(project):
    asked = ("--config", "models=[demo-llama]", "datasets=[demo-sentiment, demo-why]")
    summary = "results/tiny/data/summary/sanity_checks.parquet"

    def folders(labels):
        """Return the folders of models that are trained, and by scores the one they are of."""
        sanity = (
            f"sanity_checks={{layers: [1], methods: [saliency], datasets: [demo-why], {labels}}}"
        )
        listed = project.snakemake("--dry-run", "--printshellcmds", summary, *asked, sanity).stdout
        scores = re.findall(r"attribute\.py .*--model (\S+)/config\.json .*--output (\S+)", listed)
        return (
            re.findall(r"train_model\.py .*--output-folder (\S+)", listed),
            {output.split("/")[-3]: folder for folder, output in scores},
        )

    own = "results/tiny/data/models/demo-llama"
    twin = f"{own}@shuffled-labels"
    trained, explained = folders("labels: false")
    assert trained == [own]
    assert explained == {"demo-llama": own, "demo-llama@reinit-1": own}
    trained, with_twin = folders("labels: true")
    assert sorted(trained) == [own, twin]
    assert with_twin == explained | {"demo-llama@shuffled-labels": twin}


OPTIONAL = {
    "qualitative: null": {
        f"figures/tokens/toy/toy-sentiment/{p}.svg" for p in ("sentence", "text")
    },
    "sensitivity: false": {
        "data/summary/sensitivity.parquet",
        "tables/sensitivity/dynamic/toy.html",
        "figures/sensitivity/dynamic/toy.svg",
    },
}


@pytest.mark.parametrize("line", OPTIONAL)
def test_what_is_shown_by_default_is_left_out_if_switched_off(project, line):
    run_file = project.folder / "config/tiny.yaml"
    default = project.pending()
    run_file.write_text(f"{run_file.read_text()}{line}\n")
    assert default - project.pending() == OPTIONAL[line]


def test_an_unknown_model_of_the_study_is_said_before_any_job(project):
    result = project.snakemake("--dry-run", "--config", "layer_study={models: [toys]}", check=False)
    assert result.returncode != 0
    assert "layer_study.models: unknown name 'toys'; did you mean 'toy'?" in result.stdout
    assert "Traceback" not in result.stdout
