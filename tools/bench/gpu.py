"""Speed of evaluation and attribution on a GPU, at the size of real models: `make bench-gpu`.

Prints a table and writes results/bench/gpu.json after each case: the device, versions, and `rows`,
a list of {name, value, unit, peer, ratio, aim, met}. The models have random weights, created on the
device, so that nothing is downloaded: speed depends on the shape, not on the weights. One sample
with one explained step is attributed, and one or several are evaluated. A sample is a prefix of
template tokens, which evaluation reads once, and the tokens of a record, which are all perturbed.
Nothing is extrapolated: every evaluation covers whole samples with the number of draws in the row's
name, the original metrics and both baselines. Its cost does not depend on the attribution method.

Shares of the peak are relative to the device's own matrix multiplication in the same dtype; FLOPs
come from :func:`measuring.forward_flops`. `--cases toy --device cpu` runs anywhere.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, get_args

import numpy as np
import torch
import transformers

from helpers.tiny_tokenizers import llama_tokenizer
from measuring import (
    Row,
    bench_parser,
    best_seconds,
    build_network,
    forward_flops,
    peak_flops,
    print_rows,
    row,
    write_json,
)
from pisoft.attribution import available_methods, load_method
from pisoft.attribution.base import Context
from pisoft.config.base import Protocol
from pisoft.config.evaluation import DrawSettings
from pisoft.errors import BenchmarkError, did_you_mean
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
from pisoft.models.precision import pin_precision
from pisoft.store.parquet import OK
from pisoft.workflow.commandline import run

MATRIX_SIZE = 8192  # of the matrix multiplication that measures the peak
GIGA, TERA = 1e9, 1e12


@dataclass(frozen=True)
class Case:
    """Measurements with one model.

    Attributes:
        shape: of the model, a key of :data:`measuring.SHAPES`.
        tokens: of a record; `prefix`: of the template before it.
        samples: evaluated together, like in a job; short ones share batches.
        draws: masks per π; 0 skips the evaluation.
        grid: number of retaining probabilities.
        token_budgets: tokens per forward batch.
        dtype: of the weights, or of the arithmetic if weights have 4 bits.
        four_bit: whether the decoder's weights have 4 bits (nf4).
        methods: whether every attribution method is timed.
        compiled: whether layers are compiled, like with `compile: true`; for evaluation only.
    """

    shape: str
    tokens: int = 256
    prefix: int = 30
    samples: int = 1
    draws: int = 15
    grid: int = 19
    token_budgets: tuple[int, ...] = (16384,)
    dtype: torch.dtype = torch.bfloat16
    four_bit: bool = False
    methods: bool = False
    compiled: bool = False

    @property
    def model(self) -> tuple[str, torch.dtype, bool]:
        """Arguments for building the model."""
        return self.shape, self.dtype, self.four_bit


# Cases of one model are consecutive, compiled ones last: layers stay compiled.
CASES = {
    "8b": Case("8b", token_budgets=(4096, 16384, 65536)),
    "8b-methods": Case("8b", draws=0, methods=True),
    "8b-sst2": Case("8b", tokens=27, samples=6),
    "8b-compiled": Case("8b", compiled=True),
    "8b-sst2-compiled": Case("8b", tokens=27, samples=6, compiled=True),
    "8b-float32": Case("8b", draws=1, dtype=torch.float32),
    "70b-4bit": Case("70b", draws=1, four_bit=True),
    "70b-4bit-compiled": Case("70b", draws=1, four_bit=True, compiled=True),
    "toy": Case(
        "toy",
        tokens=12,
        prefix=3,
        samples=2,
        draws=2,
        grid=2,
        token_budgets=(30, 200),
        dtype=torch.float32,
        methods=True,
    ),
    "toy-4bit": Case("toy", 12, 3, draws=1, grid=2, dtype=torch.float32, four_bit=True),
}


def memory_gb(device: torch.device) -> float:
    """Return peak memory since the last reset; on a CPU, since the process started."""
    peak = peak_memory(device)
    megabytes = (peak["peak_device_memory_mb"], peak["peak_memory_mb"])
    return next(size for size in megabytes if size is not None) * 1e6 / GIGA


@dataclass(frozen=True)
class Samples:
    """Samples with random scores, and the model that reads them.

    Attributes:
        model: the explained model.
        targets: perturbed inputs, of equal length and after the same tokens.
        scores: one per token of a prompt, shared by all samples.
        settings: draws and π grid.
    """

    model: LanguageModel
    targets: Sequence[PerturbationTarget]
    scores: np.ndarray
    settings: DrawSettings

    def evaluate(
        self, protocol: Protocol, budget: int, draws: int
    ) -> tuple[Perturber, StepEvaluation]:
        """Measure a number of draws; return the perturber used, and the first step.

        Raises:
            BenchmarkError: the model's predictions are not finite, or do not change.
        """
        steps = []
        for number, target in enumerate(self.targets):
            row = {"sample_id": str(number), "step": 0, "raw_scores": self.scores, "status": OK}
            steps.append(StepEvaluation(row, target, self.settings, 1, self.model.width))
        perturber = Perturber(self.model, budget, protocol)
        measure_draws(perturber, steps, dict.fromkeys(METRICS, range(draws)))
        for step in steps:
            if step.status != OK:
                raise BenchmarkError(f"the random model cannot be evaluated: {step.status}")
        return perturber, steps[0]


def draw_samples(model: LanguageModel, case: Case) -> Samples:
    """Return samples of a case's size, with random tokens."""
    rng = np.random.default_rng(1)
    template = rng.integers(3, model.vocabulary_size, case.prefix).tolist()
    perturbable = np.arange(case.prefix, case.prefix + case.tokens)
    targets = [
        PerturbationTarget(
            [*template, *rng.integers(3, model.vocabulary_size, case.tokens).tolist()],
            perturbable,
            target_id=0,
        )
        for _ in range(case.samples)
    ]
    grid = tuple(np.linspace(0.05, 0.95, case.grid).round(4).tolist())
    settings = DrawSettings(draws=max(1, case.draws), pi_grid=grid)
    return Samples(model, targets, rng.random(case.prefix + case.tokens), settings)


