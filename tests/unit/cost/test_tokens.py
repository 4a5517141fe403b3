"""Planned tokens and method prices against the work of the real code."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode
from transformers import LlamaConfig, LlamaForCausalLM

from helpers import evaluations
from helpers.attributions import build
from helpers.explained_rows import explained_samples, prompt_of_ids
from helpers.planned_run import sample
from helpers.random_models import SMALL, VOCABULARY, model_and_network, samples
from helpers.tiny_tokenizers import numbered_tokenizer
from pisoft.attribution import available_methods, load_method, repetition
from pisoft.attribution.engine import attribute_block, warm_up
from pisoft.attribution.repetition import compare_with_float32
from pisoft.config.evaluation import EvaluationSettings, RankingSettings
from pisoft.cost import tokens
from pisoft.cost.lengths import SampleLengths
from pisoft.cost.tokens import (
    attribution_work,
    generation_tokens,
    inspection_tokens,
    ranking_tokens,
    repetition_work,
    soft_tokens,
)
from pisoft.faithfulness.counterfactuals import drawn
from pisoft.faithfulness.perturbation import PerturbationTarget
from pisoft.faithfulness.ranking import RankingEvaluator
from pisoft.models import flow
from pisoft.models.attention import ATTENTION_NAME
from pisoft.models.model import Batch, ExplainedSample, LanguageModel


class NoModules(nullcontext):
    """Replaces the counter's module tracker, whose hooks `autograd.grad` refuses."""

    parents = ("Global",)


class FlopsByType(TorchDispatchMode):
    """Counts the FLOP of matrix products by the type of their numbers."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        output = function(*arguments, **(options or {}))
        if function.overloadpacket._qualified_op_name in ("aten::mm", "aten::bmm"):
            first = arguments[0]
            self.counts[first.dtype] += 2 * output.numel() * first.shape[-1]
        return output


@cache
def wide_model(dtype: torch.dtype = torch.float32, **shape: int) -> LanguageModel:
    """Return a model in which attention maps and single layers are cheap, as in large models."""
    wide = {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 12}
    config = LlamaConfig(**SMALL | wide | shape)
    torch.manual_seed(3)
    network = LlamaForCausalLM._from_config(config, attn_implementation=ATTENTION_NAME, dtype=dtype)
    return LanguageModel(network, "wide", lambda: numbered_tokenizer(VOCABULARY))


def token_ids(rows: int, tokens: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(3, VOCABULARY, (rows, tokens), generator=generator)


def of_two_steps() -> ExplainedSample:
    prompt, output = token_ids(1, 40)[0].tolist(), token_ids(2, 6)[1].tolist()
    return ExplainedSample("s", prompt, output, [0, 5], [output[0], output[5]])


def flops_of(name: str, explained: ExplainedSample, **options) -> tuple[float, float]:
    """Return a method's FLOPs and its price in forwards."""
    model = wide_model()
    method = build(name, token_budget=256, **options)
    method.check(model)
    counter = FlopCounterMode(display=False)
    counter.mod_tracker = NoModules()
    with counter, sdpa_kernel(SDPBackend.MATH):
        method.attribute(model, Batch([explained], model.device))
    forwards = method.forwards(len(explained.prompt_ids), len(explained.steps))
    return counter.get_total_flops(), forwards


def forward_flops(explained: ExplainedSample) -> float:
    """Return 2 · weights · tokens of a full forward, embeddings excluded."""
    layers = wide_model().blocks
    weights = sum(weight.numel() for layer in layers for weight in layer.parameters())
    return 2 * weights * (len(explained.prompt_ids) + max(explained.steps))


@pytest.mark.parametrize("method", available_methods())
def test_the_price_of_a_method_matches_its_flops(method):
    """Within a quarter, as prices are in whole passes; an iterative method's price is a limit."""
    explained = of_two_steps()
    options = {"max_probe_steps": 8} if method == "reagent" else {}
    flops, forwards = flops_of(method, explained, **options)
    if load_method(method).iterative:
        assert 0 < flops < 1.2 * forwards * forward_flops(explained)
    else:
        assert flops == pytest.approx(forwards * forward_flops(explained), rel=0.25)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("saliency", {}),
        ("depass", {}),
        ("flashtrace", {}),
        ("ifr", {}),
        ("value_zeroing", {}),
        ("integrated_gradients", {"steps": 2}),
        ("integrated_gradients", {"steps": 2, "path_dtype": "float32"}),
    ],
)
def test_float32_work_of_a_method_is_priced(name, options):
    """Within a quarter, on top of the float32 work in the backward pass of any method."""
    explained = of_two_steps()
    model, method = wide_model(torch.bfloat16), build(name, token_budget=256, **options)
    method.check(model)
    with FlopsByType() as flops, sdpa_kernel(SDPBackend.MATH):
        method.attribute(model, Batch([explained], model.device))
    priced = method.float32_forwards(40, 2) * forward_flops(explained)
    left = 0.1 * sum(flops.counts.values())
    assert flops.counts[torch.float32] == pytest.approx(priced, rel=0.25, abs=left)


