"""Deletion curves of generated answers, against plain forwards and the formulas in a loop."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from helpers import explained_rows
from helpers.limited_memory import Memory
from helpers.quick_cases import one_quick
from helpers.random_models import SHAPES, VOCABULARY, model_and_network
from pisoft.config.evaluation import RankingSettings
from pisoft.faithfulness.answer_deletion import areas, mass_left
from pisoft.faithfulness.ranking import RankingEvaluator

STEPS = 5


def sample_of(sample_id, prompt, content, answer, steps, seed):
    """Return rows of a prompt, its answer and random scores at each explained step."""
    row = explained_rows.prompt_of_ids(sample_id, prompt, content)
    generation = {
        "output_ids": answer, "steps": steps, "target_ids": [answer[step] for step in steps],
    }  # fmt: skip
    scores = np.random.default_rng(seed).normal(0.5, 1, size=(len(steps), len(prompt)))
    return row, generation, [{"status": "ok", "raw_scores": one.tolist()} for one in scores]


def ids(count, seed):
    return np.random.default_rng(seed).integers(3, VOCABULARY, count).tolist()


BLOCK = [
    sample_of("a", [1, 7, *ids(12, 0), 9], range(2, 14), ids(9, 1), [0, 4, 8], 0),
    sample_of("b", [1, 7, *ids(5, 2), 9], [2, 4, 5], ids(3, 3), [0], 1),
    sample_of("c", [1, 8, *ids(7, 4)], range(2, 9), ids(6, 5), [0, 5], 2),
]


def evaluate(model, block=BLOCK, scope="content", budget=1000, operator="remove"):
    settings = RankingSettings(steps=STEPS, operator=operator, answer_deletion=True)
    rows = RankingEvaluator(model, settings, scope, 3, budget).evaluate_block(block)
    return {(row["sample_id"], row["curve"]): row for row in rows}


@torch.no_grad()
@pytest.mark.parametrize("operator", ["remove", "zero"])
@pytest.mark.parametrize("shape", one_quick(SHAPES))
def test_log_probabilities_equal_those_of_plain_forwards(shape, operator):
    model, plain = model_and_network(shape)
    table = plain.get_input_embeddings()
    rows = evaluate(model, operator=operator)
    for prompt, answer, scores in BLOCK:
        places = np.flatnonzero(prompt["content_mask"])
        raw = np.sum([step["raw_scores"] for step in scores], axis=0)[places]
        order = places[np.argsort(-raw)]
        expected = []
        for step in range(STEPS + 1):
            gone = order[: round(step * len(order) / STEPS)]
            kept = ~np.isin(np.arange(len(prompt["input_ids"])), gone)
            given = table(torch.tensor([prompt["input_ids"]])) * torch.tensor(kept)[:, None]
            read = torch.tensor([answer["output_ids"][: answer["steps"][-1]]], dtype=torch.long)
            given = given[:, kept] if operator == "remove" else given
            logits = plain(inputs_embeds=torch.cat([given, table(read)], dim=1)).logits[0]
            ends = given.shape[1] - 1 + torch.tensor(answer["steps"])
            log_probabilities = logits[ends].log_softmax(-1)[range(len(ends)), answer["target_ids"]]
            expected.append(float(log_probabilities.sum()))
        row = rows[prompt["sample_id"], "answer_deletion"]
        assert row["log_probabilities"] == pytest.approx(expected, abs=1e-5)
        assert (row["perturbable"], row["flips"]) == (len(places), None)
        fall = expected[0] - np.array(expected)
        plain_area = (fall.sum() - fall[-1] / 2) / STEPS / len(answer["steps"])
        assert row["auc"] == pytest.approx(plain_area, abs=1e-5)


def by_the_paper(values, removed):
    """RISE and MAS step by step, after FlashTrace's description; `removed` is mass by step."""
    lowest, left, rise, mas = 1.0, 1.0, [], []
    for step, value in enumerate(values):
        scaled = (value - values[-1]) / (values[0] - values[-1])
        lowest = min(lowest, max(0.0, scaled))
        left -= removed[step - 1] if step else 0
        rise.append(lowest)
        mas.append(min(1.0, lowest + abs(lowest - left)))
    low, high = min(mas), max(mas)
    mas = [(value - low) / (high - low) for value in mas]
    return [(sum(one) - one[0] / 2 - one[-1] / 2) / (len(one) - 1) for one in (rise, mas)]


@pytest.mark.parametrize("seed", range(20))
def test_rise_is_the_running_minimum_and_mas_adds_its_distance_to_mass(seed):
    generator = np.random.default_rng(seed)
    raw = np.sort(generator.exponential(size=3 * STEPS))[::-1]
    values = np.sort(generator.normal(-9, 3, STEPS + 1))[::-1]
    values[1:-1] = generator.permutation(values[1:-1])
    places = np.arange(len(raw))
    kept = np.array([places >= 3 * step for step in range(STEPS + 1)])
    computed = areas(values, mass_left(raw, kept), 4)
    removed = raw.reshape(STEPS, 3).sum(axis=1) / raw.sum()
    assert [computed["rise"], computed["mas"]] == pytest.approx(by_the_paper(values, removed))
    assert computed["answer_deletion"] == pytest.approx(
        np.trapezoid(values[0] - values) / STEPS / 4
    )


def test_scores_without_positive_sum_give_a_straight_line():
    kept = np.array([[True, True], [False, True], [False, False]])
    assert mass_left(np.array([1.0, -1.0]), kept).tolist() == [1, 0.5, 0]
    assert mass_left(np.array([3.0, -1.0]), kept).tolist() == [1, -0.5, 0]


def test_answers_made_likelier_by_deletion_have_no_scaled_curve():
    for values in ([-5.0, -7, -4], [-5.0, -7, -5]):
        computed = areas(np.array(values), np.linspace(1, 0, 3), 1)
        assert (computed["rise"], computed["mas"]) == (None, None)
        assert np.isfinite(computed["answer_deletion"])


def test_rows_without_numbers_state_the_reason():
    model, _ = model_and_network("llama-gqa")
    (prompt, answer, scores), *others = BLOCK
    failed = [(prompt, answer, [*scores[:2], {"status": "nonfinite_attribution"}]), *others]
    rows = evaluate(model, failed)
    for curve in ("answer_deletion", "rise", "mas"):
        assert rows["a", curve]["status"] == "nonfinite_attribution"
    whole = evaluate(model, scope="all")
    statuses = {row["status"] for row in whole.values()}
    assert statuses == {"not_applicable"}, "nothing is left to read"
    zeroed = evaluate(model, scope="all", operator="zero")
    assert {row["status"] for row in zeroed.values()} <= {"ok", "answer_not_less_likely"}
    for row in zeroed.values():
        assert (row["auc"] is None) == (row["status"] != "ok")


def test_batches_change_no_result_and_memory_failures_have_a_status():
    model, _ = model_and_network("llama-gqa")
    rows = evaluate(model, budget=10_000)
    for key, row in evaluate(model, budget=30).items():
        expected = rows[key]
        assert row["status"] == expected["status"]
        assert row["log_probabilities"] == pytest.approx(expected["log_probabilities"], abs=1e-5)
    with Memory(limit=1):
        assert {row["status"] for row in evaluate(model).values()} == {"too_long_for_memory"}
