"""Soft metrics against a ten-line loop in float64 on the same masks, and closed forms."""

import numpy as np
import pytest
import torch

from pisoft.config import EvaluationSettings
from pisoft.faithfulness.calibration import clip_scores
from pisoft.faithfulness.masks import ORIGINAL, keyed_uniforms
from pisoft.faithfulness.soft import (
    PerturbationTarget,
    SoftPerturber,
    evaluate_step,
    perturbable_positions,
)
from random_models import SHAPES, VOCABULARY, twins

IDS = [1, 40, 41, 8, 9, 10, 33, 60, 12, 7]
PERTURBABLE = np.array([3, 4, 6, 7, 8])
SETTINGS = EvaluationSettings(pi_grid=(0.2, 0.5, 0.9), draws=4)


def attribution(raw, status="ok"):
    return {"sample_id": "s", "step": 0, "raw_scores": raw, "status": status}


def raw_scores(seed=0):
    return np.random.default_rng(seed).normal(size=len(IDS)).tolist()


def plain_distance(plain, mask):
    embeddings = plain.get_input_embeddings()(torch.tensor([IDS])).clone()
    clean = plain(inputs_embeds=embeddings).logits[0, -1].softmax(-1)
    for position, kept in zip(PERTURBABLE, mask, strict=True):
        embeddings[0, position] *= float(kept)
    perturbed = plain(inputs_embeds=embeddings).logits[0, -1].softmax(-1)
    return (((clean.sqrt() - perturbed.sqrt()) ** 2).sum() / 2).sqrt().item()


@pytest.mark.parametrize("budget", [1, 30, 10_000])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_draw_equals_the_plain_loop(shape, budget):
    model, plain = twins(shape)
    rows = evaluate_step(
        model, PerturbationTarget(IDS, PERTURBABLE), attribution(raw_scores()), SETTINGS, 5, budget
    )
    raw = np.array(raw_scores())[PERTURBABLE]
    scores = (raw - raw.min()) / (raw.max() - raw.min())
    for index, row in zip([ORIGINAL, 0, 1, 2], rows, strict=True):
        floor = SETTINGS.score_floor
        s = scores if index == ORIGINAL else clip_scores(scores, floor) ** row["alpha"]
        assert row["pi"] is None or s.mean() == pytest.approx(row["pi"], abs=1e-9)
        masks = keyed_uniforms(5, "s", 0, index, 4, 5) < s
        ns = [plain_distance(plain, mask) for mask in masks]
        nc = [plain_distance(plain, ~mask) for mask in masks]
        np.testing.assert_allclose(row["ns_distances"], ns, atol=1e-7)
        np.testing.assert_allclose(row["nc_distances"], nc, atol=1e-7)
        assert row["h0"] == pytest.approx(plain_distance(plain, np.zeros(5)), abs=1e-7)


@pytest.mark.parametrize("shape", SHAPES)
def test_zeroing_everything_gives_the_closed_form(shape):
    """All-zero embeddings give uniform logits, so H₀ = √(1 − Σ√p_i / √V)."""
    model, plain = twins(shape)
    p = plain(torch.tensor([IDS])).logits[0, -1].softmax(-1)
    expected = (1 - p.sqrt().sum() / VOCABULARY**0.5).sqrt().item()
    target = PerturbationTarget(IDS, np.arange(len(IDS)))
    distance = SoftPerturber(model, target, 100).distances(np.zeros((1, len(IDS)), bool))
    assert distance[0] == pytest.approx(expected, abs=1e-7)


def test_keeping_everything_is_no_perturbation():
    model, _ = twins("llama-gqa", torch.float32)
    perturber = SoftPerturber(model, PerturbationTarget(IDS, PERTURBABLE), 1000)
    assert perturber.distances(np.ones((3, 5), bool)).max() < 1e-3


def test_single_perturbable_token_gets_pi_itself():
    model, _ = twins("llama-gqa")
    rows = evaluate_step(
        model, PerturbationTarget(IDS, np.array([5])), attribution(raw_scores()), SETTINGS, 1, 99
    )
    assert [row["status"] for row in rows] == ["ok"] * 4
    assert rows[1]["achieved"] == pytest.approx(0.2, abs=1e-9)


def statuses(model, target, row):
    rows = evaluate_step(model, target, row, SETTINGS, 1, 99)
    assert [row["pi"] for row in rows] == [None, 0.2, 0.5, 0.9]
    return {row["status"] for row in rows}


def test_failures_are_rows_with_a_status():
    model, _ = twins("llama-gqa")
    target = PerturbationTarget(IDS, PERTURBABLE)
    broken = raw_scores()
    broken[4] = float("nan")
    assert statuses(model, target, attribution(broken)) == {"nonfinite_attribution"}
    assert statuses(model, target, attribution(None, "empty_generation")) == {"empty_generation"}
    empty = PerturbationTarget(IDS, np.array([], int))
    assert statuses(model, empty, attribution(raw_scores())) == {"no_content_tokens"}


def test_nan_outside_the_perturbable_tokens_does_no_harm():
    model, _ = twins("llama-gqa")
    raw = raw_scores()
    raw[0] = float("nan")
    assert statuses(model, PerturbationTarget(IDS, PERTURBABLE), attribution(raw)) == {"ok"}


def test_zero_baseline_equal_to_the_clean_prediction_is_degenerate():
    model, _ = twins("llama-gqa")
    model.network.lm_head.weight.data.zero_()
    target = PerturbationTarget(IDS, PERTURBABLE)
    assert statuses(model, target, attribution(raw_scores())) == {"degenerate_baseline"}


def test_logits_that_are_not_finite_are_reported():
    model, _ = twins("llama-gqa")
    model.network.lm_head.weight.data.fill_(float("nan"))
    target = PerturbationTarget(IDS, PERTURBABLE)
    assert statuses(model, target, attribution(raw_scores())) == {"nonfinite_logits"}


def test_scopes_choose_the_positions():
    prompt = {
        "input_ids": [1, 2, 3, 4, 5],
        "bos_mask": [True, False, False, False, False],
        "user_mask": [False, False, True, True, False],
        "content_mask": [False, False, False, True, False],
    }
    found = {
        scope: perturbable_positions(prompt, scope).tolist()
        for scope in ("content", "user_turn", "all_but_bos", "all")
    }
    assert found == {
        "content": [3],
        "user_turn": [2, 3],
        "all_but_bos": [1, 2, 3, 4],
        "all": [0, 1, 2, 3, 4],
    }
