"""The front page of a run: the answer, why to trust it, the ranking, findings, provenance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from pisoft.pages.example import example_section
from pisoft.pages.findings import (
    EQUAL,
    SHORT,
    Numbers,
    Order,
    failures,
    headline,
    permuted,
    reading,
    rounding,
    sizes,
    validity,
    verdict,
)
from pisoft.pages.links import links
from pisoft.pages.page import Bar, Claim, Figure, Link, Page, Panel, Section
from pisoft.pages.standings import standings_table
from pisoft.statistics.metrics import AUC_METRICS, CONTROL, LEVEL, METRICS
from pisoft.tables.layout import interval_text
from pisoft.tables.notes import FAMILIES


def index_page(
    run: str,
    numbers: Numbers,
    *,
    evidence: Mapping[str, pd.DataFrame],
    figure: Figure,
    facts: tuple[str, ...],
    files: Mapping[str, Sequence[Path]],
    warning: str,
) -> Page:
    """Build the front page.

    Args:
        run: its name.
        numbers: statistics, comparisons, ranks and coverage.
        evidence: rows of :data:`EVIDENCE`; a question that was not run has none.
        figure: the main figure.
        facts: provenance of the results; see :func:`facts_of`.
        files: the run's other pages, tables and figures, below its folder, by title.
        warning: what the numbers of this run do not show, or nothing.
    """
    averages = numbers.averages("statistics", metric=AUC_METRICS)
    terms = [f"{name}: {_TERMS[name]}" for name in SHORT.values()]
    protocols = averages["protocol"].unique()
    terms += [f"{name.capitalize()} routing: {_TERMS[name]}" for name in protocols]
    readings = [
        Section(
            f"Findings: {numbers.labels.models[model]}, {protocol} routing",
            points=tuple(
                sentence
                for metric in AUC_METRICS
                for sentence in reading(numbers, protocol=protocol, model=model, metric=metric)
            ),
        )
        for protocol, model in averages.groupby(["protocol", "model"], sort=False).groups
    ]
    return Page(
        title=f"π-Soft Bench · {run}",
        warning=warning,
        sections=(
            Section("Answer", (headline(numbers),), points=tuple(terms)),
            Section("Can the numbers be trusted?", claims=tuple(_claims(evidence, files))),
            *_answers(numbers, averages),
            example_section(),
            Section("Ranks", tables=(standings_table(numbers),)),
            links(files, numbers.labels),
            Section("What was measured", (_WHAT, sizes(numbers))),
            *readings,
            Section("Both metrics over π", figure=figure),
            Section("Samples that could not be evaluated", (failures(numbers),)),
            Section("Provenance", points=facts),
        ),
    )


# What supports the numbers, and the sentence that reports it, by question; tables have its name.
EVIDENCE = {
    "metric_validation": validity,
    "permutation_baseline": permuted,
    "variance_components": rounding,
}
_TERMS = {
    "π-Soft-NS": "sufficiency. Keep the high-scoring tokens: does the prediction survive?",
    "π-Soft-NC": "comprehensiveness. Ablate the high-scoring tokens: does the prediction change?",
    "dynamic": "attention is recomputed from the ablated prompt.",
    "fixed": "the attention of the intact prompt is replayed.",
}
_WHAT = (
    "Each method scores every token of a prompt. Tokens are ablated at random, guided by the "
    "scores, with the same expected fraction π kept for every method; the Hellinger distance says "
    "how far the model's next-token distribution moves. Each number is the area under the curve "
    "over π, averaged over samples, with its 95 % confidence interval; higher is better. "
    "Differences count if a paired bootstrap-t test of a mean difference of 0 finds them "
    f"(p < {LEVEL}, {FAMILIES})."
)
_LEGEND = (
    "Dot: mean over samples, averaged over the model's datasets. Line: its 95 % interval. Best "
    "first. Shaded: the best method and those not significantly different from it. Italics and an "
    "open dot: random scores. †: not significantly better than random scores. ?: not tested "
    "against them."
)


def _claims(
    evidence: Mapping[str, pd.DataFrame], files: Mapping[str, Sequence[Path]]
) -> Iterator[Claim]:
    """Report the evidence of the run with its first table; of what it lacks, say what shows it."""
    tables = {
        path.parts[1]: Link(path.as_posix(), title, f"Evidence: {title}")
        for title, paths in files.items()
        for path in reversed(paths)
        if path.parts[0] == "tables"
    }
    lacking = []
    for question, sentence in EVIDENCE.items():
        if evidence[question].empty:
            lacking.append(question.replace("_", " "))
        else:
            yield Claim(sentence(evidence[question]), tables.get(question))
    if lacking:
        missing = " and ".join(lacking)
        yield Claim(f"Not part of this run: {missing} (make demo-trust shows how).")


def _answers(numbers: Numbers, averages: pd.DataFrame) -> Iterator[Section]:
    """Rank the methods of each model, by protocol and metric."""
    for place, (model, rows) in enumerate(averages.groupby("model", sort=False)):
        ends = rows[["value", "low", "high"]]
        span = (ends.min().min(), ends.max().max())
        panels = []
        for protocol, metric in rows.groupby(["protocol", "metric"], sort=False).groups:
            order = numbers.order(protocol=protocol, model=str(model), metric=metric)
            title = f"{METRICS[metric].label}, {protocol} routing"
            panels.append(Panel(title, verdict(order), tuple(_bars(order, span))))
        label, n = numbers.labels.models[str(model)], rows["n"].max()
        label += f" on {numbers.restricted[str(model)]}" if numbers.restricted else ""
        heading = f"{label}: which methods are most faithful? (n = {n} samples)"
        yield Section(heading, () if place else (_LEGEND,), panels=tuple(panels))


def _bars(order: Order, span: tuple[float, float]) -> Iterator[Bar]:
    """Yield the methods as bars, the best first, on a scale from 0 to 100."""
    groups = dict.fromkeys(order.best, "best") | dict.fromkeys(order.groups[EQUAL], "tied")
    _, equal, worse, untested = order.against(CONTROL).values()
    marks = dict.fromkeys([*equal, *worse], "†") | dict.fromkeys(untested, "?")
    ends = order.rows[["value", "low", "high"]].apply(lambda end: end.fillna(order.rows["value"]))
    scaled_ends = (100 * (ends - span[0]) / ((span[1] - span[0]) or 1)).round(2)
    for method, row in order.rows.iterrows():
        interval = interval_text(row["low"], row["high"], 3)
        at, low, high = scaled_ends.loc[method]
        yield Bar(
            order.labels[str(method)],
            " ".join(filter(None, (f"{row['value']:.3f}", interval))),
            at=at,
            low=low,
            high=high,
            group=groups.get(str(method), "other"),
            control=method == CONTROL,
            mark=marks.get(str(method), ""),
        )


def facts_of(origins: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the provenance of the results, from that of each model's generations.

    Args:
        origins: provenance by model label.
    """
    facts = []
    for label, origin in origins.items():
        model = origin["settings"]["model"]
        source = model["repository"] or "a local or trained model"
        revision = origin.get("model_commit") or model["revision"]
        quantised = "" if model["quantization"] == "none" else f", {model['quantization']}"
        described = f"{source}, {model['dtype']}{quantised}, on {origin['device']}"
        facts.append(f"{label}: {described}" + (f", revision {revision}" if revision else ""))
    first = next(iter(origins.values()))
    facts.append(f"Code: {first['git_commit'] or 'not a git checkout'}")
    packages = {"python": first["python"], **first["packages"]}
    facts.append("Packages: " + ", ".join(f"{name} {found}" for name, found in packages.items()))
    return tuple(facts)
