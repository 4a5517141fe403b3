"""Predicted FLOPs and forwards against torch's counter and counted forwards of the real code."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from functools import cache

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import LlamaConfig, LlamaForCausalLM

import evaluating
from attributing import build
from pisoft.attribution import available_methods, load_method
from pisoft.config.evaluation import DrawBudget, EvaluationSettings, RankingSettings
from pisoft.config.models import ModelShape
from pisoft.faithfulness.perturbation import PerturbationTarget
from pisoft.faithfulness.ranking import RankingEvaluator
from pisoft.lm.attention import ATTENTION_NAME
from pisoft.lm.generation import continue_greedily
from pisoft.lm.gradients import embedding_gradients
from pisoft.lm.model import Batch, ExplainedSample, LanguageModel
from pisoft.planning.flops import forward_flops, next_token_flops
from pisoft.planning.lengths import SampleLengths
from pisoft.planning.shapes import feed_forward_parameters
from pisoft.planning.work import (
    attribution_work,
    draw_bounds,
    generation_work,
    ranking_work,
    soft_forwards,
    soft_work,
    training_work,
)
from planning import LLAMA_8B, SIZES, sample
from random_models import SHAPES, VOCABULARY, twins
from tiny_tokenizers import numbered_tokenizer

WIDE = ModelShape(
    layers=12, hidden_size=128, intermediate_size=384, heads=4, key_value_heads=2, head_size=32,
    vocabulary_size=VOCABULARY,
)  # fmt: skip
KEY_VALUE_HEADS = {"llama-gqa": 2, "llama-mha-tied": 4, "mistral-sliding": 1}


def shape_of(name: str) -> ModelShape:
    return ModelShape(**SIZES | {"key_value_heads": KEY_VALUE_HEADS[name]})


class NoModules(nullcontext):
    """Stands in for the counter's tracker of modules, whose hooks `autograd.grad` refuses."""

    parents = ("Global",)


@cache
def wide_model() -> LanguageModel:
    """Return a model in which attention maps, and any one layer, cost little, as in large ones."""
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDE.hidden_size,
        intermediate_size=WIDE.intermediate_size,
        num_hidden_layers=WIDE.layers,
        num_attention_heads=WIDE.heads,
        num_key_value_heads=WIDE.key_value_heads,
        bos_token_id=1,
        eos_token_id=2,
    )
    torch.manual_seed(3)
    network = LlamaForCausalLM._from_config(config, attn_implementation=ATTENTION_NAME)
    return LanguageModel(network, "wide", lambda: numbered_tokenizer(VOCABULARY))


@contextmanager
def counting():
    """Count FLOPs, with attention as plain matrix products, which the counter knows."""
    counter = FlopCounterMode(display=False)
    counter.mod_tracker = NoModules()
    with counter, sdpa_kernel(SDPBackend.MATH):
        yield counter


def beyond_causal(shape: ModelShape, tokens: int, prefix: int = 0) -> float:
    """Return what the counter counts of attention to later tokens, which is masked."""
    whole = tokens * (prefix + tokens)
    seen = tokens * (2 * prefix + tokens + 1) / 2
    return 4 * shape.layers * shape.heads * shape.head_size * (whole - seen)


