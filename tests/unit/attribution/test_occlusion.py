"""Occlusion against brute force: one forward per token, in float64."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from helpers.attributions import attribute
from helpers.families import FAMILIES, network
from helpers.quick_cases import each_value_quick, one_quick
from helpers.random_models import SHAPES, VOCABULARY, model_and_network, random_model, samples
from helpers.tiny_tokenizers import numbered_tokenizer
from pisoft.errors import BenchmarkError
from pisoft.models.attention import ATTENTION_NAME
from pisoft.models.model import LanguageModel

EXACT = {"rtol": 1e-10, "atol": 1e-10}


@pytest.mark.parametrize(("shape", "baseline"), each_value_quick(SHAPES, ["zero", "reference"]))
def test_occlusion_equals_one_plain_forward_per_token(shape, baseline):
    model, _ = model_and_network(shape)
    table = model.network.get_input_embeddings().weight
    absent = torch.zeros_like(table[0]) if baseline == "zero" else table[0]  # 0 is <unk>
    signed_scores = attribute("occlusion", model, samples(), baseline=baseline, signed=True)
    unsigned = attribute("occlusion", model, samples(), baseline=baseline)
    for sizes, scores in zip(unsigned, signed_scores, strict=True):
        torch.testing.assert_close(sizes, scores.abs(), **EXACT)
    for sample, scores in zip(samples(), signed_scores, strict=True):
        for row, (step, target) in enumerate(zip(sample.steps, sample.target_ids, strict=True)):
            ids = [*sample.prompt_ids, *sample.output_ids[:step]]
            assert 2 not in ids  # an end-of-sequence token would stay unchanged

            def probability(embeddings, target=target):
                with torch.no_grad():
                    logits = model.network(inputs_embeds=embeddings[None]).logits[0, -1]
                return logits.softmax(dim=-1)[target]

            clean = table[torch.tensor(ids)]
            for token in range(len(sample.prompt_ids)):
                occluded = clean.clone()
                occluded[token] = absent
                drop = probability(clean) - probability(occluded)
                torch.testing.assert_close(scores[row, token], drop, **EXACT)


def test_a_contrast_is_the_drop_of_the_logit_difference_to_the_foil():
    model = random_model("llama-gqa")
    foils = [replace(one, foil_ids=one.target_ids[::-1]) for one in samples()[:1]]
    options = {"attributed_function": "logit", "signed": True}
    (contrast,) = attribute("occlusion", model, foils, signed=True)
    (target,) = attribute("occlusion", model, samples()[:1], **options)
    turned = [replace(one, target_ids=one.foil_ids, foil_ids=()) for one in foils]
    (foil,) = attribute("occlusion", model, turned, **options)
    torch.testing.assert_close(contrast, target - foil, **EXACT)


@pytest.mark.parametrize("family", one_quick(FAMILIES))
def test_scores_in_scope_do_not_depend_on_the_scope(family):
    """With and without sharing the tokens before the scope."""
    try:
        model = LanguageModel(
            network(family, ATTENTION_NAME), family, lambda: numbered_tokenizer(VOCABULARY)
        )
    except (BenchmarkError, KeyError) as error:
        pytest.skip(f"{family} is refused: {error}")
    long = samples()[0]
    for budget, scope in ((16, [4, 5, 8, 9, 11]), (64, [4, 5, 8, 9, 11]), (64, [])):
        (whole,) = attribute("occlusion", model, [long], token_budget=budget)
        (scores,) = attribute("occlusion", model, [replace(long, scope=scope)], token_budget=budget)
        torch.testing.assert_close(scores[:, scope], whole[:, scope], **EXACT)
        scores[:, scope] = 0
        assert not scores.any()


def test_an_end_of_sequence_token_is_its_own_reference():
    model = random_model("llama-gqa")
    (sample, *_) = samples()
    with_end = type(sample)("end", [2, *sample.prompt_ids[1:]], [5], [0], [5])
    (scores,) = attribute("occlusion", model, [with_end])
    assert scores[0, 0] == 0
    assert (scores[0, 1:] != 0).all()


def test_a_missing_reference_token_is_named():
    model = random_model("llama-gqa")
    model.__dict__["tokenizer"] = type(
        "Bare", (), {"unk_token_id": None, "pad_token_id": None, "eos_token_id": None}
    )()
    with pytest.raises(BenchmarkError, match=r"option baseline: 'reference' needs; 'zero'"):
        attribute("occlusion", model, samples()[:1])
    attribute("occlusion", model, samples()[:1], baseline="zero")


@pytest.mark.parametrize(
    ("name", "token", "text", "baseline", "warned"),
    [("occlusion", 0, "<unk>", "reference", ""), ("occlusion", 2, "</s>", "zero", ""),
     ("deeplift", 2, "</s>", "reference", ""),  # hides the token from the model
     ("occlusion", 2, "</s>", "reference", "reference token, </s>, ends texts"),
     ("occlusion", 0, "<|endoftext|>", "reference", "reference token, <|endoftext|>, ends texts")],
)  # fmt: skip
def test_an_end_token_as_reference_gives_one_warning(name, token, text, baseline, warned, caplog):
    model = random_model("llama-gqa")
    model.name = text
    model.__dict__["tokenizer"] = SimpleNamespace(
        unk_token_id=token, eos_token_id=2, pad_token_id=2, convert_ids_to_tokens=lambda _: text
    )
    attribute(name, model, samples()[:2], baseline=baseline)
    assert len(caplog.messages) == bool(warned)
    assert warned in caplog.text
