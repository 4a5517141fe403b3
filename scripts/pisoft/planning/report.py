"""A plan as text: a table by rule, the lengths it is based on, and what is assumed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import compress

from pisoft.planning.lengths import CHARACTERS_PER_TOKEN
from pisoft.planning.plan import (
    LOADING_RULES,
    READING_SPEED,
    START_UP,
    START_UP_WITH_MODEL,
    Job,
    Plan,
)
from pisoft.planning.speed import Speed
from pisoft.units import duration, scaled

NOTHING = "\N{EN DASH}"
_COLUMNS = (
    "rule",
    "jobs",
    "forwards",
    "tokens",
    "FLOP",
    "time",
    "longest",
    "GPU-hours",
    "memory",
    "disk",
)
_ASSUMPTIONS = f"""\
Jobs: up to the evaluation. Summaries, tables, figures and pages, seconds each, come on top.
FLOP: matrix products of forwards; causal attention counts what it sees; the template before the
  first perturbable token is read once; a backward pass counts as a forward (weights are frozen).
Time: FLOP / speed, and per job {START_UP:g} s, or {START_UP_WITH_MODEL:g} s and the weights at \
{READING_SPEED / 1e9:g} GB/s where a model is loaded; of all
  jobs one after another, so divide by the number of jobs that run at once. GPU-hours: of the jobs
  that hold a GPU, all of their time.
Half precision: one step of some blocks (0, 1, 2, 4, 8, …) is evaluated with one draw in float32,
  too, counted like all others; a GPU takes several times longer for it.
Memory: weights, and activations and logits of one batch that fills the token budget, on the model's
  device, libraries (about 0.5 GB) not included. Gradient methods halve their batches if it is not
  there, and compute layers again for a sample that does not fit alone. Disk: Parquet rows before
  compression, without downloads.
Upper limits: ReAGent takes all its probe steps (two forwards per probe if its rule is met at once),
  answers not generated yet have full length, trainings take all their steps. Left out: the masked
  model, a forward of its own per prompt token and sample where ReAGent runs.
Lengths: measured in the run's own prompts and answers; estimated ones are the catalogue's means of
  the records' tokens, cut at the longest allowed prompt, in a template of {CHARACTERS_PER_TOKEN} \
characters a token."""


def plan_text(plan: Plan, speed: Speed, on_gpu: Collection[str] = ()) -> str:
    """Return the plan of a run, to be printed.

    Args:
        plan: the run's.
        speed: of its models.
        on_gpu: names of the models whose jobs hold a GPU.
    """
    rules = dict.fromkeys(job.rule for job in plan.jobs)
    stages = {rule: [job for job in plan.jobs if job.rule == rule] for rule in rules}
    stages["total"] = list(plan.jobs)
    rows = [_row(name, jobs, speed, on_gpu) for name, jobs in stages.items()]
    lengths = [
        (
            f"{model} · {dataset}",
            str(of.count),
            f"{of.mean(lambda sample: sample.prompt):.0f}",
            f"{of.mean(lambda sample: sample.first):.0f}",
            f"{of.mean(lambda sample: sample.perturbable):.0f}",
            f"{of.mean(lambda sample: len(sample.steps)):.3g}",
            of.origin,
        )
        for (model, dataset), of in plan.lengths.items()
    ]
    header = ("tokens, means", "samples", "prompt", "before", "perturbable", "steps", "lengths")
    return "\n".join(
        [
            *_table([_COLUMNS, *rows], rules_below={0, len(rows) - 1}),
            "",
            _longest_job(plan.jobs, speed),
            "",
            *_table([header, *lengths], rules_below={0}),
            "",
            *speed.explanations,
            _ASSUMPTIONS,
        ]
    )


def job_seconds(job: Job, flops: float, speed: Speed) -> float:
    """Return the time of a job that computes so many FLOPs, at the slowest model's speed if it has
    no model of its own."""
    rate = speed.rates[job.model] if job.model else min(speed.rates.values())
    return job.start_up + flops / rate


def _longest_job(jobs: Sequence[Job], speed: Speed) -> str:
    """Say which job takes longest, which is what a kill can cost at most."""
    seconds = {job: job_seconds(job, job.high.flops, speed) for job in jobs}
    longest = max(jobs, key=seconds.__getitem__)
    return (
        f"Longest job, and so what a kill can cost: {duration(seconds[longest])} "
        f"({longest.rule} {longest.cell})"
    )


def _row(rule: str, jobs: Sequence[Job], speed: Speed, on_gpu: Collection[str]) -> tuple[str, ...]:
    memory = max((job.memory for job in jobs if job.memory is not None), default=None)
    low = [job_seconds(job, job.low.flops, speed) for job in jobs]
    high = [job_seconds(job, job.high.flops, speed) for job in jobs]
    held = [job.rule in LOADING_RULES and job.model in on_gpu for job in jobs]
    hours = [sum(compress(seconds, held)) / 3600 for seconds in (low, high)]
    return (
        rule,
        str(len(jobs)),
        _range((sum(job.low.forwards for job in jobs), sum(job.high.forwards for job in jobs))),
        _range((sum(job.low.tokens for job in jobs), sum(job.high.tokens for job in jobs))),
        _range((sum(job.low.flops for job in jobs), sum(job.high.flops for job in jobs))),
        " to ".join(dict.fromkeys(map(duration, (sum(low), sum(high))))),
        duration(max(high, default=0)),
        " to ".join(dict.fromkeys(map(_hours, hours))) if any(held) else NOTHING,
        NOTHING if memory is None else scaled(memory, "B"),
        scaled(sum(job.disk for job in jobs), "B"),
    )


def _hours(hours: float) -> str:
    return f"{hours:.0f}" if hours >= 10 else f"{hours:.2g}"


def _range(bounds: tuple[float, float]) -> str:
    """Return two numbers as one text, or one number if they look alike."""
    return " to ".join(dict.fromkeys(scaled(bound) for bound in bounds))


def _table(rows: Sequence[Sequence[str]], rules_below: Iterable[int]) -> list[str]:
    """Return rows as lines: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for number, (first, *others) in enumerate(rows):
        cells = [text.rjust(width) for text, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
        if number in rules_below:
            lines.append("\N{BOX DRAWINGS LIGHT HORIZONTAL}" * (sum(widths) + 2 * len(others)))
    return lines
