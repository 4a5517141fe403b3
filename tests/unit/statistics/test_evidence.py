"""Evidence metrics against all orders of tied scores and closed forms."""

import itertools
from math import ceil

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

SETTINGS = {"scope": "content", "normalisation": "minmax", "step_scores": "own"}
GENERATOR = np.random.default_rng(5)


def all_orders(scores, evidence, count):
    """Mean share of evidence among the first tokens, over all orders from high to low."""
    every = map(list, itertools.permutations(range(len(scores))))
    return np.mean([evidence[o[:count]].mean() for o in every if (np.diff(scores[o]) <= 0).all()])


@pytest.mark.parametrize("levels", [1, 2, 3, 100])
def test_ties_are_broken_at_random(levels):
    for _ in range(20):
        scores = GENERATOR.integers(levels, size=6) / levels
        evidence = GENERATOR.random(6) < 0.4
        for count in range(1, 7):
            expected = all_orders(scores, evidence, count)
            assert share_of_highest(scores, evidence, count) == pytest.approx(expected)


def all_places(k, m):
    """Mean average precision over all positions of k among m tokens."""
    every = itertools.combinations(range(1, m + 1), k)
    return np.mean([[count / at for count, at in enumerate(places, 1)] for places in every])


@pytest.mark.parametrize("m", [1, 2, 5, 9])
def test_chance_average_precision_is_the_mean_over_all_orders(m):
    for k in range(1, m + 1):
        assert average_precision_by_chance(k, m) == pytest.approx(all_places(k, m))


def test_perfect_constant_and_inverted_scores_have_closed_forms():
    evidence, every = np.array([True, False, True, False, False]), np.ones(5, bool)
    by_chance = (0.4, all_places(2, 5))
    beside = (0.2, 1 / 4, 5)  # recall by chance; depth of the first and the third of five tokens
    for scores, marked, expected in (
        (evidence, evidence, (1, 1, 1, 1, *by_chance, 1 / 2, *beside)),
        # The scores have two levels; evidence has the lower one.
        (~evidence, evidence, (0, 0, 0, 0.4, *by_chance, 0, *beside)),
        # One evidence token is the highest of all, the other the lowest.
        (np.array([2, 1, 0, 1, 1]) / 2, evidence, (1, 1 / 2, 0.4, 0.7, *by_chance, 1 / 2, *beside)),
        (every / 2, evidence, (0.4, 0.4, 0.4, 0.4, *by_chance, 0.2, *beside)),
        (every, every, (*[1] * 6, 0.2, 0.2, 1 / 2, 5)),
    ):
        assert on_evidence(scores.astype(float), marked) == pytest.approx(expected)


@pytest.mark.parametrize("m", [3, 10, 11, 29])
@pytest.mark.parametrize("levels", [2, 1000])
def test_recall_uses_the_top_tenth_of_tokens(m, levels):
    count = ceil(m / 10)
    for _ in range(20):
        scores = GENERATOR.integers(levels, size=m) / levels + 1e-9
        evidence = GENERATOR.permutation(m) < 3
        values = dict(zip(METRICS, on_evidence(scores, evidence), strict=True))
        recall = count * share_of_highest(scores, evidence, count) / 3
        assert values["recall_at_10_percent"] == pytest.approx(recall)
        assert values["recall_by_chance"] == count / m


@pytest.mark.parametrize("levels", [1, 2, 3, 100])
def test_average_precision_equals_sklearns_for_ties(levels):
    for _ in range(50):
        scores = GENERATOR.integers(levels, size=9) / levels
        evidence = GENERATOR.permutation(9) < GENERATOR.integers(1, 10)
        expected = average_precision_score(evidence, scores)
        assert average_precision(scores, evidence) == pytest.approx(expected)