def evaluation_rows(
    samples: Samples, protocol: Protocol, case: Case, peak: Callable[[], float]
) -> Iterator[Row]:
    """Yield seconds, tokens per second and memory for every budget; then the noise floor."""
    model, target = samples.model, samples.targets[0]
    needed = forward_flops(model, target.length, protocol, len(target.prefix_ids))
    done: list[tuple[Perturber, StepEvaluation]] = []

    for budget in case.token_budgets:

        def work(budget: int = budget) -> None:
            done.append(samples.evaluate(protocol, budget, case.draws))

        samples.evaluate(protocol, budget, 1)  # warms up
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
        each = seconds / case.samples
        yield row(f"{name}: K = {case.draws}", each, peer, share, unit="s/sample")
        rate, peer = perturber.tokens / seconds, f"these are {reached / TERA:.3g} TFLOP/s"
        yield row(f"{name}: tokens", rate, peer, share, unit="tokens/s")
        yield memory_row(name, memory, model)
    _, step = done[-1]
    identity, peer = step.rows()[0]["identity"], f"zero baseline: {step.h0:.3g}"
    name = f"{protocol}: distance of the clean input evaluated again"
    yield row(name, identity, peer, identity / step.h0)


def timed_methods() -> list[str]:
    """Return our methods that need no masked model, to avoid a download."""
    return [
        name
        for name in available_methods()
        if name != "inseq" and not load_method(name).needs_masked_model
    ]


def attribution_rows(samples: Samples, name: str) -> Iterator[Row]:
    """Yield seconds and memory of one attribution method with its default options."""
    model, target, kind = samples.model, samples.targets[0], load_method(name)
    budget = token_budget(None, model.device)
    method = kind(kind.Options(), Context(seed=1, token_budget=budget))
    method.check(model)
    scope = target.perturbable.tolist()
    explained = ExplainedSample("bench", target.token_ids, [3], [0], [3], scope=scope)
    batch = Batch([explained], model.device)

    @torch.no_grad()  # inference mode would mark the batch's tensors, which gradients need
    def forward() -> None:
        model.next_token_logits(model.embed(batch.input_ids), batch.positions)

    plain = best_seconds(forward, 3, device=model.device)
    reset_peak_memory(model.device)
    seconds = best_seconds(lambda: method.attribute(model, batch), 1, device=model.device)
    memory = memory_gb(model.device)
    peer = f"one forward: {plain:.3g} s"
    yield row(f"{name}: attribution", seconds, peer, seconds / plain, unit="s/sample")
    yield memory_row(name, memory, model)


def memory_row(name: str, memory: float, model: LanguageModel) -> Row:
    """Return a row of peak memory in GB, compared with the size of the weights."""
    weights = sum(p.numel() * p.element_size() for p in model.network.parameters()) / GIGA
    peer = f"weights: {weights:.3g} GB"
    return row(f"{name}: peak memory", memory, peer, memory / weights, unit="GB")


def measure(model: LanguageModel, case: Case) -> Iterator[Row]:
    """Yield the rows of a case: attribution methods, then both protocols."""
    samples = draw_samples(model, case)
    if case.methods:
        for method in timed_methods():
            yield from attribution_rows(samples, method)
    if case.compiled:
        compile_layers(model)
    if case.draws:
        size = MATRIX_SIZE if model.device.type == "cuda" else 256
        for protocol in get_args(Protocol):
            yield from evaluation_rows(
                samples, protocol, case, lambda: peak_flops(size, case.dtype, model.device)
            )


def cases_of(names: Sequence[str]) -> list[tuple[str, Case]]:
    """Return the cases with given names.

    Raises:
        BenchmarkError: no such case; names the nearest match.
    """
    for name in names:
        if name not in CASES:
            raise BenchmarkError(f"--cases: no case '{name}'" + did_you_mean(name, CASES))
    return [(name, CASES[name]) for name in names]


def main(arguments: argparse.Namespace) -> None:
    """Measure, print and write.

    Raises:
        BenchmarkError: no such device or case, or a sample that does not fit into memory.
    """
    cases = cases_of(arguments.cases)
    device = choose_device(arguments.device)
    pin_precision()
    facts: dict[str, Any] = {
        "device": device_name(device),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    rows: list[Row] = []
    for (shape, dtype, four_bit), model_cases in groupby(cases, key=lambda named: named[1].model):
        network = build_network(ATTENTION_NAME, shape, dtype, four_bit, device)
        model = LanguageModel(network, "bench", llama_tokenizer)
        for name, case in model_cases:
            lines = [{**line, "name": f"{name}: {line['name']}"} for line in measure(model, case)]
            rows += lines
            print_rows(lines)
            write_json(arguments.output, {**facts, "rows": rows})
        del network, model  # before the next one is built


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = bench_parser(__doc__, "gpu")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument(
        "--cases",
        nargs="+",
        default=[name for name in CASES if CASES[name].shape != "toy"],
        metavar="CASE",
        help=", ".join(CASES),
    )
    return parser


if __name__ == "__main__":
    run(main, parser())