@pytest.mark.parametrize("tokens", [48, 96])
def test_the_subtractions_of_ifr_are_priced(tokens, monkeypatch):
    model = wide_model(hidden_size=256, num_attention_heads=2, intermediate_size=683)
    elements = []
    counted = flow._proximities

    def count(parts, size):
        elements.append(parts.numel() if parts.dim() == 3 else 0)
        return counted(parts, size)

    monkeypatch.setattr(flow, "_proximities", count)
    ids = token_ids(1, tokens)[0].tolist()
    method = build("ifr", token_budget=tokens)
    method.attribute(model, Batch([ExplainedSample("s", ids, [5], [0], [5])], model.device))
    weights = sum(weight.numel() for layer in model.blocks for weight in layer.parameters())
    of_pairs = (tokens + 1) / tokens  # a token attends to itself
    assert sum(elements) == pytest.approx(method.elements(tokens) * weights * of_pairs, rel=0.1)


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
def test_the_price_of_inseqs_methods_matches_their_flops(method, arguments):
    ids = token_ids(1, 12)[0].tolist()
    explained = ExplainedSample("s", ids[:10], ids[10:], [0, 1], ids[10:])
    flops, forwards = flops_of("inseq", explained, method=method, arguments=arguments)
    assert flops == pytest.approx(forwards * forward_flops(explained), rel=0.25)


@contextmanager
def counted_tokens(network):
    """Record the number of sequences and their tokens in every forward of a network."""
    seen: list[tuple[int, int]] = []

    def note(_, arguments, options):
        embeddings = options["inputs_embeds"] if "inputs_embeds" in options else arguments[0]
        seen.append(tuple(embeddings.shape[:2]))

    handle = network.register_forward_pre_hook(note, with_kwargs=True)
    try:
        yield seen
    finally:
        handle.remove()


@pytest.mark.parametrize("scope", [range(20, 36), range(20, 40), range(40)])
@pytest.mark.parametrize("budget", [16, 64, 500])
def test_occlusion_of_a_scope_reads_the_priced_tokens(budget, scope):
    model, _ = model_and_network("llama-gqa")
    ids = token_ids(1, 43)[0].tolist()
    explained = ExplainedSample("s", ids[:40], ids[40:], [0, 3], [ids[40], 5], scope=scope)
    method = build("occlusion", token_budget=budget)
    with counted_tokens(model.decoder) as seen:
        method.attribute(model, Batch([explained], model.device))
    read = sum(rows * tokens for rows, tokens in seen)
    assert method.forwards(43, 2, scope) * 43 == pytest.approx(read, rel=1e-12)


def test_attribution_reads_the_planned_tokens(monkeypatch):
    """One to warm up, each sample, and each step repeated separately in float32."""
    model, _ = model_and_network("llama-gqa", torch.bfloat16)
    monkeypatch.setattr(repetition, "is_compared", lambda block: True)
    pairs = [
        pair
        for sample in samples()
        for pair in explained_samples(
            replace(step, sample_id=f"{step.sample_id} {step.steps}") for step in sample.apart()
        )
    ]
    method = build("occlusion", token_budget=64)
    lengths = [
        SampleLengths(count, 0, count, len(answer["output_ids"]), tuple(answer["steps"]), ())
        for prompt, answer in pairs
        for count in [len(prompt["input_ids"])]
    ]
    with counted_tokens(model.decoder) as seen:
        warm_up(method, model, pairs)
        rows = attribute_block(method, model, pairs)
        compare_with_float32(method, model, [[pair] for pair in pairs], rows)
    work = attribution_work(min(lengths, key=lambda sample: sample.read), method)
    for sample_lengths in lengths:
        work += attribution_work(sample_lengths, method)
        work += repetition_work(sample_lengths, build("occlusion", token_budget=32))
    assert work.tokens == pytest.approx(sum(rows * count for rows, count in seen), rel=1e-12)


