"""Ways to take tokens away, against the plain model: other embeddings, or tokens left out."""

import copy

import numpy as np
import pytest
import torch

from helpers.evaluations import distances, masks_of
from helpers.random_models import SHAPES, VOCABULARY, twins
from helpers.tiny_tokenizers import numbered_tokenizer
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.perturbation import PerturbationTarget, Perturber
from pisoft.models.ablation import Ablator, mean_embedding
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
    found = [
        plain(inputs_embeds=inputs[None], position_ids=positions[None]).logits[0, -1]
        for inputs, positions in ablated
    ]
    return np.array([hellinger(clean, logits) for logits in found])


def embeddings(plain):
    return plain.get_input_embeddings().weight.detach()[torch.tensor(IDS)]


@pytest.mark.parametrize("operator", ["mean", "unknown"])
@pytest.mark.parametrize("shape", SHAPES)
def test_another_embedding_stands_in_place_of_a_token(shape, operator):
    model, plain = twins(shape)
    weights = plain.get_input_embeddings().weight.detach()
    tokenizer = numbered_tokenizer(VOCABULARY)
    fill = weights.mean(dim=0) if operator == "mean" else weights[tokenizer.unk_token_id]
    ablated = []
    for mask in MASKS:
        inputs = embeddings(plain).clone()
        inputs[PERTURBABLE[~mask]] = fill
        ablated.append((inputs, torch.arange(len(IDS))))
    found = distances(model, TARGET, MASKS, 30, operator=operator)
    np.testing.assert_allclose(found, plain_distances(plain, ablated), atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_hidden_tokens_might_as_well_not_be_there(shape):
    model, plain = twins(shape)
    if getattr(plain.config, "sliding_window", None):  # a window counts tokens that are there
        expected = masked_distances(plain)
    else:
        there = [np.setdiff1d(np.arange(len(IDS)), PERTURBABLE[~mask]) for mask in MASKS]
        shorter = [(embeddings(plain)[places], torch.from_numpy(places)) for places in there]
        expected = plain_distances(plain, shorter)
    found = distances(model, TARGET, MASKS, 30, operator="hide")
    np.testing.assert_allclose(found, expected, atol=1e-6)


@torch.no_grad()
def masked_distances(plain):
    """Return distances by the network's own mask of padding, (N,)."""
    clean = plain(torch.tensor([IDS])).logits[0, -1]
    found = []
    for mask in MASKS:
        seen = torch.ones(1, len(IDS), dtype=torch.long)
        seen[0, PERTURBABLE[~mask]] = 0
        places = torch.arange(len(IDS))[None]
        logits = plain(torch.tensor([IDS]), attention_mask=seen, position_ids=places).logits
        found.append(hellinger(clean, logits[0, -1]))
    return np.array(found)


def test_inputs_of_different_lengths_are_hidden_side_by_side():
    model, _ = twins("llama-gqa")
    targets = [
        TARGET,
        PerturbationTarget([1, 40, 41, 8, 50, 51], np.array([3, 4]), 5),  # the same prefix
        PerturbationTarget([9, 8, 7, 6], np.array([0, 1, 2]), 5),  # none
    ]
    masks = [MASKS, np.array([[1, 0], [0, 0]], dtype=bool), np.array([[0, 0, 1]], dtype=bool)]
    wanted = [masks_of(*pair) for pair in zip(targets, masks, strict=True)]
    together = Perturber(model, 10_000, operator="hide").measure(wanted)
    for target, of_target, found in zip(targets, masks, together, strict=True):
        alone = distances(model, target, of_target, 1, operator="hide")
        np.testing.assert_allclose(found[:, 0], alone, atol=1e-6)


@pytest.mark.parametrize("operator", ["mean", "unknown", "hide"])
def test_a_mask_that_keeps_everything_changes_nothing(operator):
    model, _ = twins("llama-gqa")
    kept = np.ones((2, 5), dtype=bool)
    assert distances(model, TARGET, kept, 1, operator=operator).max() < 1e-7


def test_single_elements_become_those_of_the_mean():
    model, plain = twins("llama-gqa")
    masks = np.random.default_rng(1).random((3, 5, model.width)) < 0.5
    mean = plain.get_input_embeddings().weight.detach().mean(dim=0)
    ablated = []
    for mask in masks:
        inputs = embeddings(plain).clone()
        inputs[PERTURBABLE] = torch.where(torch.from_numpy(mask), inputs[PERTURBABLE], mean)
        ablated.append((inputs, torch.arange(len(IDS))))
    found = distances(model, TARGET, masks, operator="mean")
    np.testing.assert_allclose(found, plain_distances(plain, ablated), atol=1e-6)


def test_the_mean_is_taken_over_the_vocabulary(monkeypatch):
    monkeypatch.setattr("pisoft.models.ablation.CHUNK", 10)  # of 97
    model, plain = twins("llama-gqa")
    expected = plain.get_input_embeddings().weight.detach().mean(dim=0)
    torch.testing.assert_close(mean_embedding(model), expected)


def test_a_tokenizer_without_such_tokens_is_refused():
    model, _ = twins("llama-gqa")
    tokenizer = copy.deepcopy(numbered_tokenizer(VOCABULARY))  # other tests share it
    tokenizer.unk_token = tokenizer.pad_token = tokenizer.eos_token = None
    bare = LanguageModel(model.network, "bare", lambda: tokenizer)
    with pytest.raises(BenchmarkError, match="'bare' has no unknown, padding or end token"):
        Ablator(bare, "unknown")


def test_a_model_that_goes_on_seeing_hidden_keys_is_refused(monkeypatch):
    """Such as one that reads its attention mask as something else, or not at all."""
    model, _ = twins("llama-gqa")
    own = model.decoder.forward
    monkeypatch.setattr(
        model.decoder,
        "forward",
        lambda *args, **options: own(*args, **options | {"attention_mask": None}),
    )
    deaf = LanguageModel(model.network, "deaf")
    with pytest.raises(BenchmarkError, match=r"operator 'hide': model 'deaf' .* that are hidden"):
        Ablator(deaf, "hide")
