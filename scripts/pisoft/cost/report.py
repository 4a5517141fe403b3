"""A plan as text: a table by rule, the lengths behind it, and its assumptions."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import compress
from operator import attrgetter
from textwrap import fill

from pisoft.config.models import TOKEN_BUDGETS
from pisoft.cost.lengths import SampleLengths
from pisoft.cost.plan import (
    FLOAT32_TIME,
    LOADING_RULES,
    READING_SPEED,
    START_UP,
    START_UP_WITH_MODEL,
    Job,
    Plan,
)
from pisoft.cost.sizes import CARD
from pisoft.errors import BenchmarkError
from pisoft.formatting import NOTHING, duration, scaled

_COLUMNS = ("rule", "jobs", "tokens", "FLOP", "time", "start-up", "longest", "GPU-hours")
_METHOD_COLUMNS = ("method", "attribution", "evaluation", "GPU-hours")
_FIT_COLUMNS = ("tokens of a batch", "without gradients", "with gradients")
_ASSUMPTIONS = f"""\
Jobs: up to the evaluation. Summaries, tables, figures and pages take seconds each on top.
Tokens: as the explained model reads them, once for each forward pass; a backward pass counts as a \
forward pass. The template before the first perturbable token is read once. Upper bounds: ReAGent \
takes all its probe steps, answers not yet generated have full length, trainings take all steps.
FLOP: 2 × weights × tokens, plus the FLOP of ReAGent's masked model. Attention over long texts is \
not counted.
Time: FLOP / THROUGHPUT ({FLOAT32_TIME} times as long where a half-precision model on a GPU \
computes in float32), plus {START_UP:g} s per job or, if a model is loaded, \
{START_UP_WITH_MODEL:g} s and the weights at {READING_SPEED / 1e9:g} GB/s; summed over all jobs. \
Start-up: the share of these seconds, which larger shards lower. By method: an upper bound. \
GPU-hours: the whole time of the jobs that hold a GPU.
Lengths: measured in the run's prompts and answers if they exist; otherwise, the catalogue's mean \
number of tokens per record, cut at prompts.max_tokens, in a template of usual length. Content: \
tokens that a perturbation may touch; before: tokens in front of these; steps: evaluated of \
explained.
Numbers: k thousand, M million, G billion, T 10¹², P 10¹⁵, E 10¹⁸, Z 10²¹.""".splitlines()
_FITS = f"""\
Tokens of a batch: about how many fit on a GPU of {CARD / 1e9:g} GB beside the weights. Batches \
have at most token_budget tokens ({TOKEN_BUDGETS["cuda"]} by default) and block_size samples, and \
are halved when memory runs out. With gradients:"""
_STEPS: tuple[Callable[[SampleLengths], float], ...] = (
    lambda sample: len(sample.evaluated),
    lambda sample: len(sample.steps),
)
_NO_RATE = (
    "Time is not known: set THROUGHPUT to the TFLOP/s that the device reaches in forward passes. A "
    "data centre GPU reaches about half of its bfloat16 peak; `make bench` measures a machine."
)


def flops_per_second(text: str) -> float:
    """Read a number of TFLOP/s.

    Raises:
        BenchmarkError: it is not a number above 0.
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise BenchmarkError(f"throughput: '{text}' is not a number of TFLOP/s greater than 0")
    return number * 1e12


def plan_text(plan: Plan, rate: float | None) -> str:
    """Return the printed plan of a run; without FLOP/s of the device, it has no times."""
    stages: dict[str, list[Job]] = {}
    for job in plan.jobs:
        stages.setdefault(job.rule, []).append(job)
    stages["total"] = list(plan.jobs)
    rows = [_row(name, jobs, plan, rate) for name, jobs in stages.items()]
    means = [attrgetter(name) for name in ("prompt", "first", "perturbable")]
    lengths = [
        (
            f"{model} · {dataset}",
            str(len(lengths.samples)),
            *(f"{lengths.mean(one):.0f}" for one in means),
            " of ".join(f"{lengths.mean(count):.3g}" for count in _STEPS),
        )
        for (model, dataset), lengths in plan.lengths.items()
    ]
    header = ("tokens, means", "samples", "prompt", "before", "content", "steps")
    lines = [*_table([_COLUMNS, *rows], rules_below={0, len(rows) - 1}), ""]
    if rate is not None:  # the longest job is what a kill can cost at most
        longest = max(plan.jobs, key=lambda job: plan.seconds(job, rate))
        time = duration(plan.seconds(longest, rate))
        name = f"  ({longest.rule} {longest.cell})"
        lines += [f"Longest job, the most that a kill can cost: {time}", name]
        lines += _over_runtime(plan, rate)
        lines += ["", *_table([_METHOD_COLUMNS, *_method_rows(plan, rate)], rules_below={0})]
    if plan.token_bytes:
        lines += ["", *_table([_FIT_COLUMNS, *_fit_rows(plan)], rules_below={0})]
    weights = ", ".join(
        f"{name} {scaled(size)} ({scaled(plan.memory[name], 'B')} on its device)"
        for name, size in plan.parameters.items()
    )
    speed = _NO_RATE if rate is None else f"Throughput: {rate / 1e12:g} TFLOP/s, as given."
    fits = f"{_FITS} {', '.join(plan.gradient_methods) or 'no method of this run'}."
    notes = [f"Lengths are {_origins(plan)}.", f"Weights: {weights}.", speed, *_ASSUMPTIONS]
    notes += [fits] * bool(plan.token_bytes)
    filled = (fill(note, 80, subsequent_indent="  ") for note in notes)
    return "\n".join([*lines, "", *_table([header, *lengths], rules_below={0}), "", *filled])


