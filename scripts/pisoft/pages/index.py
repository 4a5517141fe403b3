"""The front page of a run: the answer, why to trust it, the ranking, findings, provenance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pisoft.formatting import signed
from pisoft.pages import findings
from pisoft.pages.example import example_table
from pisoft.pages.findings import EQUAL, SHORT, Numbers, Order, verdict
from pisoft.pages.links import links
from pisoft.pages.page import TEXTS, Claim, Figure, Link, Page, Ranking, Section, Standing, text
from pisoft.statistics.metrics import AUC_METRICS, CONTROL, LEVEL, METRICS
from pisoft.tables.grid import EQUIVALENT, interval_text, mark, rank_text
from pisoft.tables.notes import FAMILIES

EXAMPLE = Link("#how-to-read-these-numbers", "Worked example", "Worked example of both metrics")


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
        evidence: rows of :data:`EVIDENCE`; questions that were not run have none.
        figure: the main figure.
        facts: provenance of the results; see :func:`facts_of`.
        files: the run's other pages, tables and figures, below its folder, by title.
        warning: limits of this run's numbers, if any.
    """
    averages = numbers.averages("statistics", metric=AUC_METRICS)
    terms = [Claim(f"{name}: {TEXTS['terms'][name]}") for name in SHORT.values()]
    terms[-1] = replace(terms[-1], link=EXAMPLE)
    protocols = averages["protocol"].unique()
    terms += [Claim(f"{name.capitalize()} routing: {TEXTS['terms'][name]}") for name in protocols]
    meaning = text("how_to_read", level=LEVEL, families=FAMILIES)
    return Page(
        title=f"π-Soft Bench · {run}",
        warning=warning,
        sections=(
            Section("Answer", (findings.headline(numbers),), claims=tuple(terms)),
            Section("Can the numbers be trusted?", claims=tuple(_claims(evidence, files))),
            *_rankings(numbers, averages),
            Section(
                "How to read these numbers",
                (meaning, findings.sizes(numbers)),
                (example_table(),),
                claims=(Claim(text("docs"), Link("docs.html", "Docs", "Docs of the benchmark")),),
            ),
            links(files, numbers.labels),
            Section("Both metrics over π", figure=figure),
            Section("Samples that could not be evaluated", (findings.failures(numbers),)),
            Section("Provenance", points=facts),
        ),
    )


# What supports the numbers: the question, and what answers it from a summary of this name.
EVIDENCE: dict[str, tuple[str, Callable[[pd.DataFrame], str]]] = {
    "metric_validation": ("Do the metrics detect planted evidence?", findings.validity),
    "permutation_baseline": ("Do shuffled scores lose their advantage?", findings.permuted),
    "variance_components": ("How large is numerical noise?", findings.rounding),
}


def _claims(
    evidence: Mapping[str, pd.DataFrame], files: Mapping[str, Sequence[Path]]
) -> Iterator[Claim]:
    """Answer each question with its first table, or name the setting that would."""
    tables = {
        path.parts[1]: Link(path.as_posix(), title, f"Evidence: {title}")
        for title, paths in files.items()
        for path in reversed(paths)
        if path.parts[0] == "tables"
    }
    for name, (question, answer) in EVIDENCE.items():
        if evidence[name].empty:
            yield Claim(f"{question} Not tested in this run; `make demo-trust` shows how.")
        else:
            yield Claim(f"{question} {answer(evidence[name])}", tables.get(name))


def _rankings(numbers: Numbers, averages: pd.DataFrame) -> Iterator[Section]:
    """Rank the methods of each model by protocol and metric; rankings of a metric share a scale."""
    extremes = averages.groupby("metric")[["value", "low", "high"]].agg(["min", "max"])
    lowest = np.floor(10 * extremes.min(axis="columns")) / 10
    highest = np.ceil(10 * extremes.max(axis="columns")) / 10
    has_control = averages.loc[averages["method"] == CONTROL, "value"].notna().any()
    legend = " ".join(map(text, ("rankings", "against_random") if has_control else ("rankings",)))
    for index, (model, rows) in enumerate(averages.groupby("model", sort=False)):
        rankings = []
        for protocol, metric in rows.groupby(["protocol", "metric"], sort=False).groups:
            cell = {"protocol": protocol, "model": str(model), "metric": metric}
            scale = lowest[metric], highest[metric]
            standings = tuple(_standings(numbers.order(**cell), scale))
            title = f"{METRICS[metric].label}, {protocol} routing"
            ends = zip((0, 50, 100), np.linspace(*scale, 3), strict=True)
            ticks = {at: signed(f"{value:z.3g}") for at, value in ends}
            rankings.append(Ranking(title, verdict(numbers, **cell), standings, ticks))
        label, n = numbers.labels.models[str(model)], rows["n"].max()
        label += f" on {numbers.restricted[str(model)]}" if numbers.restricted else ""
        heading = f"{label}: which methods are most faithful? (n = {n} samples)"
        yield Section(heading, () if index else (legend,), rankings=tuple(rankings))


def _standings(order: Order, scale: tuple[float, float]) -> Iterator[Standing]:
    """Yield methods with their numbers, best first."""
    leading = {*order.best, *order.groups[EQUAL]}
    _, equal, worse, untested = order.against(CONTROL).values()
    marks = dict.fromkeys([*equal, *worse], "†") | dict.fromkeys(untested, "†?")
    for row in order.rows.assign(is_best=order.rows.index.isin(order.best)).itertuples():
        ends = [row.value if np.isnan(end) else end for end in (row.value, row.low, row.high)]
        at, low, high = (round(100 * (end - scale[0]) / (np.ptp(scale) or 1), 2) for end in ends)
        interval, sign = interval_text(row.low, row.high, 3), mark(row)
        yield Standing(
            rank_text(row.rank),
            order.labels[row.Index],
            " ".join(filter(None, (f"{row.value:.3f}", interval))),
            *(at, low, high),
            leads=row.Index in leading or sign == EQUIVALENT,
            control=row.Index == CONTROL,
            marks=" ".join(filter(None, (sign, marks.get(row.Index, "")))),
        )


def facts_of(
    origins: Mapping[str, Mapping[str, Any]], versions: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """Return the provenance of the results; see :func:`model_facts`, :func:`version_facts`."""
    return (*model_facts(origins).values(), *version_facts(versions))


def model_facts(origins: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return source and device of each model, by label.

    `origins` hold, by label, the provenance of generations with the devices of evaluations.
    """
    facts = {}
    for label, origin in origins.items():
        model = origin["settings"]["model"]
        source = model["repository"] or "a local or trained model"
        revision = origin.get("model_commit") or model["revision"]
        quantised = "" if model["quantization"] == "none" else f", {model['quantization']}"
        described = f"{source}, {model['dtype']}{quantised}, on {origin['device']}"
        facts[label] = f"{label}: {described}" + (f", revision {revision}" if revision else "")
    return facts


def version_facts(versions: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield versions of the code and of packages, and name mixed ones.

    `versions` come from :func:`pisoft.store.parquet.made_with`.
    """
    yield f"Code: {', '.join(versions['code']) or 'not a git checkout'}"
    packages = {name: several for name, several in versions.items() if name != "code"}
    listed = (f"{name} {' and '.join(several)}" for name, several in packages.items())
    yield "Packages: " + ", ".join(listed)
    if mixed := [name for name, several in packages.items() if len(several) > 1]:
        yield f"Not all results were computed with the same version of {', '.join(mixed)}"
