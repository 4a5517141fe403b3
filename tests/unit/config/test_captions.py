"""Settings in words: what a caption says follows every setting that could change its numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from pisoft.attribution import load_method
from pisoft.config.captions import demonstration_warning, settings_in_words
from pisoft.config.evaluation import DrawSettings
from pisoft.config.loading import load_config
from pisoft.config.validation import read_yaml

EVALUATIONS = {
    "scope": "all",
    "normalisation": "rank",
    "step_scores": "aggregated",
    "score_floor": 1e-3,
    "pi_grid": [0.25, 0.75],
    "sampler": "latin",
    "mask": "element",
    "operator": "mean",
    "draws": 7,
    "minimum_h0": 0.01,
    "clamp": "none",
}
CHANGES = {
    **{f"evaluation.{key}": {"evaluation": {key: value}} for key, value in EVALUATIONS.items()},
    "seed": {"seed": 5},
    "max_samples": {"max_samples": 3},
    "generation.max_new_tokens": {"generation": {"max_new_tokens": 9}},
    "generation.step_interval": {"generation": {"step_interval": 3}},
    "statistics.resamples": {"statistics": {"resamples": 123}},
    "ranking.operator": {"ranking": {"operator": "zero"}},
    "ranking.flip_of": {"ranking": {"flip_of": "first_token"}},
    "ranking.steps": {"ranking": {"steps": 4}},
    "qualitative.top_share": {"qualitative": {"top_share": 0.2}},
    "explorer.samples": {"explorer": {"samples": 6}},
    "operators.others": {"operators": {"others": ["hide"]}},
    "operators.draws": {"operators": {"others": ["unknown"], "draws": 9}},
    "layer_study.depths": {"layer_study": {"depths": [2]}},
    "layer_study.fixed_depth": {"layer_study": {"fixed_depth": 3}},
    "layer_study.development_share": {"layer_study": {"development_share": 0.5}},
}
DATASETS = ["demo-sentiment", "demo-why"]
OTHERS = {"others": ["unknown"]}  # than any that is tried, and for any mask
RUN = {"run": "r", "models": ["demo-llama"], "datasets": DATASETS, "methods": ["random"]}


def words(root: Path, **changes: object) -> dict[str, str]:
    run = {**RUN, "masked_model": "demo-masked", "layer_study": {}, "operators": OTHERS, **changes}
    return settings_in_words(load_config(run, root / "config/catalogue", "run.yaml", load_method))


def test_every_setting_of_the_draws_is_tried() -> None:
    assert set(EVALUATIONS) == {*DrawSettings.model_fields, "clamp"}


@pytest.mark.parametrize("key", CHANGES)
def test_a_setting_that_changes_numbers_changes_the_words(key: str, root: Path) -> None:
    assert words(root, **CHANGES[key]) != words(root)


def test_a_budget_of_draws_is_told_with_its_target(root: Path) -> None:
    budget = {"draws": {"target_half_width": 0.004, "max": 12}}
    said = words(root, evaluation=budget)
    assert "up to 12 per π, until the 95 % Monte Carlo interval" in said["masks"]
    assert "±0.004" in said["masks"]
    assert said["clamp"] == "Soft-NS is clamped at 0 for every draw, before averaging over them."


def test_what_is_switched_off_is_not_told(root: Path) -> None:
    off = dict.fromkeys(("ranking", "layer_study", "qualitative", "explorer"))
    assert {"ranking", "layer_study", "tokens", "explorer"}.isdisjoint(words(root, **off))


def test_what_the_workflow_made_itself_is_said(root: Path) -> None:
    def said(**changes: object) -> str:
        run = {**RUN, **changes}
        return demonstration_warning(
            load_config(run, root / "config/catalogue", "run.yaml", load_method)
        )

    assert "made its models (demo-llama) and records (demo-sentiment, demo-why)" in said()
    real = {"models": ["llama-3.1-8b-instruct"]}
    assert "made its records (demo-sentiment, " in said(**real)
    assert said(**real, datasets=["sst2"]) == ""


@pytest.mark.parametrize("file", ["config.yaml", "paper.yaml"])
def test_captions_ask_for_nothing_that_is_not_told(file: str, root: Path) -> None:
    run = load_config(
        read_yaml(root / "config" / file), root / "config/catalogue", file, load_method
    )
    known = set(settings_in_words(run))
    for caption in (root / "rules/captions").glob("*.rst"):
        asked = caption.read_text(encoding="utf-8").split("snakemake.config.settings.")[1:]
        assert {part.split(" ")[0] for part in asked} <= known, caption.name


def test_only_a_long_even_grid_is_shortened(root: Path) -> None:
    def said(grid: list[float]) -> str:
        return words(root, evaluation={"pi_grid": grid})["grid"].split(";")[0]

    assert words(root)["grid"].startswith("Grid of π: 0.05, 0.1, …, 0.95 (19 values);")
    assert said([0.1, 0.2, 0.3, 0.4, 0.5]) == "Grid of π: 0.1, 0.2, 0.3, 0.4, 0.5"
    assert said([0.1, 0.2, 0.3, 0.4, 0.5, 0.9]) == "Grid of π: 0.1, 0.2, 0.3, 0.4, 0.5, 0.9"