def test_reagent_and_its_masked_model_read_the_planned_tokens():
    """Except for the masked model's special tokens, two per text."""
    model, _ = model_and_network("llama-gqa")
    ids, scope = token_ids(1, 30)[0].tolist(), range(20, 28)
    explained = [
        ExplainedSample(name, ids, [5], [0], [5], scope=scope) for name in ("first", "second")
    ]
    method = build("reagent", max_probe_steps=3, stopping_condition_top_k=VOCABULARY + 1)
    of_mask = counted_tokens(method.context.masked.network)
    with counted_tokens(model.decoder) as seen, of_mask as masked:
        method.attribute(model, Batch(explained, model.device))
    read = sum(rows * tokens for rows, tokens in seen)
    assert read == 20 + 2 * (1 + 2 * 2) * 10, "all probes end after one step"
    once = build("reagent", max_probe_steps=1)
    assert once.forwards(len(ids), 1, scope) * len(ids) == pytest.approx(20 + (1 + 2 * 2) * 10)
    lengths = SampleLengths(30, 20, 8, 1, (0,), (0,))
    planned = attribution_work(lengths, once).masked
    assert 2 * planned == sum(rows * (tokens - 2) for rows, tokens in masked)
    long = replace(lengths, prompt=9000)
    assert attribution_work(long, once).masked == 8 * tokens.MASKED_CONTEXT
    assert attribution_work(lengths, build("saliency")).masked == 0


@pytest.mark.parametrize("draws", [2, 3])
@pytest.mark.parametrize("protocol", ["dynamic", "fixed"])
def test_the_evaluator_reads_the_planned_tokens(protocol, draws):
    model, _ = model_and_network("llama-gqa")
    ids, perturbable = token_ids(1, 18)[0].tolist(), np.arange(6, 15)
    scores = np.random.default_rng(1).normal(size=len(ids)).tolist()
    attribution = {"sample_id": "s", "step": 0, "raw_scores": scores, "status": "ok"}
    settings = EvaluationSettings(pi_grid=(0.2, 0.5, 0.8), draws=draws, mask="element")
    target = PerturbationTarget(ids, perturbable, target_id=5)
    with counted_tokens(model.decoder) as seen:
        evaluations.evaluated(model, [(target, attribution)], settings, 1, 64, protocol)
    prefix = [rows for rows, tokens in seen if tokens == 6]
    assert prefix[0] == 1
    read = sum(rows * tokens for rows, tokens in seen if tokens != 6)
    assert soft_tokens(sample(18, first=6), 3, draws) == 6 + read


def test_every_evaluated_step_reads_the_tokens_generated_before_it():
    lengths = sample(10, first=4, steps=tuple(range(6)), evaluated=(0, 5), output=6)
    assert soft_tokens(lengths, grid=3, draws=2) == 4 + (2 * 2 * 4 + 3) * (6 + 11)
    assert inspection_tokens(lengths, masks=7) == 8 * (10 + 15)
    assert generation_tokens(lengths) == 10 + 5


@pytest.mark.parametrize("count", [1, 7, 20, 33])
@pytest.mark.parametrize("operator", ["remove", "zero"])
@pytest.mark.parametrize("source", [None, "records"])
def test_ranking_reads_the_planned_tokens(operator, count, source):
    model, _ = model_and_network("llama-gqa", torch.float32)
    ids = list(range(3, 3 + 6 + count + 2))
    prompt = prompt_of_ids("s", ids, range(6, 6 + count), label_token_ids=[50, 60])
    scores = {"status": "ok", "raw_scores": ids}
    settings = RankingSettings(operator=operator, counterfactuals=source)
    replace = drawn([prompt], "content", 1) if source else None
    evaluator = RankingEvaluator(model, settings, "content", 1, 64, replace)
    for steps in [(0,), (0, 3)]:
        answer = {"output_ids": [7] * 5, "steps": steps, "target_ids": [7] * len(steps)}
        is_label = len(steps) == 1
        prompt["label_words"] = ["Yes", "No"] if is_label else []
        before = evaluator.tokens
        evaluator.evaluate_block([(prompt, answer | {"predicted_label": "Yes"}, [scores])])
        lengths = SampleLengths(
            len(ids), first=6, perturbable=count, output=5, steps=steps, evaluated=steps
        )
        read = 5 + evaluator.tokens - before
        assert ranking_tokens(lengths, settings, is_label) == pytest.approx(read)
