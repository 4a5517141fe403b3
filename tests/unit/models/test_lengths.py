"""Length-dependent position embeddings: each input is read as in a batch of its own."""

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from helpers.eager_reference import NAME, EagerModel, logits, observed
from helpers.evaluations import masks_of
from helpers.explained_rows import explained_samples
from helpers.families import network
from helpers.random_models import SMALL, VOCABULARY
from helpers.stages import STAGES, assert_same, sorted_rows
from helpers.tiny_tokenizers import numbered_tokenizer
from pisoft.faithfulness.perturbation import PerturbationTarget, Perturber
from pisoft.models.attention import ATTENTION_NAME
from pisoft.models.generation import continue_greedily
from pisoft.models.model import ExplainedSample, LanguageModel

FAMILY = "Phi 3, 4 128k"
ORIGINAL = 16  # tokens; beyond them, all position embeddings change
IDS = np.random.default_rng(0).integers(3, VOCABULARY, 40).tolist()
LENGTHS = (10, 30, 16, 14, 17, 20)
PERTURBABLE = np.array([2, 3, 5, 8])
MASKS = np.array([[0, 1, 0, 1], [1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 0]], dtype=bool)
METHODS = ("saliency", "integrated_gradients", "occlusion", "reagent")


@pytest.fixture(scope="module")
def models():
    plain = network(FAMILY, NAME)
    model = LanguageModel(
        network(FAMILY, ATTENTION_NAME), FAMILY, lambda: numbered_tokenizer(VOCABULARY)
    )
    assert model.turning_points == (ORIGINAL,)
    assert model.shareable(5, ORIGINAL) == model.shareable(5 + ORIGINAL, 2 * ORIGINAL) - ORIGINAL
    assert model.shareable(5, ORIGINAL + 1) == 0
    return model, plain


def block(steps):
    """Return a row of `prompts` and one of `generations` for each length."""
    outputs = IDS[-5:]
    targets = [outputs[step] for step in steps]
    samples = (ExplainedSample(str(n), IDS[:n], outputs, steps, targets) for n in LENGTHS)
    return explained_samples(samples)


@pytest.mark.parametrize(
    ("stage", "steps"),
    [
        *(
            (name, [0])
            for name in ("classification", "ranking that removes", "ranking that zeroes")
        ),
        *((f"attribution by {name}", [0, 2, 4]) for name in METHODS),
    ],
)
def test_attribution_rows_do_not_depend_on_the_batchs_longest_input(models, stage, steps):
    model, plain = models
    eager = EagerModel(plain, FAMILY, model._load_tokenizer)

    def one_by_one(given, steps, budget):
        return [row for step in steps for row in STAGES[stage](given, block([step]), budget)]

    expected = sorted_rows(one_by_one, eager, steps, 1)
    assert_same(sorted_rows(STAGES[stage], model, block(steps), 200), expected)


@torch.no_grad()
@pytest.mark.parametrize("protocol", ["dynamic", "fixed"])
def test_distances_do_not_depend_on_the_batchs_longest_input(models, protocol):
    model, plain = models
    targets = [PerturbationTarget(IDS[:n], PERTURBABLE, target_id=17) for n in LENGTHS]
    measured = Perturber(model, 200, protocol).measure([masks_of(t, MASKS) for t in targets])
    table = plain.get_input_embeddings()
    for target, distances in zip(targets, measured, strict=True):
        held = observed(plain, target.token_ids).maps if protocol == "fixed" else None
        inputs = table(torch.tensor([target.token_ids])).repeat(len(MASKS), 1, 1)
        clean = logits(plain, inputs[:1]).softmax(-1)
        inputs[:, PERTURBABLE] *= torch.from_numpy(MASKS)[..., None]
        for distance, one in zip(distances[:, 0], inputs, strict=True):
            perturbed = logits(plain, one[None], held=held).softmax(-1)
            overlap = float((clean * perturbed).sqrt().sum())
            assert distance == pytest.approx((1 - overlap) ** 0.5, abs=1e-5)


@torch.no_grad()
def test_continuations_do_not_depend_on_the_batchs_longest_input(models):
    model, plain = models
    prompts = [
        {"sample_id": str(seed), "input_ids": ids.tolist(), "label": None}
        for seed, length in enumerate([*range(8, 24)] * 2)
        for ids in [np.random.default_rng(seed).integers(3, VOCABULARY, length)]
    ]
    continued = {row["sample_id"]: row for row in continue_greedily(model, prompts, 200, 6, 2)}
    for prompt in prompts:
        ids = prompt["input_ids"]
        for token in continued[prompt["sample_id"]]["output_ids"]:
            assert token == int(plain(torch.tensor([ids])).logits[0, -1].argmax())
            ids = [*ids, token]


@torch.no_grad()
def test_ntk_embeddings_change_only_beyond_the_original_context():
    """Dynamic ones depend on the longest input, but not up to `max_position_embeddings`."""
    size = SMALL | {"max_position_embeddings": ORIGINAL, "num_key_value_heads": 2}
    rotary = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10_000.0}
    ntk, fixed = (
        LlamaForCausalLM._from_config(LlamaConfig(**size, **rope), attn_implementation=name).eval()
        for rope, name in (({"rope_parameters": rotary}, ATTENTION_NAME), ({}, "eager"))
    )
    fixed.load_state_dict(ntk.state_dict())
    model = LanguageModel(ntk, "ntk")
    assert model.context == ORIGINAL
    for length, equal in ((ORIGINAL, True), (ORIGINAL + 1, False)):
        ids = torch.tensor([IDS[:length]])
        read = ntk(inputs_embeds=model.embed(ids)).logits
        assert torch.allclose(read, fixed(ids).logits, rtol=0, atol=1e-6) == equal
