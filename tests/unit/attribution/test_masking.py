"""Mask regression and Shapley values against enumeration in float64; shared masking code."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch

from helpers.attributions import attribute, build
from helpers.random_models import random_model, samples
from pisoft.attribution.masking import all_masks
from pisoft.errors import BenchmarkError
from pisoft.models.model import ExplainedSample, Targets

UNITS = 5
EXACT = {"rtol": 1e-9, "atol": 1e-12}
SHAPLEY = ("kernel_shap", "permutation_shap")
METHODS = ("mask_regression", *SHAPLEY)


@pytest.fixture(scope="module")
def model():
    return random_model("llama-gqa")


def short(**changes) -> ExplainedSample:
    ids = samples()[0].prompt_ids[:UNITS]
    return replace(ExplainedSample("short", ids, [7, 8, 9], [0, 2], [7, 9]), **changes)


def game(model, sample, function=lambda p: p, places=None):
    """Return the value (S,) of every coalition of prompt positions, by brute force."""
    table = model.network.get_input_embeddings().weight
    places = range(len(sample.prompt_ids)) if places is None else places

    def value(present):
        values = []
        for step, target in zip(sample.steps, sample.target_ids, strict=True):
            ids = [*sample.prompt_ids, *sample.output_ids[:step]]
            absent = set(places) - set(present)
            ids = torch.tensor([0 if place in absent else i for place, i in enumerate(ids)])
            with torch.no_grad():
                logits = model.network(inputs_embeds=table[ids][None]).logits[0, -1]
            values.append(float(function(logits.softmax(dim=-1)[target])))
        return np.array(values)

    return {
        frozenset(np.array(places)[mask].tolist()): value(np.array(places)[mask].tolist())
        for mask in all_masks(len(places))
    }


def changes(values, player):
    """Return a player's marginal contribution to each coalition without it, by coalition."""
    return {s: values[s | {player}] - v for s, v in values.items() if player not in s}


def banzhaf(values, players):
    return np.array([np.mean([*changes(values, i).values()], axis=0) for i in players]).T


def shapley(values, players):
    """Return the mean over all orders in which players join, (S, m)."""
    scores = np.zeros((len(players), len(next(iter(values.values())))))
    orders = list(permutations(players))
    for order in orders:
        for place, player in enumerate(order):
            before = frozenset(order[:place])
            scores[player] += values[before | {player}] - values[before]
    return scores.T / len(orders)


def log_odds(p):
    return torch.log(p / (1 - p))


def test_least_squares_over_all_masks_are_banzhaf_values(model):
    options = {"forwards": 2**UNITS, "alpha": 0, "signed": True}
    (scores,) = attribute("mask_regression", model, [short()], **options)
    expected = banzhaf(game(model, short(), log_odds), range(UNITS))
    np.testing.assert_allclose(scores, expected, **EXACT)


def test_the_lasso_shrinks_standardised_weights_by_alpha(model):
    """All masks are orthogonal, and their standard deviation is ½."""
    expected = banzhaf(game(model, short(), log_odds), range(UNITS))
    alpha = float(np.median(np.abs(expected))) / 2
    options = {"forwards": 2**UNITS, "alpha": alpha, "signed": True}
    (scores,) = attribute("mask_regression", model, [short()], **options)
    shrunken = np.sign(expected) * np.maximum(np.abs(expected) - 2 * alpha, 0)
    assert (shrunken == 0).any()
    np.testing.assert_allclose(scores, shrunken, rtol=1e-6, atol=1e-9)


def test_fewer_masks_than_units_give_a_sparse_model(model):
    (scores,) = attribute("mask_regression", model, samples()[:1], forwards=6)
    assert 0 < (scores != 0).sum(dim=1).max() <= 6


@pytest.mark.parametrize("alpha", [0, 0.01])
def test_a_nonfinite_value_affects_only_its_step(alpha):
    masks = all_masks(3)
    values = np.stack([np.where(masks[:, 0], np.nan, 0), masks[:, 1]], axis=1)
    scores = build("mask_regression", alpha=alpha).unit_scores(masks, values)
    np.testing.assert_array_equal(np.isfinite(scores), [[False, True]] * 3)


def test_kernel_shap_over_all_masks_is_exact(model):
    (scores,) = attribute("kernel_shap", model, [short()], forwards=2**UNITS, signed=True)
    expected = shapley(game(model, short()), range(UNITS))
    np.testing.assert_allclose(scores, expected, **EXACT)


def test_permutations_approach_the_exact_values(model):
    (scores,) = attribute("permutation_shap", model, [short()], forwards=4000, signed=True)
    expected = shapley(game(model, short()), range(UNITS))
    np.testing.assert_allclose(scores, expected, rtol=0, atol=0.1 * np.abs(expected).max())