def _origins(plan: Plan) -> str:
    """Return the source of lengths, measured or estimated, by model and dataset if they differ."""
    origins: dict[str, list[str]] = {}
    for cell, lengths in plan.lengths.items():
        origins.setdefault(lengths.origin, []).append(" · ".join(cell))
    if len(origins) == 1:
        return next(iter(origins))
    return "; ".join(f"{origin}: {', '.join(cells)}" for origin, cells in origins.items())


def _over_runtime(plan: Plan, rate: float) -> list[str]:
    """Return a line for each model whose planned jobs exceed its `resources.runtime`."""
    lines = []
    for name, resources in plan.resources.items():
        jobs = [job for job in plan.jobs if job.model == name and job.rule in LOADING_RULES]
        over = [
            job for job in jobs if plan.seconds(job, rate) > 60 * (resources.runtime or math.inf)
        ]
        if over:
            worst = max(over, key=lambda job: plan.seconds(job, rate))
            lines += [
                f"Over resources.runtime of {name}, {resources.runtime} min: {len(over)} jobs, "
                f"up to {duration(plan.seconds(worst, rate))}",
                f"  ({worst.rule} {worst.cell})",
            ]
    return lines


def _method_rows(plan: Plan, rate: float) -> Iterator[tuple[str, ...]]:
    """Yield the maximum cost of each method: attribution, evaluation, total GPU-hours."""
    jobs: dict[str, dict[str, list[Job]]] = {}
    for job in plan.jobs:
        if job.rule in ("attribute", "evaluate_soft", "evaluate_ranking"):
            method = job.cell.split("/")[2 if job.rule == "evaluate_soft" else 1]
            stage = job.rule.partition("_")[0]
            jobs.setdefault(method, {"attribute": [], "evaluate": []})[stage].append(job)
    for method, stages in jobs.items():
        times = (sum(plan.seconds(job, rate) for job in group) for group in stages.values())
        on_gpu = [job for group in stages.values() for job in group if plan.holds_gpu(job)]
        hours = sum(plan.seconds(job, rate) for job in on_gpu) / 3600
        yield method, *map(duration, times), _hours(hours) if on_gpu else NOTHING


def _fit_rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Yield the tokens of a batch that fit on a GPU beside a model's weights; 0: none do."""
    for name, per_token in plan.token_bytes.items():
        room = max(0, CARD - plan.memory[name])
        yield name, *(scaled(room / size) for size in per_token)


def _row(rule: str, jobs: Sequence[Job], plan: Plan, rate: float | None) -> tuple[str, ...]:
    tokens = [[job.low for job in jobs], [job.high for job in jobs]]  # at least, at most
    flops = [sum(map(plan.flops, jobs, bound)) for bound in tokens]
    row = (rule, str(len(jobs)), _range(map(sum, tokens), scaled), _range(flops, scaled))
    if rate is None:
        return (*row, *[NOTHING] * 4)
    seconds = [
        [plan.seconds(job, rate, read) for job, read in zip(jobs, bound, strict=True)]
        for bound in tokens
    ]
    on_gpu = [plan.holds_gpu(job) for job in jobs]
    hours = [sum(compress(bound, on_gpu)) / 3600 for bound in seconds]
    return (
        *row,
        _range(map(sum, seconds), duration),
        f"{100 * sum(job.start_up for job in jobs) / sum(seconds[1]):.0f} %",
        duration(max(seconds[1], default=0)),
        _range(hours, _hours) if any(on_gpu) else NOTHING,
    )


def _hours(hours: float) -> str:
    return f"{hours:.0f}" if hours >= 10 else f"{hours:.2g}"


def _range(bounds: Iterable[float], text_of: Callable[[float], str]) -> str:
    """Return a range as text, or a single number if both ends look alike."""
    return " to ".join(dict.fromkeys(map(text_of, bounds)))


def _table(rows: Sequence[Sequence[str]], rules_below: Collection[int]) -> list[str]:
    """Return rows as lines, the first column left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for index, (first, *numbers) in enumerate(rows):
        cells = [text.rjust(width) for text, width in zip(numbers, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
        if index in rules_below:
            lines.append("\N{BOX DRAWINGS LIGHT HORIZONTAL}" * (sum(widths) + 2 * len(numbers)))
    return lines
