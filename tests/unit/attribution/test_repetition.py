"""Agreement of half-precision scores with float32: compared steps and correlations."""

import copy

import pytest
import torch
from scipy.stats import spearmanr

from helpers.attributions import build
from helpers.explained_rows import explained_samples
from helpers.random_models import random_model, samples
from pisoft.attribution import repetition
from pisoft.attribution.base import is_compared
from pisoft.attribution.engine import attribute_block, scores_row, time_row
from pisoft.attribution.repetition import compare_with_float32
from pisoft.models.model import LanguageModel

PAIRS = explained_samples(samples())


@pytest.fixture
def model():
    model = random_model("llama-gqa", torch.bfloat16)
    for weight in model.network.model.layers.parameters():
        weight.data *= 4  # large enough for rounding to change ranks
    return model


def compared(name, model, pairs=PAIRS, first_block=0):
    """Return rows of pairs, each pair a block."""
    method = build(name)
    rows = attribute_block(method, model, pairs)
    compare_with_float32(method, model, [[pair] for pair in pairs], rows, first_block)
    return rows


def agreements(rows):
    return {
        (row["sample_id"], row["step"]): row["float32_agreement"]
        for row in map(time_row, rows)
        if row["float32_agreement"] is not None
    }


@pytest.mark.parametrize("name", ["saliency", "integrated_gradients", "occlusion", "value_zeroing"])
def test_agreement_is_the_rank_correlation_with_float32_scores(name, model, monkeypatch):
    monkeypatch.setattr(repetition, "is_compared", lambda block: True)
    weights = copy.deepcopy(model.network.state_dict())
    rows = compared(name, model)
    wide = LanguageModel(copy.deepcopy(model.network).float(), "wide", model._load_tokenizer)
    expected = attribute_block(build(name), wide, PAIRS)
    for row, exact in zip(rows, expected, strict=True):
        if row.get("float32_agreement") is not None:
            correlation = spearmanr(row["raw_scores"], exact["raw_scores"]).statistic
            assert row["float32_agreement"] == pytest.approx(correlation, abs=1e-6)
    assert min(agreements(rows).values()) < 1, "these scores were not in float32"
    for weight, before in zip(model.network.state_dict().values(), weights.values(), strict=True):
        assert weight.dtype == before.dtype == torch.bfloat16
        assert torch.equal(weight, before)


def test_compared_steps_do_not_depend_on_the_shard(model, monkeypatch):
    assert [block for block in range(300) if is_compared(block)] == [0, 1, 4, 16, 64, 256]
    monkeypatch.setattr(repetition, "is_compared", lambda block: block % 2 == 0)
    together = agreements(compared("saliency", model))
    apart = [agreements(compared("saliency", model, [p], index)) for index, p in enumerate(PAIRS)]
    assert together == {key: value for one in apart for key, value in one.items()}
    assert [name for name, _ in together] == [pair[0]["sample_id"] for pair in PAIRS[::2]]
    assert {step for _, step in together} != {0}


def test_a_comparison_changes_no_score(model):
    plain = attribute_block(build("saliency"), model, PAIRS)
    assert list(map(scores_row, compared("saliency", model))) == list(map(scores_row, plain))


def test_float32_models_and_constant_scores_have_no_agreement(monkeypatch):
    monkeypatch.setattr(repetition, "is_compared", lambda block: True)
    assert not agreements(compared("saliency", random_model("llama-gqa", torch.float32)))
    constant = random_model("llama-gqa", torch.bfloat16)
    constant.network.lm_head.weight.data.zero_()
    assert not agreements(compared("saliency", constant))