def summarised(folder, prompt_rows, attributions, answers=None, **changes):
    """Return values and status by sample and metric, of one method."""
    prompts = explained_rows.write(folder, "prompts", prompt_rows, "llama")
    scores = explained_rows.write(folder, "attributions", attributions, "llama", "mine")
    answers = answers or [explained_rows.answer(prompt["sample_id"]) for prompt in prompt_rows]
    generations = explained_rows.write(folder, "generations", answers, "llama")
    files = {"prompts": [prompts], "generations": [generations], "attributions": [scores]}
    settings = SETTINGS | changes
    rows = script_runs.summary_rows("evidence", settings, files, folder, "evidence_samples")
    assert {(r["model"], r["method"], r["dataset"]) for r in rows} == {("llama", "mine", "sst2")}
    return {(r["sample_id"], r["metric"]): (r["value"], r["status"]) for r in rows}


def test_samples_are_means_over_steps_with_scores(tmp_path):
    raw = {step: GENERATOR.normal(size=6) for step in (0, 5)}
    evidence = np.array([False, True, False, False, True, True])
    rows = [explained_rows.attribution("a", raw[step], step) for step in raw]
    rows.append(explained_rows.attribution("a", None, 10, "nonfinite_attribution"))
    values = summarised(tmp_path, [explained_rows.prompt("a", ["t"] * 6, evidence=[1, 4, 5])], rows)
    scores = [normalise(raw[step].astype(np.float32), "minmax") for step in raw]
    expected = np.mean([on_evidence(step_scores, evidence) for step_scores in scores], axis=0)
    for metric, value in zip(METRICS, expected, strict=True):
        assert values["a", metric] == (pytest.approx(value), "ok")


def test_missing_scores_or_evidence_are_rows_with_a_reason(tmp_path):
    evidence = {"failed": [0], "unmarked": None, "nowhere": []}
    prompts = [explained_rows.prompt(name, ["t"] * 3, marked) for name, marked in evidence.items()]
    rows = [explained_rows.attribution("failed", None, 0, "nonfinite_attribution")]
    rows += [explained_rows.attribution(name, [1, 2, 3]) for name in ("unmarked", "nowhere")]
    values = summarised(tmp_path, prompts, rows)
    statuses = ("nonfinite_attribution", "no_evidence", "no_evidence")
    for metric, (name, status) in itertools.product(METRICS, zip(evidence, statuses, strict=True)):
        assert values[name, metric] == (None, status)


RED, BOTH = {"red": 1}, {"red": 0, "blue": 4}  # where each answer's statement stands
ANSWERS = {  # statements, answer, answers without each of these, evidence or the reason for none
    "shown": (RED, "red", ["blue"], 1),
    "unread": (RED, "red", ["red"], "answer_unchanged"),
    "unknown": (RED, "red", [None], "answer_unchanged"),
    "wrong": (RED, "green", ["blue"], "answer_not_stated"),
    "first of two": (BOTH, "red", ["green", "red"], 0),
    "second of two": (BOTH, "blue", ["blue", "red"], 4),
    "either of two": (BOTH, "blue", ["blue", "blue"], "answer_unchanged"),
}


def planted(sample_id, places):
    """Return a prompt of six tokens, of which each answer's statement is at one place."""
    masks = {
        answer: explained_rows.prompt(sample_id, ["t"] * 6, [at])["evidence_mask"]
        for answer, at in places.items()
    }
    counterfactuals = [
        {"answer": answer, "evidence_mask": mask, "input_ids": [1]}
        for answer, mask in masks.items()
    ]
    prompt = explained_rows.prompt(sample_id, ["t"] * 6, sorted(places.values()))
    return prompt | {"counterfactuals": counterfactuals}


def test_planted_evidence_is_the_statement_that_changes_the_answer(tmp_path):
    raw = [0, 5, 1, 2, 3, 4]
    prompts = [planted(name, places) for name, (places, *_) in ANSWERS.items()]
    answers = [
        explained_rows.answer(name, predicted=label) | {"counterfactual_labels": changed}
        for name, (_, label, changed, _) in ANSWERS.items()
    ]
    scores = [explained_rows.attribution(name, raw) for name in ANSWERS]
    values = summarised(tmp_path, prompts, scores, answers)
    for name, (*_, evidence) in ANSWERS.items():
        expected = [(None, evidence)] * len(METRICS)
        if isinstance(evidence, int):
            numbers = on_evidence(np.array(raw) / 5, np.arange(6) == evidence)
            expected = [(pytest.approx(number), "ok") for number in numbers]
        assert [values[name, metric] for metric in METRICS] == expected
