"""Ablation operators against the plain model: replaced embeddings and hidden tokens."""

import copy

import numpy as np
import pytest
import torch

from helpers.evaluations import distances
from helpers.random_models import SHAPES, VOCABULARY, model_and_network
from helpers.tiny_tokenizers import numbered_tokenizer
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.perturbation import PerturbationTarget
from pisoft.models.ablation import Ablator, mean_embedding, reference_token
from pisoft.models.model import LanguageModel

IDS = [1, 40, 41, 8, 9, 10, 33, 60, 12, 7]
PERTURBABLE = np.array([3, 4, 6, 7, 8])
TARGET = PerturbationTarget(IDS, PERTURBABLE, 5)
MASKS = np.random.default_rng(0).random((9, 5)) < 0.5


def hellinger(one, other):
    return float((one.softmax(-1).sqrt() - other.softmax(-1).sqrt()).square().sum().div(2).sqrt())


@torch.no_grad()
def plain_distances(plain, ablated):
    """Return distances of inputs, each given as embeddings (T, d) and positions (T,), (N,)."""
    clean = plain(torch.tensor([IDS])).logits[0, -1]
    computed = []
    for inputs, positions in ablated:
        logits = plain(inputs_embeds=inputs[None], position_ids=positions[None]).logits[0, -1]
        computed.append(hellinger(clean, logits))
    return np.array(computed)


ELEMENTS = np.random.default_rng(1).random((3, 5, 32)) < 0.5


@pytest.mark.parametrize(
    ("operator", "masks"), [("mean", MASKS), ("unknown", MASKS), ("mean", ELEMENTS)]
)
@pytest.mark.parametrize("shape", SHAPES)
def test_ablation_replaces_tokens_or_single_elements_of_embeddings(shape, operator, masks):
    model, plain = model_and_network(shape)
    weights = plain.get_input_embeddings().weight.detach()
    unknown = weights[numbered_tokenizer(VOCABULARY).unk_token_id]
    fill = weights.mean(dim=0) if operator == "mean" else unknown
    ablated = []
    for mask in masks:
        inputs = weights[torch.tensor(IDS)]
        kept = torch.from_numpy(mask.reshape(5, -1))
        inputs[PERTURBABLE] = torch.where(kept, inputs[PERTURBABLE], fill)
        ablated.append((inputs, torch.arange(len(IDS))))
    measured = distances(model, TARGET, masks, 30, operator=operator)
    np.testing.assert_allclose(measured, plain_distances(plain, ablated), atol=1e-6)


@pytest.mark.parametrize("shape", ["llama-gqa", "llama-mha-tied"])
def test_hiding_tokens_equals_removing_them(shape):
    """Sliding windows, which count present tokens, are tested with the families."""
    model, plain = model_and_network(shape)
    embeddings = plain.get_input_embeddings().weight.detach()[torch.tensor(IDS)]
    there = [np.setdiff1d(np.arange(len(IDS)), PERTURBABLE[~mask]) for mask in MASKS]
    shorter = [(embeddings[places], torch.from_numpy(places)) for places in there]
    measured = distances(model, TARGET, MASKS, 30, operator="hide")
    np.testing.assert_allclose(measured, plain_distances(plain, shorter), atol=1e-6)


def test_the_mean_is_taken_over_the_vocabulary(monkeypatch):
    monkeypatch.setattr("pisoft.models.ablation.CHUNK", 10)  # of 97
    model, plain = model_and_network("llama-gqa")
    expected = plain.get_input_embeddings().weight.detach().mean(dim=0)
    torch.testing.assert_close(mean_embedding(model), expected)


def test_a_tokenizer_without_reference_tokens_is_refused():
    model, _ = model_and_network("llama-gqa")
    tokenizer = copy.deepcopy(numbered_tokenizer(VOCABULARY))  # shared with other tests
    tokenizer.unk_token = tokenizer.pad_token = tokenizer.eos_token = None
    bare = LanguageModel(model.network, "bare", lambda: tokenizer)
    with pytest.raises(
        BenchmarkError, match=r"'bare': its tokenizer has no unknown, .* 'unknown' needs"
    ):
        Ablator(bare, "unknown")


def test_a_padding_token_without_an_embedding_is_skipped():
    """Regression: a padding token added to the tokenizer only raised an IndexError."""
    model, _ = model_and_network("llama-gqa")
    tokenizer = copy.deepcopy(numbered_tokenizer(VOCABULARY))
    tokenizer.unk_token = None
    tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    padded = LanguageModel(model.network, "padded", lambda: tokenizer)
    assert tokenizer.pad_token_id == VOCABULARY
    assert reference_token(padded, "") == tokenizer.eos_token_id


def test_a_model_that_attends_to_hidden_keys_is_refused(monkeypatch):
    """For example, a model that ignores or reinterprets its attention mask."""
    model, _ = model_and_network("llama-gqa")
    forward = model.decoder.forward
    monkeypatch.setattr(
        model.decoder,
        "forward",
        lambda *args, **options: forward(*args, **options | {"attention_mask": None}),
    )
    deaf = LanguageModel(model.network, "deaf")
    with pytest.raises(BenchmarkError, match=r"model 'deaf' .* hidden tokens change its answer"):
        Ablator(deaf, "hide")
