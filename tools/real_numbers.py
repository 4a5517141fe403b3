"""A run's numbers in README.md and the docs, from its summary (:mod:`summary`)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from configuration_reference import markdown_table
from documents import render
from paper_findings import paper_findings
from pisoft.pages.findings import Numbers, answer
from pisoft.statistics.alternatives import ALTERNATIVES, HALF_SAMPLES, OPERATORS
from pisoft.statistics.metrics import AUC_METRICS, AVERAGE, CONTROL, LEVEL, METRICS
from pisoft.statistics.published_settings import SETTINGS, as_text
from pisoft.statistics.results import in_both_orders, select
from pisoft.tables import decisions, notes, off_distribution, sensitivity
from pisoft.tables.accuracy import COLUMNS as ANSWERS
from pisoft.tables.grid import (
    NOTHING,
    Block,
    Column,
    Entry,
    blocks,
    columns,
    each,
    interval_text,
    metrics,
    number_text,
    p_text,
    rank_text,
    ranked,
)
from pisoft.views.view import Results
from summary import Summary

LEADING = 3  # rows of the table, without random scores
USUAL_TYPE = SETTINGS["llama-3.1-8b-instruct.dtype"].paper  # dtype in paper.yaml
CHANGES = "changes.txt"  # written by hand: why verdicts differ from the previous page


# README.md --------------------------------------------------------------------------------------


def result_text(numbers: Numbers, *, protocol: str, figure: str, page: str) -> str:
    """Return table, answer and figure, as Markdown.

    `figure` and `page` (of the paper's findings) are paths relative to README.md.
    """
    results = numbers.results("statistics", protocol=protocol)
    orders = {name: numbers.order(metric=name, protocol=protocol) for name in AUC_METRICS}
    (model,) = numbers.labels.models.values()
    areas = {name: METRICS[name].label for name in AUC_METRICS}
    ranks = orders[AUC_METRICS[0]].rows["rank"]
    labels = {name: results.methods[name] for name in ranks.index}
    cells = columns("metric", areas, ranked, dataset=AVERAGE)
    (block,) = blocks(results, {"": {}}, each("method", labels), cells)
    rows = [(rank_text(rank), *row) for rank, row in zip(ranks, markdown_rows(block), strict=True)]
    lines = [("#", "Method", *areas.values()), ("--:", "---", *["--:"] * len(areas))]
    places = [n for n, method in enumerate(ranks.index) if n < LEADING or method == CONTROL]
    for place, following in pairwise([*places, len(rows)]):
        lines.append(rows[place])
        if following > place + 1:
            lines.append(("…", *[""] * (1 + len(areas))))
    return render(
        "readme.md.jinja",
        lines=lines,
        model=model,
        protocol=protocol,
        n=select(results.rows, metric=AUC_METRICS, dataset=AVERAGE)["n"].max(),
        n_methods=len(rows),
        counts=sample_counts(results),
        answer=answer(orders),
        figure=figure,
        page=page,
    ).rstrip("\n")


def markdown_rows(block: Block) -> list[tuple[str, ...]]:
    """Return the rows of a block: label and numbers."""
    return [(row.label, *map(_entry_text, row.entries)) for row in block.rows]


def sample_counts(results: Results) -> str:
    """Return the number of samples in each dataset's means, for the method with most."""
    largest = select(results.rows, metric=AUC_METRICS).groupby("dataset")["n"].max()
    return ", ".join(f"{label} {largest[name]}" for name, label in results.datasets.items())


def _entry_text(entry: Entry) -> str:
    """Return a number with its marks, and its interval in small type, unbroken."""
    number = f"**{entry.text}**" if entry.strong else entry.text
    mark = f" {entry.mark}" if entry.mark else ""
    interval = f" <sub>{entry.interval}</sub>" if entry.interval else ""
    return f"{number}{mark}{interval}".replace(" ", "&nbsp;")


# The page ---------------------------------------------------------------------------------------


def real_numbers_page(
    summary: Summary,
    figure: str,
    changes: str = "",
    larger: Summary | None = None,
    operators: Summary | None = None,
    stopped: Summary | None = None,
) -> str:
    """Return the docs page about a run of one model, as Markdown.

    `figure` is a path relative to the page; `changes` says why verdicts differ from the previous
    page. A `larger` run adds its answers, their effect on the order of methods, and a comparison of
    its other methods with this run's. A run with other ablation `operators` adds their orders of
    methods and their effect on inputs. A run with comparisons to be decided (`stopped`) adds the
    number of records that each took.
    """
    numbers = summary.numbers
    names = {*summary.models, *summary.datasets, *summary.methods}
    settings = {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in summary.settings.items()
        if not any(key.startswith(f"{name}.") for name in names)
    }
    findings = []
    for finding in paper_findings(numbers, summary.protocols):
        previous = [summary.previous.get(finding.claim, "–")] if summary.previous else []
        findings.append((finding.claim, *previous, f"**{finding.verdict}**", finding.why))
    before = ["before"] if summary.previous else []
    return render(
        "real_numbers.md.jinja",
        summary=summary,
        settings=settings,
        counts=sample_counts(numbers.results("statistics")),
        answers=_answers(numbers),
        meaning_of_answers=notes.text("accuracy"),
        findings=markdown_table(("finding", *before, "here", "why"), findings),
        changes=changes,
        differences=_differences(summary.settings),
        by_answer=_by_answer(summary.by_answer),
        larger=larger,
        answers_of_larger=_answers(larger.numbers) if larger else "",
        by_answer_of_larger=_by_answer(larger.by_answer) if larger else "",
        others_of_larger=_against_methods_of(summary, larger) if larger else "",
        operators=_operators(operators) if operators else None,
        stopped=_stopped(stopped) if stopped else None,
        rankings=dict(_rankings(numbers, summary.protocols)),
        figure=figure,
    )


def _answers(numbers: Numbers) -> str:
    """Return the table of the model's answers."""
    results = numbers.results("accuracy")
    (block,) = blocks(results, {"": {}}, each("dataset", results.datasets), ANSWERS)
    return _table("Dataset", ANSWERS, block)


def _against_methods_of(summary: Summary, larger: Summary) -> str:
    """Return how many methods of a run each other method of a larger run beats, or loses to."""
    pairs = larger.numbers.rows["comparisons"]
    pairs = in_both_orders(select(pairs, dataset=AVERAGE, metric=AUC_METRICS))
    pairs = pairs[pairs["other"].isin({*summary.methods} - {CONTROL})]
    cells = [(protocol, metric) for protocol in larger.protocols for metric in AUC_METRICS]
    lines = []
    for name, label in larger.methods.items():
        if name in summary.methods:
            continue
        counts = []
        for protocol, metric in cells:
            rows = select(pairs, method=name, protocol=protocol, metric=metric)
            values = rows.loc[rows["p_adjusted"] < LEVEL, "value"]
            counts.append(f"{(values > 0).sum()}, {(values < 0).sum()}")
        lines.append((label, *counts))
    heads = [f"{METRICS[metric].label}, {protocol}" for protocol, metric in cells]
    return markdown_table(("method", *heads), lines) if lines else ""


def _operators(summary: Summary) -> dict[str, Any]:
    """Return the template values for a run with other ablation operators."""
    return {
        "run": summary.run,
        "counts": sample_counts(summary.numbers.results("statistics")),
        "methods": summary.methods.values(),
        "orders": _orders_by_operator(summary.numbers),
        "meaning_of_orders": notes.text("sensitivity"),
        "inputs": _inputs_by_operator(summary.numbers),
        "meaning_of_inputs": notes.text("off_distribution"),
    }


def _orders_by_operator(numbers: Numbers) -> dict[str, str]:
    """Return tables by metric: orders of methods by operator, with other samples for comparison."""
    results = numbers.results("sensitivity")
    changes = {name: ALTERNATIVES[name] for name in (*OPERATORS.values(), HALF_SAMPLES)}
    grid = sensitivity.columns(results, numbers.labels.methods)
    made = blocks(results, metrics(AUC_METRICS), each("part", changes), grid, sparse=True)
    return {block.title: _table("choice changed", grid, block) for block in made}


def _inputs_by_operator(numbers: Numbers) -> dict[str, str]:
    """Return tables by dataset: operators' effects on inputs."""
    made = off_distribution.dataset_blocks(numbers.results("off_distribution"))
    corner = "ablation of random tokens"
    return {block.title: _table(corner, off_distribution.COLUMNS, block) for block in made}


def _stopped(summary: Summary) -> dict[str, Any]:
    """Return the template values for a run with comparisons to be decided."""
    results = summary.numbers.results("decisions")
    made = decisions.cell_blocks(results)
    return {
        "run": summary.run,
        "methods": summary.methods.values(),
        "outcome": decisions.outcome(results),
        "comparisons": {b.title: _table("comparison", decisions.COLUMNS, b) for b in made},
        "meaning": notes.text("decisions"),
    }


def _table(corner: str, grid: Sequence[Column], block: Block) -> str:
    return markdown_table((corner, *(column.label for column in grid)), markdown_rows(block))


def _rankings(numbers: Numbers, protocols: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the tables of all methods, with their titles."""
    for protocol in protocols:
        results = numbers.results("statistics", protocol=protocol)
        datasets = dict(sorted(results.with_average.items(), key=lambda item: item[0] != AVERAGE))
        for metric in AUC_METRICS:
            cells = columns("dataset", datasets, ranked, metric=metric)
            (block,) = blocks(results, {"": {}}, each("method", results.methods), cells, cells[0])
            table = markdown_table(("method", *datasets.values()), markdown_rows(block))
            yield f"{METRICS[metric].label}, {protocol}", table


def _differences(settings: Mapping[str, Any]) -> str:
    """Return the table of a run's settings that differ from the paper's, empty if none do."""
    lines = []
    for key, value in settings.items():
        here = tuple(value) if isinstance(value, list) else value
        setting = SETTINGS.get(key)
        if setting is not None and here != setting.paper:
            paper = as_text(setting.paper)
            lines.append((key, here, paper if setting.where else f"left open; ours: {paper}"))
        elif key.endswith(".dtype") and setting is None:
            lines.append((key, here, f"left open; ours: {USUAL_TYPE}"))
        elif key.endswith(".max_words"):
            lines.append((key, here, "records of any length"))
    rows = [(f"`{key}`", as_text(here), paper) for key, here, paper in lines]
    return markdown_table(("setting", "here", "paper"), rows) if rows else ""


def _by_answer(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of how the order of methods depends on answers, empty without rows."""
    header = ("answers", "routing", "metric", "n", "others", "Kendall's τ", "random splits", "p")
    lines = []
    for row in rows:
        n = (f"{row['n']}", f"{row['others']}")
        splits = interval_text(row["low"], row["high"], 2) or NOTHING
        numbers = (number_text(row["tau"], 2), splits, p_text(row["p_value"]))
        keys = (row["answers"], row["protocol"], METRICS[row["metric"]].label)
        lines.append((*keys, *n, *numbers))
    return markdown_table(header, lines) if rows else ""