def token_ids(rows: int, tokens: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(3, VOCABULARY, (rows, tokens), generator=generator)


@pytest.mark.parametrize(("prefix", "tokens", "rows"), [(0, 20, 1), (0, 33, 3), (9, 24, 2)])
@pytest.mark.parametrize("name", SHAPES)
def test_a_forward_costs_what_torch_counts_but_for_masked_attention(name, prefix, tokens, rows):
    """The counter takes attention maps as full squares; half of a causal one is masked."""
    model, plain = twins(name, torch.float32)
    shape = shape_of(name)
    ids = token_ids(rows, prefix + tokens)
    embeddings = model.embed(ids)
    with torch.inference_mode():
        cache = model.read_prefix(embeddings[:1, :prefix])
        with counting() as counter:
            last = torch.full((rows, 1), tokens - 1)
            model.next_token_logits(embeddings[:, prefix:], last, prefix=cache)
    expected = next_token_flops(shape, tokens, prefix=prefix) + beyond_causal(shape, tokens, prefix)
    assert counter.get_total_flops() == pytest.approx(rows * expected, rel=1e-12)
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        plain(input_ids=ids, logits_to_keep=1, use_cache=False)  # eager attention
    expected = forward_flops(shape, prefix + tokens, positions=1)
    expected += beyond_causal(shape, prefix + tokens)
    assert counter.get_total_flops() == pytest.approx(rows * expected, rel=1e-12)


def test_a_known_number_for_a_known_model():
    """Llama-3.1-8B, 256 tokens, 570 forwards, every layer in full: 2.05 PFLOP."""
    whole = 570 * forward_flops(LLAMA_8B, 256, positions=1)
    assert whole == pytest.approx(2.05e15, rel=2e-3)
    # 570·[2·N·T + 2·V·d + 2·L·H·D·T·(T + 1)], N = 32·(2·4096·(4096 + 1024) + 3·4096·14336)
    by_hand = 570 * (2 * 6979321856 * 256 + 2 * 128256 * 4096 + 2 * 32 * 32 * 128 * 256 * 257)
    assert whole == by_hand
    spared = 570 * 2 * feed_forward_parameters(LLAMA_8B) * (256 - 2)
    assert 570 * next_token_flops(LLAMA_8B, 256) == whole - spared
    assert soft_forwards(grid=19, draws=15) == 570 + 30 + 3, "with α = 1 and the references"


def test_a_backward_through_frozen_weights_costs_a_forward():
    model = wide_model()
    explained = ExplainedSample("s", token_ids(1, 60)[0].tolist(), [5], [0], [5])
    with counting() as counter:
        list(embedding_gradients(model, Batch([explained], model.device), "probability"))
    one = next_token_flops(WIDE, 60)
    assert counter.get_total_flops() == pytest.approx(2 * one, rel=0.1)


def two_steps() -> ExplainedSample:
    """Return a prompt of 40 tokens with two explained steps."""
    prompt, output = token_ids(1, 40)[0].tolist(), token_ids(2, 6)[1].tolist()
    return ExplainedSample("s", prompt, output, [0, 5], [output[0], output[5]])


def counted_and_planned(name: str, explained: ExplainedSample, **options) -> tuple[float, float]:
    """Return the FLOPs that a method took, and those it was planned to take."""
    model = wide_model()
    made = build(name, token_budget=256, **options)
    made.check(model)
    with counting() as counter:
        made.attribute(model, Batch([explained], model.device))
    prompt, steps = len(explained.prompt_ids), tuple(explained.steps)
    lengths = sample(prompt, steps=steps, output=len(explained.output_ids))
    planned = attribution_work(WIDE, lengths, made.forwards(prompt, len(steps)))
    return counter.get_total_flops(), planned.flops


@pytest.mark.parametrize("method", available_methods())
def test_the_price_of_a_method_is_what_it_takes(method):
    """Within a fifth, as prices are in whole passes; that of an iterative method is a limit."""
    counted, planned = counted_and_planned(method, two_steps())
    if load_method(method).iterative:
        assert 0 < counted < 1.05 * planned, "the counter takes masked attention for computed"
    else:
        assert counted == pytest.approx(planned, rel=0.2)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("attention", {}),
        ("saliency", {}),
        ("deeplift", {}),
        ("integrated_gradients", {"n_steps": 4}),
        ("discretized_integrated_gradients", {"n_steps": 4}),
        ("sequential_integrated_gradients", {"n_steps": 3}),
        ("gradient_shap", {}),
        ("lime", {"n_samples": 12}),
    ],
)
def test_the_price_of_inseqs_methods_is_what_they_take(method, arguments):
    ids = token_ids(1, 12)[0].tolist()
    explained = ExplainedSample("s", ids[:10], ids[10:], [0, 1], ids[10:])
    counted, planned = counted_and_planned("inseq", explained, method=method, arguments=arguments)
    assert counted == pytest.approx(planned, rel=0.2)


@contextmanager
def counted_sequences(model):
    """Note the number of sequences and the tokens of each in every forward of the decoder."""
    seen: list[tuple[int, int]] = []

    def note(_, arguments, options):
        embeddings = options["inputs_embeds"] if "inputs_embeds" in options else arguments[0]
        seen.append(tuple(embeddings.shape[:2]))

    handle = model.decoder.register_forward_pre_hook(note, with_kwargs=True)
    try:
        yield seen
    finally:
        handle.remove()


def evaluated(draws: int, protocol: str) -> tuple[int, int]:
    """Return forwards and tokens of evaluating one step, those of the prefix left out."""
    model, _ = twins("llama-gqa")
    ids, perturbable = token_ids(1, 18)[0].tolist(), np.arange(6, 15)
    scores = np.random.default_rng(1).normal(size=len(ids)).tolist()
    attribution = {"sample_id": "s", "step": 0, "raw_scores": scores, "status": "ok"}
    settings = EvaluationSettings(pi_grid=(0.2, 0.5, 0.8), draws=draws)
    target = PerturbationTarget(ids, perturbable, target_id=5)
    with counted_sequences(model) as seen:
        (rows,) = evaluating.evaluated(model, [(target, attribution)], settings, 1, 64, protocol)
    assert {row["status"] for row in rows} == {"ok"}
    behind = [(rows, tokens) for rows, tokens in seen if tokens != 6]
    return sum(rows for rows, _ in behind), sum(rows * tokens for rows, tokens in behind)


