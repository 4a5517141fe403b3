"""Speed of evaluation and attribution on a GPU, at the size of an 8B model: `make bench-gpu`.

Prints a table and writes results/bench/gpu.json: the device, versions and sizes, and `rows`, a
list of {name, value, unit, peer, ratio, aim, met}. The model has random weights, made on the
device, so that nothing is downloaded: the shape decides the speed, not the weights. One sample with
one explained step is attributed and evaluated: a prefix of template tokens, which evaluation reads
once, and behind it the tokens of a record, which are all perturbed. Nothing is scaled: every
evaluation is that of a whole sample with the number of draws in the row's name, the original
metrics and both baselines included. It costs the same for every attribution method.

Shares of the peak are those of the device's own matrix multiplication in the same number type;
FLOPs are those of :func:`measuring.forward_flops`. `--shape toy --device cpu` runs anywhere.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import torch
import transformers

from measuring import (
    Row,
    bench_parser,
    best_seconds,
    build_network,
    forward_flops,
    peak_flops,
    report,
    row,
)
from pisoft.attribution import load_method
from pisoft.attribution.base import Context
from pisoft.config.base import Protocol
from pisoft.config.evaluation import DrawSettings
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.perturbation import PerturbationTarget, Perturber
from pisoft.faithfulness.soft import METRICS, StepEvaluation, measure_draws
from pisoft.models.attention import ATTENTION_NAME
from pisoft.models.device import (
    choose_device,
    device_name,
    peak_memory,
    reset_peak_memory,
    token_budget,
)
from pisoft.models.loading import compile_layers
from pisoft.models.model import Batch, ExplainedSample, LanguageModel
from pisoft.store.parquet import OK
from pisoft.workflow.commandline import run

MATRIX_SIZES = {"8b": 8192, "toy": 256}  # of the matrix multiplication that gives the peak
GIGA, TERA = 1e9, 1e12


def memory_gb(device: torch.device) -> float:
    """Return peak memory since the last reset; on a CPU that of the process since it began."""
    peak = peak_memory(device)
    megabytes = (peak["peak_device_memory_mb"], peak["peak_memory_mb"])
    return next(size for size in megabytes if size is not None) * 1e6 / GIGA


@dataclass(frozen=True)
class Sample:
    """One sample with random scores, and the model that reads it.

    Attributes:
        model: the explained model.
        target: what is perturbed.
        scores: one per token of the prompt.
        settings: draws and π grid.
    """

    model: LanguageModel
    target: PerturbationTarget
    scores: np.ndarray
    settings: DrawSettings

    def evaluate(
        self, protocol: Protocol, budget: int, draws: int
    ) -> tuple[Perturber, StepEvaluation]:
        """Measure a number of draws; return what has measured them, and the step.

        Raises:
            BenchmarkError: the model's predictions are not finite, or do not change.
        """
        row = {"sample_id": "bench", "step": 0, "raw_scores": self.scores, "status": OK}
        step = StepEvaluation(row, self.target, self.settings, 1, self.model.width)
        perturber = Perturber(self.model, budget, protocol)
        measure_draws(perturber, [step], dict.fromkeys(METRICS, range(draws)))
        if step.status != OK:
            raise BenchmarkError(f"the random model cannot be evaluated: {step.status}")
        return perturber, step


def draw_sample(model: LanguageModel, arguments: argparse.Namespace) -> Sample:
    """Return a sample of the size asked for, of random tokens."""
    rng = np.random.default_rng(1)
    ids = rng.integers(3, model.vocabulary_size, arguments.prefix + arguments.tokens).tolist()
    grid = tuple(np.linspace(0.05, 0.95, arguments.grid).round(4).tolist())
    return Sample(
        model,
        PerturbationTarget(ids, np.arange(arguments.prefix, len(ids)), target_id=0),
        rng.random(len(ids)),
        DrawSettings(draws=arguments.draws, pi_grid=grid),
    )


def evaluation_rows(
    sample: Sample, protocol: Protocol, token_budgets: Sequence[int], peak: Callable[[], float]
) -> Iterator[Row]:
    """Yield, for every budget, seconds, tokens per second and memory; then the noise floor."""
    model, target, draws = sample.model, sample.target, sample.settings.most_draws
    needed = forward_flops(model, target.length, protocol, len(target.prefix_ids))
    done: list[tuple[Perturber, StepEvaluation]] = []

    for budget in token_budgets:

        def work(budget: int = budget) -> None:
            done.append(sample.evaluate(protocol, budget, draws))

        sample.evaluate(protocol, budget, 1)  # warms up
        reset_peak_memory(model.device)
        seconds = best_seconds(work, 1, warm_up=False, device=model.device)
        memory, matrix = memory_gb(model.device), peak()
        perturber, _ = done[-1]
        name = f"{protocol}, token budget {budget}"
        if perturber.token_budget != budget:
            name += f" (memory sufficed for {perturber.token_budget})"
        reached = perturber.forwards * needed / seconds
        share = reached / matrix
        peer = f"matrix multiply: {matrix / TERA:.3g} TFLOP/s"
        yield row(f"{name}: K = {draws}", seconds, peer, share, unit="s/sample")
        rate, peer = perturber.tokens / seconds, f"these are {reached / TERA:.3g} TFLOP/s"
        yield row(f"{name}: tokens", rate, peer, share, unit="tokens/s")
        yield memory_row(name, memory, model)
    _, step = done[-1]
    identity, peer = step.rows()[0]["identity"], f"zero baseline: {step.h0:.3g}"
    name = f"{protocol}: distance of the clean input evaluated again"
    yield row(name, identity, peer, identity / step.h0)


def attribution_rows(sample: Sample, method: str) -> Iterator[Row]:
    """Yield seconds and memory of one attribution method."""
    model, kind = sample.model, load_method(method)
    budget = token_budget(None, model.device)
    built = kind(kind.Options(), Context(seed=1, token_budget=budget))
    built.check(model)
    explained = ExplainedSample("bench", sample.target.token_ids, [3], [0], [3])
    batch = Batch([explained], model.device)

    @torch.no_grad()  # inference mode would mark the batch's tensors, which gradients need
    def forward() -> None:
        model.next_token_logits(model.embed(batch.input_ids), batch.positions)

    plain = best_seconds(forward, 3, device=model.device)
    reset_peak_memory(model.device)
    seconds = best_seconds(lambda: built.attribute(model, batch), 3, device=model.device)
    memory = memory_gb(model.device)
    peer = f"one forward: {plain:.3g} s"
    yield row(f"{method}: attribution", seconds, peer, seconds / plain, unit="s/sample")
    yield memory_row(method, memory, model)


def memory_row(name: str, memory: float, model: LanguageModel) -> Row:
    """Return a row of peak memory in GB, compared with the size of the weights."""
    weights = sum(p.numel() * p.element_size() for p in model.network.parameters()) / GIGA
    peer = f"weights: {weights:.3g} GB"
    return row(f"{name}: peak memory", memory, peer, memory / weights, unit="GB")


def measure(model: LanguageModel, arguments: argparse.Namespace) -> Iterator[Row]:
    """Yield the rows of the attribution methods and of both protocols."""
    sample = draw_sample(model, arguments)
    for method in arguments.methods:
        yield from attribution_rows(sample, method)
    if arguments.compile:  # for the evaluation only: attribution needs gradients
        compile_layers(model)
    matrix = (MATRIX_SIZES[arguments.shape], getattr(torch, arguments.dtype), model.device)
    for protocol in get_args(Protocol):
        yield from evaluation_rows(
            sample, protocol, arguments.token_budgets, lambda: peak_flops(*matrix)
        )


def main(arguments: argparse.Namespace) -> None:
    """Measure, print and write.

    Raises:
        BenchmarkError: no such device, or a sample that does not fit into memory.
    """
    device = choose_device(arguments.device)
    dtype = getattr(torch, arguments.dtype)
    network = build_network(ATTENTION_NAME, arguments.shape, dtype, device)
    model = LanguageModel(network, arguments.shape)
    facts: dict[str, Any] = {
        "device": device_name(device),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        **{k: vars(arguments)[k] for k in ("shape", "dtype", "prefix", "tokens", "compile")},
    }
    report(list(measure(model, arguments)), arguments.output, **facts)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = bench_parser(__doc__, "gpu")
    parser.add_argument("--shape", choices=MATRIX_SIZES, default="8b", help="size of the model")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--dtype", choices=("bfloat16", "float16", "float32"), default="bfloat16")
    parser.add_argument("--prefix", type=int, default=30, help="template tokens before the record")
    parser.add_argument("--tokens", type=int, default=256, help="tokens of the record")
    parser.add_argument("--draws", type=int, default=15, help="masks per π")
    parser.add_argument("--grid", type=int, default=19, help="retaining probabilities")
    parser.add_argument(
        "--token-budgets",
        type=int,
        nargs="+",
        default=(4096, 8192, 16384, 32768, 65536),
        help="tokens per forward batch",
    )
    parser.add_argument("--methods", nargs="+", default=("saliency", "grad_ellm"))
    parser.add_argument(
        "--compile",
        action="store_true",
        help="compile layers for the evaluation, as `compile: true`",
    )
    return parser


if __name__ == "__main__":
    run(main, parser())
