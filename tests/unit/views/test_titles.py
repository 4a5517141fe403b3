"""Figure titles follow from their numbers: for one, some, none and all."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.result_rows import results
from pisoft.views.titles import (
    best_depths,
    best_recovery,
    changed_leaders,
    controls_in_order,
    entropy_differences,
    shared_top_tokens,
    unchanged_scores,
)

NS, NC = "auc_pi_soft_ns", "auc_pi_soft_nc"
OPERATORS = {"zero": "Zeroed", "mean": "Mean embedding"}
LABELS = {"a": "A", "b": "B", "c": "C", "d": "D", "e": "E"}
MOST = "Most evidence among the top tokens"
DIFFERS = "Ablation changes the entropy (disjoint intervals): "
CHANGED = "Another method is best with "
UNCHANGED = "Scores hardly change (mean ρ ≥ 0.9) for "


@pytest.mark.parametrize(
    ("values", "title"),
    [
        ({NS: {"loosened": [1, 3, 2]}, NC: {"loosened": [0, 3, 1]}},
         "with the last 2 layers by both metrics"),
        ({NS: {"loosened": [3, 1, 2]}, NC: {"loosened": [1, 2, 2]}},
         "with the last layer by π-Soft-NS, with the last 2 or 4 layers by π-Soft-NC"),
        ({NS: {"loosened": [1, 1, 1], "original": [1, 1, 2]}},
         "Loosened at every depth alike and Original with the last 4 layers by π-Soft-NS"),
        ({NS: {"loosened": [1, 2, 3], "original": [None] * 3}},
         "Loosened with the last 4 layers by π-Soft-NS"),
        ({NS: {"loosened": [1]}}, ""),
        ({NS: {"loosened": [None] * 3}}, ""),
    ],
)  # fmt: skip
def test_the_depth_with_the_highest_auc_is_named_if_depths_differ(values, title):
    rows = [
        {"metric": metric, "method": weights, "position": depth, "value": value}
        for metric, by_weights in values.items()
        for weights, line in by_weights.items()
        for depth, value in zip((1, 2, 4), line, strict=False)
    ]
    labels = {weights: weights.capitalize() for weights in values[NS]}
    assert best_depths(results("depths", rows), labels) == (title and f"Highest AUC: {title}")


@pytest.mark.parametrize(
    ("lows", "title"),
    [
        ([(0.6, 0.7), (0.6, 0.51)], "at both values of π by π-Soft-NS"),
        ([(0.6, 0.7), (0.6, 0.5), (0.9, 0.9)], "at 2 of 3 values of π by π-Soft-NS"),
        ([(0.6, 0.7), (None, 0.6)], "at the only value of π by π-Soft-NS"),
        ([(None, None)], ""),
    ],
)
def test_a_pair_is_ordered_only_if_its_interval_is_above_chance(lows, title):
    pairs = ("oracle_over_noisy", "noisy_over_random")
    rows = [
        {"metric": "pi_soft_ns", "part": pair, "position": 0.1 * index, "value": 0.9, "low": low}
        for index, at_pi in enumerate(lows)
        for pair, low in zip(pairs, at_pi, strict=True)
    ]
    result = controls_in_order(results("metric_validation", rows), pairs)
    assert result == (title and f"Better than chance on all pairs of controls: {title}")


@pytest.mark.parametrize(
    ("entropies", "clean", "title"),
    [
        ({"zero": [3, 1], "mean": [1, -3]}, 0, "at 1 of 2 points with each operator"),
        ({"zero": [3, 3, 3]}, 0, "at all 3 points"),
        ({"zero": [3], "mean": [None]}, 0, "Zeroed at the only point"),
        ({"zero": [3]}, None, ""),
    ],
)  # fmt: skip
def test_entropies_differ_only_if_intervals_do_not_overlap(entropies, clean, title):
    keys = {"metric": "entropy", "dataset": "sst2"}
    rows = [{**keys, "part": "clean", **around(clean)}]
    rows += [
        {**keys, "operator": operator, "position": 0.1 * index, **around(value)}
        for operator, line in entropies.items()
        for index, value in enumerate(line)
    ]
    operators = {name: OPERATORS[name] for name in entropies}
    result = entropy_differences(results("off_distribution", rows), operators)
    assert result == (title and DIFFERS + title)


def around(value):
    """Return a number with an interval that reaches as far as 1 to both sides."""
    return {} if value is None else {"value": value, "low": value - 1, "high": value + 1}


@pytest.mark.parametrize(
    ("rhos", "title"),
    [
        ({"Last 2 layers": [0.9, 0.1], "Shuffled labels": [0.95, 0.9]},
         "1 of 2 methods (last 2 layers), both methods (shuffled labels)"),
        ({"Last layer": [1, 1], "Last 2 layers": [0.1, None]}, "none of 1 method (last 2 layers)"),
        ({"Last layer": [1, None]}, "the only method (last layer)"),
        ({"Last layer": [None, None]}, ""),
    ],
)  # fmt: skip
def test_unchanged_scores_are_counted_at_the_strongest_check(rhos, title):
    kinds = {
        "Last layer": {"part": "layers", "position": 1, "variant": "reinit-1"},
        "Last 2 layers": {"part": "layers", "position": 2, "variant": "reinit-2"},
        "Shuffled labels": {"part": "labels", "variant": "shuffled-labels"},
    }
    rows = [
        {**kinds[label], "metric": "rho", "method": method, "value": rho}
        for label, by_method in rhos.items()
        for method, rho in zip(("random", "a", "b"), (1, *by_method), strict=True)
    ]
    assert unchanged_scores(results("sanity_checks", rows)) == (title and UNCHANGED + title)


@pytest.mark.parametrize(
    ("changes", "title"),
    [
        ({NS: [1, 0, 0.5], NC: [0, 0.45]},
         f"{CHANGED}2 of 3 variants by π-Soft-NS, none of 2 variants by π-Soft-NC"),
        ({NS: [1, None], NC: [None]}, f"{CHANGED}the only variant by π-Soft-NS"),
        ({NS: [0.4, 0], NC: [0]}, "No variant of the metric makes another method best"),
        ({NS: [None]}, ""),
    ],
)  # fmt: skip
def test_changed_settings_count_only_with_a_number(changes, title):
    rows = [
        {"metric": metric, "part": f"choice-{index}", "other": "best_changes", "value": value}
        for metric, line in changes.items()
        for index, value in enumerate(line)
    ]
    assert changed_leaders(results("sensitivity", rows)) == title


@pytest.mark.parametrize(
    ("values", "title"),
    [
        ({"needle": [0.2, 0.8], "conflict": [0.1, 0.9]}, "B"),
        ({"needle": [0.9, 0.8], "conflict": [0.1, 0.9]}, "A (one statement), B (two)"),
        ({"needle": [0.8 + 1e-15, 0.8], "conflict": [0.1]}, "A, B"),
        ({"needle": [0.2, None], "conflict": [None, None]}, ""),
    ],
)
def test_the_methods_with_the_highest_evidence_recall_are_named(values, title):
    rows = [
        {"other": task, "method": method, "value": value}
        for task, line in values.items()
        for method, value in zip("ab", line, strict=False)
    ]
    tasks = {"needle": "One statement", "conflict": "Two"}
    result = best_recovery(results("context_use", rows), tasks, LABELS)
    assert result == (title and f"Most evidence recovered: {title}")


@pytest.mark.parametrize(
    ("top", "evidence", "title"),
    [
        (["110", "100"], "110", f"{MOST}: A (2 of 2 tokens)"),
        (["1000"] * 4 + ["0001"], "1100", f"{MOST}: 4 methods (1 of 2 tokens)"),
        (["100", "100"], "100", "Evidence among the top tokens of both methods: 1 of 1 token"),
        (["001", "001"], "110", "No method has evidence among its top tokens"),
        (["110", "100", "100"], None, "1 token is a top token of all 3 methods"),
        (["110", "110"], None, "2 tokens are top tokens of both methods"),
        (["110", "100", "010"], None, "No token is a top token of more than 2 of 3 methods"),
        (["100", "010"], None, "No two methods share a top token"),
        (["000", "000"], None, ""),
        (["110"], "110", ""),
        ([], None, ""),
    ],
)
def test_top_tokens_are_compared_with_evidence_or_among_methods(top, evidence, title):
    masks = {name: mask_of(mask) for name, mask in zip(LABELS, top, strict=False)}
    evidence = None if evidence is None else mask_of(evidence)
    assert shared_top_tokens(masks, evidence, LABELS) == title


def mask_of(digits):
    return np.array([digit == "1" for digit in digits])
