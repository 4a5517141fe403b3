"""How far scores find the evidence, against all orders of equal scores and closed forms."""

import itertools

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from helpers import explained_rows, script_runs
from pisoft.faithfulness.scores import normalise
from pisoft.statistics.evidence import (
    METRICS,
    average_precision,
    average_precision_by_chance,
    on_evidence,
    share_of_highest,
)
from pisoft.store.parquet import read_rows

SETTINGS = {"scope": "content", "normalisation": "minmax", "step_scores": "own"}
GENERATOR = np.random.default_rng(5)


def all_orders(scores, evidence, count):
    """Mean share of evidence among the first tokens, over all orders from high to low."""
    orders = [
        order
        for order in itertools.permutations(range(len(scores)))
        if all(scores[a] >= scores[b] for a, b in itertools.pairwise(order))
    ]
    return np.mean([np.mean([evidence[place] for place in order[:count]]) for order in orders])


@pytest.mark.parametrize("levels", [1, 2, 3, 100])
def test_equal_scores_are_ordered_by_lot(levels):
    for _ in range(20):
        scores = GENERATOR.integers(levels, size=6) / levels
        evidence = GENERATOR.random(6) < 0.4
        for count in range(1, 7):
            expected = all_orders(scores, evidence, count)
            assert share_of_highest(scores, evidence, count) == pytest.approx(expected)


def all_places(k, m):
    """Mean average precision over all places that k of m tokens in an order can have."""
    every = itertools.combinations(range(1, m + 1), k)
    return np.mean([[count / at for count, at in enumerate(places, 1)] for places in every])


@pytest.mark.parametrize("m", [1, 2, 5, 9])
def test_average_precision_by_chance_is_the_mean_over_all_orders(m):
    for k in range(1, m + 1):
        assert average_precision_by_chance(k, m) == pytest.approx(all_places(k, m))


def test_numbers_of_scores_that_know_all_nothing_and_the_opposite():
    evidence = np.array([True, False, True, False, False])
    first_last = 0.4  # the scores have two levels, and evidence the lower one
    by_chance = (0.4, all_places(2, 5))
    assert on_evidence(evidence.astype(float), evidence) == pytest.approx((1, 1, 1, 1, *by_chance))
    assert on_evidence((~evidence).astype(float), evidence) == pytest.approx(
        (0, 0, 0, first_last, *by_chance)
    )
    assert on_evidence(np.full(5, 0.5), evidence) == pytest.approx((0.4, 0.4, 0.4, 0.4, *by_chance))
    assert on_evidence(np.ones(5), np.ones(5, bool)) == pytest.approx([1] * 6)


@pytest.mark.parametrize("levels", [1, 2, 3, 100])
def test_average_precision_is_that_of_sklearn_with_equal_scores_as_one_threshold(levels):
    for _ in range(50):
        scores = GENERATOR.integers(levels, size=9) / levels
        evidence = GENERATOR.permutation(9) < GENERATOR.integers(1, 10)
        expected = average_precision_score(evidence, scores)
        assert average_precision(scores, evidence) == pytest.approx(expected)


def summarised(folder, asked, attributions, **changes):
    """Return values and status by sample and metric, of one method."""
    prompts = explained_rows.write(folder, "prompts", asked, "llama")
    scores = explained_rows.write(folder, "attributions", attributions, "llama", "mine")
    made = {"evidence_samples": folder / "evidence_samples.parquet"}
    files = {"prompts": [prompts], "attributions": [scores]}
    script_runs.summarise("evidence", SETTINGS | changes, files, made)
    rows = read_rows(made["evidence_samples"], "evidence_samples")
    assert {(r["model"], r["method"], r["dataset"]) for r in rows} == {("llama", "mine", "sst2")}
    return {(r["sample_id"], r["metric"]): (r["value"], r["status"]) for r in rows}


def test_a_sample_is_the_mean_over_its_steps_with_scores(tmp_path):
    raw = {step: GENERATOR.normal(size=6) for step in (0, 5)}
    evidence = np.array([False, True, False, False, True, True])
    rows = [explained_rows.attribution("a", raw[step], step) for step in raw]
    rows.append(explained_rows.attribution("a", None, 10, "nonfinite_attribution"))
    found = summarised(tmp_path, [explained_rows.prompt("a", ["t"] * 6, evidence=[1, 4, 5])], rows)
    scores = [normalise(raw[step].astype(np.float32), "minmax") for step in raw]
    expected = np.mean([on_evidence(of_step, evidence) for of_step in scores], axis=0)
    for metric, value in zip(METRICS, expected, strict=True):
        assert found["a", metric] == (pytest.approx(value), "ok")


def test_one_heatmap_per_sample_is_the_mean_of_its_steps(tmp_path):
    raw = {0: [4.0, 0.0, 1.0], 5: [0.0, 0.0, 5.0]}
    asked = [explained_rows.prompt("a", ["t"] * 3, evidence=[2])]
    rows = [explained_rows.attribution("a", scores, step) for step, scores in raw.items()]
    own = summarised(tmp_path / "own", asked, rows)
    together = summarised(tmp_path / "together", asked, rows, step_scores="aggregated")
    assert own["a", "top_1_in_evidence"] == (0.5, "ok")
    assert together["a", "top_1_in_evidence"] == (1.0, "ok")
    assert together["a", "mass_on_evidence"] == (pytest.approx(1 / (1 + 2 / 3)), "ok")


def test_a_sample_without_scores_or_without_evidence_is_a_row_that_says_so(tmp_path):
    asked = [
        explained_rows.prompt("failed", ["t"] * 3, evidence=[0]),
        explained_rows.prompt("unmarked", ["t"] * 3),
        explained_rows.prompt("nowhere", ["t"] * 3, evidence=[]),
    ]
    rows = [
        explained_rows.attribution("failed", None, 0, "nonfinite_attribution"),
        explained_rows.attribution("unmarked", [1, 2, 3]),
        explained_rows.attribution("nowhere", [1, 2, 3]),
    ]
    found = summarised(tmp_path, asked, rows)
    for metric in METRICS:
        assert found["failed", metric] == (None, "nonfinite_attribution")
        assert found["unmarked", metric] == (None, "no_evidence")
        assert found["nowhere", metric] == (None, "no_evidence")
