"""Value zeroing and occlusion against brute force: one forward per token, in float64."""

import pytest
import torch
from torch.nn.functional import cosine_similarity

from attributing import attribute, build
from pisoft.errors import BenchmarkError
from pisoft.lm.model import ExplainedSample
from random_models import SHAPES, VOCABULARY, samples, twins

EXACT = {"rtol": 1e-10, "atol": 1e-10}


def layer_outputs(model, ids, zeroed=None, layer=None):
    """Run the probed model; zero one token's value vector in one layer; return that layer's output
    for every layer, each with the clean input."""
    outputs, handles = [], []

    def zero(_, __, value):
        value = value.clone()
        value[:, zeroed] = 0
        return value

    for index, block in enumerate(model.decoder.layers):
        if index == layer:
            handles.append(block.self_attn.v_proj.register_forward_hook(zero))
        handles.append(block.register_forward_hook(lambda _, __, output: outputs.append(output)))
    with torch.no_grad():
        model.network(input_ids=torch.tensor([ids]))
    for handle in handles:
        handle.remove()
    return outputs


@pytest.mark.parametrize("shape", SHAPES)
def test_value_zeroing_equals_zeroing_one_value_vector_at_a_time(shape):
    model = twins(shape)[0]
    for sample, found in zip(samples(), attribute("value_zeroing", model, samples()), strict=True):
        for row, step in enumerate(sample.steps):
            ids = [*sample.prompt_ids, *sample.output_ids[:step]]
            clean = layer_outputs(model, ids)
            expected = torch.zeros(len(sample.prompt_ids), dtype=torch.float64)
            for layer in range(model.layers):
                for token in range(len(sample.prompt_ids)):
                    # layers behind the zeroed one are not looked at
                    zeroed = layer_outputs(model, ids, token, layer)[layer]
                    likeness = cosine_similarity(zeroed[0, -1], clean[layer][0, -1], dim=0)
                    expected[token] += (1 - likeness) / model.layers
            torch.testing.assert_close(found[row], expected, **EXACT)


def test_value_zeroing_keeps_its_digits_in_float32():
    exact = attribute("value_zeroing", twins("llama-gqa")[0], samples()[:1])[0]
    single = attribute("value_zeroing", twins("llama-gqa", torch.float32)[0], samples()[:1])[0]
    torch.testing.assert_close(single.double(), exact, rtol=1e-3, atol=0)


@pytest.mark.parametrize("shape", ["llama-gqa", "llama-mha-tied"])
def test_small_value_zeroing_scores_are_not_lost_in_a_16_bit_model(shape):
    """One of a hundred tokens changes the output by little more than bfloat16 can tell."""
    rounded, exact = twins(shape, torch.bfloat16)[0], twins(shape)[0]
    exact.network.load_state_dict(rounded.network.state_dict())
    ids = torch.randint(3, VOCABULARY, (100,), generator=torch.Generator().manual_seed(0)).tolist()
    chosen = [ExplainedSample("long", ids, [9], [0], [9])]
    (found,), (expected,) = (attribute("value_zeroing", m, chosen) for m in (rounded, exact))
    torch.testing.assert_close(found.double(), expected, rtol=0.03, atol=0)


def test_value_zeroing_refuses_layers_it_does_not_know():
    model = twins("llama-gqa")[0]
    layer = model.decoder.layers[1]
    plain = layer.mlp.forward
    layer.mlp.forward = lambda hidden: 2 * plain(hidden)  # both ways of calling it: still followed
    build("value_zeroing").check(model)
    layer.register_forward_hook(lambda _, __, output: output * 1.5)
    with pytest.raises(BenchmarkError, match=r"'value_zeroing': .* LlamaDecoderLayer .*known"):
        build("value_zeroing").check(model)


@pytest.mark.parametrize("baseline", ["zero", "reference"])
@pytest.mark.parametrize("budget", [1, 40, 5000])
@pytest.mark.parametrize("shape", SHAPES)
def test_occlusion_equals_leaving_out_one_token_at_a_time(shape, budget, baseline):
    model, _ = twins(shape)
    table = model.network.get_input_embeddings().weight
    absent = torch.zeros_like(table[0]) if baseline == "zero" else table[0]  # 0 is <unk>
    found = attribute(
        "occlusion", model, samples(), token_budget=budget, baseline=baseline, signed=True
    )
    unsigned = attribute("occlusion", model, samples(), baseline=baseline)
    for sizes, scores in zip(unsigned, found, strict=True):
        torch.testing.assert_close(sizes, scores.abs(), **EXACT)
    for sample, scores in zip(samples(), found, strict=True):
        for row, (step, target) in enumerate(zip(sample.steps, sample.target_ids, strict=True)):
            ids = [*sample.prompt_ids, *sample.output_ids[:step]]
            assert 2 not in ids  # an end-of-sequence token would stay as it is

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


def test_end_of_sequence_tokens_are_their_own_reference():
    model = twins("llama-gqa")[0]
    (sample, *_) = samples()
    with_end = type(sample)("end", [2, *sample.prompt_ids[1:]], [5], [0], [5])
    (scores,) = attribute("occlusion", model, [with_end])
    assert scores[0, 0] == 0
    assert (scores[0, 1:] != 0).all()


def test_a_reference_that_does_not_exist_is_named():
    model = twins("llama-gqa")[0]
    model.__dict__["tokenizer"] = type(
        "Bare", (), {"unk_token_id": None, "pad_token_id": None, "eos_token_id": None}
    )()
    with pytest.raises(BenchmarkError, match=r"option baseline: 'reference' needs .*'zero'"):
        attribute("occlusion", model, samples()[:1])
    attribute("occlusion", model, samples()[:1], baseline="zero")
