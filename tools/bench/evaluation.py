"""Speed of the evaluator, as ratios measured in one run: `make bench`.

Prints a table and writes results/bench/evaluation.json, a list of
{name, value, unit, peer, ratio, aim, met}. The evaluator packs draws into batches; its peers are
loops of one mask per forward on the same model and prompt, with the same routing:

* a plain loop: the same masks, the logits of the last position only, no cache;
* a loop as in the code released with the original Soft metrics: an element-wise mask drawn by
  `torch.bernoulli`, logits of all positions, a cache built in every forward, `torch.no_grad`, and
  a softmax over the vocabulary. It lacks fixed routing and gets the plain loop's.

The model has 7M parameters and 6 layers; every token of the prompt is perturbable, so that no side
gains from a prefix. Drawing masks and comparing predictions is timed on all sides. FLOPs come from
:func:`measuring.forward_flops`. A random model of SmolLM2-135M's shape is compared with only the
linear layers of its decoder, run on as many rows: the difference is the forward's other cost.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import torch

from measuring import (
    VOCABULARY,
    Row,
    bench_parser,
    best_seconds,
    build_network,
    forward_flops,
    peak_flops,
    report,
    row,
)
from pisoft.config.base import Protocol
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.distances import hellinger, root_probabilities
from pisoft.faithfulness.masks import masks_of
from pisoft.faithfulness.perturbation import Perturbations, PerturbationTarget, Perturber
from pisoft.models.attention import ATTENTION_NAME, AttentionInputs
from pisoft.models.model import LanguageModel
from pisoft.workflow.commandline import run

LENGTHS = (48, 128, 256)
REAL_SHAPE = "smollm2-135m"
TOKEN_BUDGET = 1024  # the catalogue's default, which suits a CPU's caches
PI = 0.5  # mean of the masks
TOLERANCE = 1e-4  # of distances, between batches and single forwards
LOOP_AIMS = {48: 2.0}  # by prompt tokens
RELEASED_AIMS = {48: 3.0}
PEAK_AIMS = {128: 0.8}

Mask = Callable[[int], np.ndarray]


class StoredMaps:
    """An attention probe that keeps the maps of its first forward and replays them afterwards."""

    def __init__(self) -> None:
        self._maps: dict[int, torch.Tensor] = {}  # by layer, (1, H, T, T)

    def __call__(self, inputs: AttentionInputs, _: object) -> torch.Tensor:
        """Return the output (1, T, H, D) of the first forward's maps on the current values."""
        if inputs.layer not in self._maps:
            self._maps[inputs.layer] = inputs.probabilities()
        return inputs.weighted_values(self._maps[inputs.layer])


PROBES: dict[Protocol, Callable[[], Any]] = {"dynamic": lambda: None, "fixed": StoredMaps}


def draw_masks(target: PerturbationTarget, draws: int) -> Mask:
    """Return token masks drawn like the evaluator's, (m, 1) each."""
    shape = (len(target.perturbable), 1)
    masks = masks_of("iid", 1, "bench", 0, shape, 1, draws)
    scores = np.full(len(target.perturbable), PI)
    return lambda draw: masks.kept(0, draw, scores)


def batched(
    model: LanguageModel, target: PerturbationTarget, mask: Mask, draws: int, protocol: Protocol
) -> np.ndarray:
    """Return the distances measured by the evaluator, (N,)."""
    perturber = Perturber(model, TOKEN_BUDGET, protocol)
    (distances,) = perturber.measure([Perturbations(target, draws, mask)])
    if distances is None:
        raise BenchmarkError(f"the random model cannot be evaluated at {target.length} tokens")
    return distances[:, 0]


@torch.inference_mode()
def one_mask_at_a_time(
    model: LanguageModel, target: PerturbationTarget, mask: Mask, draws: int, protocol: Protocol
) -> np.ndarray:
    """Return the distances of a plain loop, (N,)."""
    embeddings = model.embed(torch.tensor([target.token_ids]))
    probe = PROBES[protocol]()

    def predict(inputs: torch.Tensor) -> torch.Tensor:
        options = {"use_cache": False, "logits_to_keep": 1, "probe": probe}
        return root_probabilities(model.network(inputs_embeds=inputs, **options).logits[:, -1])

    clean = predict(embeddings)
    masks = (torch.from_numpy(mask(draw)) for draw in range(draws))
    return torch.cat([hellinger(clean, predict(embeddings * kept)) for kept in masks]).numpy()


