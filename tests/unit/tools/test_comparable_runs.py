"""Runs are comparable in a cell if they agree in all settings that affect its numbers."""

from __future__ import annotations

from typing import Any

import pytest

from comparable_runs import NOT_STATED, cell_settings, deciding, differences, settings_hash

SETTINGS: dict[str, Any] = {
    "seed": 1, "evaluation.draws": 15, "evaluation.sampler": "iid", "evaluation.clamp": "draw",
    "evaluation.step_scores": "aggregated", "evaluation.preset": "paper",
    "datasets": ["reviews", "stories"], "reviews.task": "classification", "reviews.max_words": 100,
    "stories.task": "generation", "llama-3.dtype": "float32", "llama-3.1.dtype": "float32",
    "saliency.attributed_function": "probability", "masked_model": "roberta-base",
}  # fmt: skip
DATASETS = {"reviews", "stories"}
OWNERS = {"models": {"llama-3", "llama-3.1"}, "datasets": DATASETS, "methods": {"saliency"}}
NS, NC = "auc_pi_soft_ns", "auc_pi_soft_nc"
ALL = {(m, d) for m in (NS, NC) for d in (*DATASETS, "average")}
# Setting, other value, and the cells of `llama-3` that it affects: metric and dataset.
DECIDES = [
    ("evaluation.clamp", "mean", {(NS, "reviews"), (NS, "stories"), (NS, "average")}),
    ("evaluation.step_scores", "own", {(m, d) for m in (NS, NC) for d in ("stories", "average")}),
    ("reviews.max_words", 50, {(m, d) for m in (NS, NC) for d in ("reviews", "average")}),
    ("datasets", ["reviews"], {(NS, "average"), (NC, "average")}),
    ("llama-3.1.dtype", "float16", set()),
    ("evaluation.sampler", "count", ALL),
    ("llama-3.dtype", "float16", ALL),
    ("saliency.attributed_function", "logit", set()),
    ("masked_model", "bert", set()),
]


@pytest.mark.parametrize(("key", "value", "cells"), DECIDES, ids=[one[0] for one in DECIDES])
def test_a_setting_affects_only_its_cells(key: str, value: Any, cells: Any) -> None:
    other = {**SETTINGS, key: value}
    assert differences(deciding(SETTINGS), deciding(other)) == {key: (SETTINGS[key], value)}
    assert settings_hash(SETTINGS) != settings_hash(other)
    decided = set()
    for metric, dataset in ALL:
        cell = {"model": "llama-3", "dataset": dataset, "metric": metric}
        (here, _), (there, _) = (cell_settings(s, OWNERS, **cell) for s in (SETTINGS, other))
        if differences(here, there):
            decided.add((metric, dataset))
    assert decided == cells


def test_method_options_are_compared_separately() -> None:
    cell = {"model": "llama-3", "dataset": "reviews", "metric": NS}
    names = {"saliency.attributed_function", "masked_model"}
    assert {*cell_settings(SETTINGS, OWNERS, **cell)[1]} == names


def test_settings_that_change_only_precision_leave_runs_comparable() -> None:
    precise = {"seed": 2, "evaluation.draws": 1, "evaluation.sampler": "latin"}
    for key, value in {**precise, "evaluation.preset": "efficient"}.items():
        assert settings_hash({**SETTINGS, key: value}) == settings_hash(SETTINGS), key


def test_a_setting_missing_in_one_run_differs() -> None:
    fewer = {key: value for key, value in SETTINGS.items() if key != "evaluation.clamp"}
    assert differences(SETTINGS, fewer) == {"evaluation.clamp": ("draw", NOT_STATED)}
    assert differences(fewer, SETTINGS) == {"evaluation.clamp": (NOT_STATED, "draw")}