@pytest.mark.parametrize("forwards", [6, 10, 13, 14, 18])
def test_permutations_add_units_one_by_one_and_come_in_reversed_pairs(forwards):
    masks = build("permutation_shap").sampled(np.random.default_rng(1), UNITS, forwards)
    assert len(np.unique(masks, axis=0)) <= forwards
    orders = masks.reshape(-1, UNITS + 1, UNITS).sum(axis=1)  # units still present, per unit
    assert len(orders) == (forwards - 2) // (UNITS - 1)
    assert all(sorted(order) == [1, 2, 3, 4, 5] for order in orders.tolist())
    np.testing.assert_array_equal(orders[1::2], UNITS + 1 - orders[: len(orders) // 2 * 2 : 2])


def test_kernel_shap_pairs_coalitions_with_complements_within_budget():
    masks = build("kernel_shap").sampled(np.random.default_rng(1), 9, 51)
    assert len(masks) == 50
    some = masks[20:]
    assert set(some.sum(axis=1)) <= set(range(2, 8))
    np.testing.assert_array_equal(some[:15], ~some[15:])


@pytest.mark.parametrize("name", SHAPLEY)
def test_a_linear_game_is_solved_by_the_default_number_of_forwards(name):
    weights = np.arange(8.0)
    masks = build(name).sampled(np.random.default_rng(1), 8, 18)
    scores = build(name).unit_scores(masks, (masks @ weights + 3)[:, None])
    np.testing.assert_allclose(scores[:, 0], weights, atol=1e-12)


@pytest.mark.parametrize("name", METHODS)
def test_only_tokens_in_scope_are_masked(model, name):
    """Prefix and token budget do not change values; tokens outside the scope stay present."""
    scope = [2, 3, 4]
    sample = short(scope=scope)
    exact = {"alpha": 0, "attributed_function": "probability"} if name == METHODS[0] else {}
    options = {"forwards": 300, "signed": True, **exact}
    (scores,) = attribute(name, model, [sample], token_budget=1, **options)
    (whole,) = attribute(name, model, [sample], token_budget=999, **options)
    torch.testing.assert_close(scores, whole, rtol=1e-10, atol=1e-12)
    assert (scores[:, :2] == 0).all()
    values = game(model, sample, places=scope)
    if name == "mask_regression":
        np.testing.assert_allclose(scores[:, 2:], banzhaf(values, scope), **EXACT)
    else:
        total = values[frozenset(scope)] - values[frozenset()]
        np.testing.assert_allclose(scores.sum(dim=1), total, **EXACT)
    (nothing,) = attribute(name, model, [short(scope=[])])
    assert nothing.shape == (2, UNITS)
    assert (nothing == 0).all()


def test_tokens_of_a_word_or_sentence_share_its_score(model, monkeypatch):
    texts = {1: "It", 3: " wo", 4: "rks", 5: ".", 6: " We", 7: " wait", 8: "."}
    monkeypatch.setattr(
        "pisoft.prompts.token_texts.token_texts", lambda _, ids: [texts[i] for i in ids]
    )
    sample = short(prompt_ids=[1, 3, 4, 5, 6, 7, 8])
    values = game(model, sample)
    first, second = frozenset(range(4)), frozenset(range(4, 7))
    empty, whole = values[frozenset()], values[first | second]
    half = (values[first] - empty + whole - values[second]) / 2  # the Shapley value of two players
    expected = np.repeat([half, whole - empty - half], [4, 3], axis=0).T
    (scores,) = attribute("kernel_shap", model, [sample], unit="sentence", signed=True)
    np.testing.assert_allclose(scores, expected, **EXACT)
    (scores,) = attribute("kernel_shap", model, [sample], unit="word", signed=True)
    assert [len(set(row.tolist())) for row in scores] == [4, 4]
    assert (scores[:, 1:4] == scores[:, [1]]).all(), "` works.` is one word"
    assert (scores[:, 5:] == scores[:, [5]]).all()


@pytest.mark.parametrize(
    ("name", "forwards", "fewest"), [("permutation_shap", 13, 14), ("kernel_shap", 27, 28)]
)
def test_too_few_forwards_are_refused(model, name, forwards, fewest):
    message = rf"^method '{name}': option forwards: {forwards} is less than {fewest}, which the 13 "
    with pytest.raises(BenchmarkError, match=message + r"units \(tokens\) of sample long need"):
        attribute(name, model, samples()[:1], forwards=forwards)
    attribute(name, model, samples()[:1], forwards=fewest)
    attribute(name, model, [short(scope=[1, 3])], forwards=4)  # all masks of two units


def test_masks_depend_on_the_sample_and_not_on_evaluation_draws(model, monkeypatch):
    keys = []
    monkeypatch.setattr(
        "pisoft.attribution.masking.keyed_generator",
        lambda *key: keys.append(key) or np.random.default_rng(1),
    )
    attribute("permutation_shap", model, [short()], seed=5)
    assert keys == [(5, "permutation_shap", "short")]


def test_a_price_counts_the_scope_and_its_shared_prefix():
    def price(name, scope, **options):
        return build(name, token_budget=8, **options).forwards(40, 1, scope)

    assert price("mask_regression", range(38, 40)) == pytest.approx((38 + 6 * 2) / 40)
    assert price("mask_regression", None) == 2 * 41
    assert price("permutation_shap", None, forwards=100) == 100
    singles = (35 + 5) + (36 + 2 * 4) + (38 + 3 * 2)  # batches of 1, 2 and 3 rows, clean ones last
    assert price("occlusion", range(35, 40)) == pytest.approx(singles / 40)
    assert price("kernel_shap", range(35, 40)) == pytest.approx(2 * singles / 40)


@pytest.mark.parametrize("name", METHODS)
def test_a_prompt_may_have_more_than_64_units(model, name):
    ids = (3 * samples()[0].prompt_ids * 9)[:70]
    (scores,) = attribute(name, model, [ExplainedSample("long", ids, [7], [0], [7])])
    assert scores.isfinite().all()


def test_log_odds_are_precise_near_probability_one():
    from pisoft.models.gradients import attributed_values

    logits, targets = torch.tensor([[[60.0, 0.0, 0.0]]]), Targets(torch.tensor([[[0]]]))
    expected = 60 - torch.log(torch.tensor([[2.0]]))
    torch.testing.assert_close(attributed_values(logits, targets, "log_odds"), expected)