@pytest.mark.parametrize("protocol", ["dynamic", "fixed"])
def test_the_evaluator_takes_as_many_forwards_as_planned(protocol):
    counted = {draws: evaluated(draws, protocol) for draws in (2, 3)}
    lengths = sample(18, first=6)
    planned = {draws: soft_work(ModelShape(**SIZES), lengths, 3, draws) for draws in (2, 3)}
    added = counted[3][0] - counted[2][0]
    assert added == planned[3].forwards - planned[2].forwards == 8, "both metrics, α = 1 and 3 π"
    for draws in (2, 3):
        assert (planned[draws].forwards, planned[draws].tokens) == counted[draws]


def test_every_step_reads_the_tokens_generated_before_it():
    shape = ModelShape(**SIZES)
    work = soft_work(shape, sample(10, first=4, steps=(0, 5), output=6), grid=3, draws=2)
    forwards = 2 * 2 * 4 + 3
    assert work.forwards == 2 * forwards
    assert work.tokens == forwards * (6 + 11)
    flops = sum(next_token_flops(shape, tokens, prefix=4) for tokens in (6, 11))
    assert work.flops == forwards * flops + forward_flops(shape, 4), "the prefix is read once"


def test_generation_reads_the_prompt_and_then_token_by_token():
    model, _ = twins("llama-gqa", torch.float32)
    prompt = {
        "sample_id": "s", "input_ids": token_ids(1, 12)[0].tolist(), "label": None,
    }  # fmt: skip
    model.network.generation_config.eos_token_id = None
    model.network.config.eos_token_id = None
    with counting() as counter:
        (row,) = continue_greedily(model, [prompt], 64, max_new_tokens=5, step_interval=2)
    assert len(row["output_ids"]) == 5
    shape = ModelShape(**SIZES)
    work = generation_work(shape, sample(12, steps=(0, 2, 4), output=5))
    assert (work.forwards, work.tokens) == (5, 12 + 4)
    # transformers computes the last feed-forward block everywhere, and full attention maps.
    more = 2 * feed_forward_parameters(shape) * (12 - 2) + beyond_causal(shape, 12)
    assert counter.get_total_flops() == pytest.approx(work.flops + more, rel=1e-12)


@pytest.mark.parametrize("count", [1, 7, 20, 33])
@pytest.mark.parametrize("operator", ["remove", "zero"])
def test_ranking_is_planned_as_it_is_counted(operator, count):
    model, _ = twins("llama-gqa", torch.float32)
    ids = list(range(3, 3 + 6 + count + 2))
    prompt = {
        "sample_id": "s",
        "input_ids": ids,
        "content_mask": [6 <= place < 6 + count for place in range(len(ids))],
        "user_mask": [],
        "bos_mask": [],
        "label_words": ["Yes", "No"],
        "label_token_ids": [50, 60],
    }
    scores = {"status": "ok", "raw_scores": ids}
    settings = RankingSettings(operator=operator)
    evaluator = RankingEvaluator(model, settings, "content", 1, 64)
    evaluator.evaluate_block([(prompt, {"predicted_label": "Yes"}, scores)])
    shape = ModelShape(**SIZES)
    lengths = SampleLengths(1, len(ids), first=6, perturbable=count, output=1, steps=(0,))
    work = ranking_work(shape, lengths, settings)
    assert work.forwards == evaluator.forwards
    assert work.tokens == pytest.approx(evaluator.tokens)
    mean = next_token_flops(shape, work.tokens / work.forwards, prefix=5)
    assert work.flops == pytest.approx(forward_flops(shape, 5) + work.forwards * mean)


def test_a_budget_has_limits_and_a_number_has_not():
    assert draw_bounds(6) == (6, 6)
    assert draw_bounds(DrawBudget(target_half_width=0.1, max=15)) == (1, 15)


def test_training_costs_three_forwards():
    model, _ = twins("llama-gqa", torch.float32)
    model.network.requires_grad_(True)
    ids = token_ids(4, 25)
    with counting() as counter:
        model.network(input_ids=ids, logits_to_keep=1, use_cache=False).logits.sum().backward()
    work = training_work(ModelShape(**SIZES), 25, sequences=4)
    assert (work.forwards, work.tokens) == (12, 300)
    assert counter.get_total_flops() == pytest.approx(work.flops, rel=0.1)
