"""LongRoPE: whatever is read together, each input is read as the network alone reads it."""

import numpy as np
import pytest
import torch

from helpers.attributions import build
from helpers.eager_reference import NAME, EagerModel, logits, observed
from helpers.evaluations import masks_of
from helpers.families import network
from helpers.quick_cases import one_quick
from helpers.random_models import VOCABULARY
from helpers.tiny_tokenizers import numbered_tokenizer
from pisoft.attribution.engine import attribute_block
from pisoft.config.evaluation import RankingSettings
from pisoft.faithfulness.perturbation import PerturbationTarget, Perturber
from pisoft.faithfulness.ranking import RankingEvaluator
from pisoft.models.attention import ATTENTION_NAME
from pisoft.models.generation import classify, continue_greedily
from pisoft.models.model import Batch, ExplainedSample, LanguageModel

FAMILY = "Phi 3, 4 128k"
ORIGINAL = 16  # tokens, from which on all embeddings of positions change
IDS = np.random.default_rng(0).integers(3, VOCABULARY, 40).tolist()
LENGTHS = (10, 30, 16, 14, 17, 20)
LABELS = {"label": None, "label_words": ["Yes", "No"], "label_token_ids": [50, 60]}
PERTURBABLE = np.array([2, 3, 5, 8])
MASKS = np.array([[0, 1, 0, 1], [1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 0]], dtype=bool)


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


def prompts(lengths=LENGTHS):
    inside = np.isin(np.arange(len(IDS)), PERTURBABLE).tolist()
    return [
        {
            **LABELS,
            "sample_id": str(n),
            "input_ids": IDS[:n],
            **dict.fromkeys(("content_mask", "user_mask", "bos_mask"), inside[:n]),
        }
        for n in lengths
    ]


def next_token(plain, ids, allowed=slice(None)):
    return int(plain(torch.tensor([ids])).logits[0, -1][allowed].argmax())


@torch.no_grad()
@pytest.mark.parametrize("protocol", ["dynamic", "fixed"])
def test_distances_are_those_of_inputs_read_alone(models, protocol):
    model, plain = models
    targets = [PerturbationTarget(IDS[:n], PERTURBABLE, target_id=17) for n in LENGTHS]
    measured = Perturber(model, 200, protocol).measure([masks_of(t, MASKS) for t in targets])
    table = plain.get_input_embeddings()
    for target, found in zip(targets, measured, strict=True):
        held = observed(plain, target.token_ids).maps if protocol == "fixed" else None
        inputs = table(torch.tensor([target.token_ids])).repeat(len(MASKS), 1, 1)
        clean = logits(plain, inputs[:1]).softmax(-1)
        inputs[:, PERTURBABLE] *= torch.from_numpy(MASKS)[..., None]
        for distance, one in zip(found[:, 0], inputs, strict=True):
            perturbed = logits(plain, one[None], held=held).softmax(-1)
            overlap = float((clean * perturbed).sqrt().sum())
            assert distance == pytest.approx((1 - overlap) ** 0.5, abs=1e-5)


@pytest.mark.parametrize(
    "name", one_quick(["saliency", "integrated_gradients", "occlusion", "reagent"])
)
def test_scores_of_a_step_are_those_of_its_input_read_alone(models, name):
    model, plain = models
    eager = EagerModel(plain, FAMILY, model._load_tokenizer)
    steps, outputs = [0, 2, 4], IDS[-5:]
    generations = [
        {"sample_id": str(n), "output_ids": outputs, "steps": steps, "status": "ok",
         "target_ids": [outputs[step] for step in steps]}
        for n in LENGTHS
    ]  # fmt: skip
    method, expected = build(name, token_budget=100), build(name, token_budget=1)
    rows = iter(attribute_block(method, model, list(zip(prompts(), generations, strict=True))))
    for prompt in prompts():
        for step in steps:
            ids, target = prompt["input_ids"], outputs[step]
            sample = ExplainedSample(prompt["sample_id"], ids, outputs, [step], [target])
            (scores,) = expected.attribute(eager, Batch([sample], eager.device))
            row = next(rows)
            assert (row["sample_id"], row["step"]) == (sample.sample_id, step)
            assert row["raw_scores"] == pytest.approx(scores[0].tolist(), rel=1e-4, abs=1e-6)


@torch.no_grad()
def test_answers_are_those_of_prompts_read_alone(models):
    model, plain = models
    given = prompts([*range(8, 24)] * 2)
    for number, prompt in enumerate(given):
        ids = np.random.default_rng(number).integers(3, VOCABULARY, len(prompt["input_ids"]))
        prompt |= {"sample_id": str(number), "input_ids": ids.tolist()}
    continued = {row["sample_id"]: row for row in continue_greedily(model, given, 200, 6, 2)}
    classified = {row["sample_id"]: row for row in classify(model, given, 200)}
    for prompt in given:
        ids = prompt["input_ids"]
        choice = next_token(plain, ids, LABELS["label_token_ids"])
        assert classified[prompt["sample_id"]]["predicted_label"] == LABELS["label_words"][choice]
        for token in continued[prompt["sample_id"]]["output_ids"]:
            assert token == next_token(plain, ids)
            ids = [*ids, token]


@torch.no_grad()
@pytest.mark.parametrize("operator", ["remove", "zero"])
def test_flips_are_those_of_inputs_read_alone(models, operator):
    model, plain = models
    settings = RankingSettings(operator=operator, steps=4, flip_of="first_token")
    evaluator = RankingEvaluator(model, settings, "content", seed=1, token_budget=500)
    block = [
        (
            prompt,
            {"greedy_token_id": next_token(plain, prompt["input_ids"])},
            {"raw_scores": np.arange(len(prompt["input_ids"]))[::-1], "status": "ok"},
        )
        for prompt in prompts(range(12, 24))
    ]
    rows = iter(evaluator.evaluate_block(block))
    table = plain.get_input_embeddings()
    for prompt, answer, _ in block:
        for gone in (
            [PERTURBABLE[:count] for count in (1, 2, 3, 4)],
            [PERTURBABLE[count:] for count in (1, 2, 3, 4)],
        ):
            flips = []
            for positions in gone:
                kept = ~np.isin(np.arange(len(prompt["input_ids"])), positions)
                inputs = table(torch.tensor([prompt["input_ids"]]))
                if operator == "zero":
                    inputs = inputs * torch.from_numpy(kept)[:, None]
                else:
                    inputs = inputs[:, kept]
                flips.append(int(logits(plain, inputs).argmax()) != answer["greedy_token_id"])
            assert next(rows)["flips"] == flips