@torch.no_grad()
def as_released(
    model: LanguageModel, target: PerturbationTarget, draws: int, protocol: Protocol
) -> list[float]:
    """Return the distances Σ(√p − √q)² / √2 of a loop in the style of the released code."""
    embeddings = model.embed(torch.tensor([target.token_ids]))
    scores = torch.full((len(target.token_ids), 1), PI)
    probe = PROBES[protocol]()

    def predict(inputs: torch.Tensor) -> torch.Tensor:
        output = model.network(inputs_embeds=inputs, use_cache=True, probe=probe)
        return torch.softmax(output.logits[:, -1], dim=-1)

    clean = predict(embeddings)
    distances = []
    for _ in range(draws):
        mask = torch.bernoulli(scores.expand_as(embeddings))
        difference = predict(embeddings * mask).sqrt() - clean.sqrt()
        distances.append((difference.square().sum() / math.sqrt(2)).item())
    return distances


def measure(
    model: LanguageModel, protocol: Protocol, length: int, arguments: argparse.Namespace
) -> list[Row]:
    """Return the rows of one protocol and prompt length."""
    draws, loop_draws = arguments.draws, min(arguments.draws, arguments.loop_draws)
    ids = np.random.default_rng(length).integers(0, VOCABULARY, length).tolist()
    target = PerturbationTarget(ids, np.arange(length), target_id=0)
    mask = draw_masks(target, draws)
    ours = batched(model, target, mask, draws, protocol)[:loop_draws]
    difference = np.abs(ours - one_mask_at_a_time(model, target, mask, loop_draws, protocol)).max()
    if difference > TOLERANCE:
        raise RuntimeError(f"batched and looped distances differ by {difference}")

    def rate(work: Callable[[], Any], forwards: int) -> float:
        return forwards / best_seconds(work, arguments.repetitions)

    peak = peak_flops() / 1e9  # for each length, as machines drift
    batches = rate(lambda: batched(model, target, mask, draws, protocol), draws)
    loop = rate(lambda: one_mask_at_a_time(model, target, mask, loop_draws, protocol), loop_draws)
    released = rate(lambda: as_released(model, target, loop_draws, protocol), loop_draws)
    achieved = batches * forward_flops(model, length, protocol) / 1e9
    name = f"{protocol} routing, {length} tokens"
    return [
        row(f"{name}: {what}", value, peer, value / compared, unit=unit, aim=aims.get(length))
        for what, value, compared, unit, peer, aims in (
            ("forwards against a plain loop", batches, loop, "1/s",
             f"one mask at a time: {loop:.0f}/s", LOOP_AIMS),
            ("forwards against the released loop", batches, released, "1/s",
             f"as released: {released:.0f}/s", RELEASED_AIMS),
            ("FLOP/s", achieved, peak, "GFLOP/s",
             f"matrix multiply: {peak:.0f} GFLOP/s", PEAK_AIMS),
        )
    ]  # fmt: skip


@torch.inference_mode()
def run_linear_layers(model: LanguageModel, rows: int) -> None:
    """Run every linear layer of the decoder once, each on the same random inputs."""
    for part in model.decoder.modules():
        if isinstance(part, torch.nn.Linear):
            part(torch.ones(rows, part.in_features))


def measure_against_linear_layers(
    model: LanguageModel, protocol: Protocol, length: int, arguments: argparse.Namespace
) -> Row:
    """Return the row of one protocol and prompt length, for one full batch of masks."""
    draws = min(arguments.draws, TOKEN_BUDGET // length)
    ids = np.random.default_rng(length).integers(0, VOCABULARY, length).tolist()
    target = PerturbationTarget(ids, np.arange(length), target_id=0)
    mask = draw_masks(target, draws)
    seconds = best_seconds(
        lambda: batched(model, target, mask, draws, protocol), arguments.repetitions
    )
    linear = best_seconds(lambda: run_linear_layers(model, draws * length), arguments.repetitions)
    name = f"{model.name}, {protocol} routing, {length} tokens: forwards against its linear layers"
    peer = f"linear layers alone: {draws / linear:.3g}/s"
    return row(name, draws / seconds, peer, linear / seconds, unit="1/s")


def main(arguments: argparse.Namespace) -> None:
    """Measure, print and write."""
    model = LanguageModel(build_network(ATTENTION_NAME), "bench")
    rows = [
        line
        for protocol in get_args(Protocol)
        for length in arguments.lengths
        for line in measure(model, protocol, length, arguments)
    ]
    real = LanguageModel(build_network(ATTENTION_NAME, REAL_SHAPE), REAL_SHAPE)
    rows += [
        measure_against_linear_layers(real, protocol, length, arguments)
        for protocol in get_args(Protocol)
        for length in arguments.lengths
    ]
    report(rows, arguments.output)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = bench_parser(__doc__, "evaluation")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="prompt tokens")
    parser.add_argument("--draws", type=int, default=96, help="masks of the batched run")
    parser.add_argument("--loop-draws", type=int, default=24, help="masks of the loops")
    parser.add_argument("--repetitions", type=int, default=3, help="runs per measurement")
    return parser


if __name__ == "__main__":
    run(main, parser())
