"""The front page of a run: the ranking, the findings in words, failures, provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from pisoft.contracts import OK, meanings
from pisoft.pages.findings import Findings, Names, answers, readings
from pisoft.pages.links import links
from pisoft.pages.page import Figure, Page, Section
from pisoft.pages.standings import standings_table
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.standing import LEVEL
from pisoft.tables.layout import FAMILIES


def index_page(
    run: str,
    found: Findings,
    names: Names,
    *,
    figure: Figure,
    facts: tuple[str, ...],
    files: Mapping[str, Sequence[Path]],
    warning: str,
) -> Page:
    """Build the front page.

    Args:
        run: name of the run.
        found: its summaries.
        names: labels.
        figure: the main figure.
        facts: provenance of the results; see :func:`facts_of`.
        files: the run's other pages, tables and figures, below its folder, by title.
        warning: what the numbers of this run do not show, or nothing.
    """
    return Page(
        title=f"π-Soft Bench · {run}",
        warning=warning,
        sections=(
            *answers(found, names),
            Section("Ranks", tables=(standings_table(found.statistics, names),)),
            links(files, names),
            Section("What was measured", (_WHAT, _size(found.statistics, names))),
            *readings(found, names),
            Section("Main figure", figure=figure),
            Section("Samples that could not be evaluated", (_failures(found.outcomes, names),)),
            Section("Provenance", points=facts),
        ),
    )


_WHAT = (
    "Each method scores every token of a prompt. Tokens are ablated at random, guided by the "
    "scores, with the same expected fraction π kept for every method; the Hellinger distance says "
    "how far the model's next-token distribution moves. Each number is the area under the curve "
    "over π, averaged over samples, with its 95 % bootstrap interval; higher is better. "
    f"Differences count if a paired permutation test finds them (p < {LEVEL}, {FAMILIES})."
)


def _size(statistics: pd.DataFrame, names: Names) -> str:
    cells = statistics[(statistics["metric"] == "h0") & (statistics["dataset"] != AVERAGE)]
    largest = cells.groupby("dataset")["n"].max()
    listed = ", ".join(f"{names.datasets[name]} {largest[name]}" for name in names.datasets)
    return (
        f"Models: {', '.join(names.models.values())}. Methods: {len(names.methods)}. Samples that "
        f"could be evaluated, at most: {listed}."
    )


# Failures, provenance -------------------------------------------------------------------------


def _failures(outcomes: pd.DataFrame, names: Names) -> str:
    """Count failed samples by model, dataset and reason, and the methods affected."""
    failed = outcomes[outcomes["status"] != OK]
    if failed.empty:
        return "None: every sample of every cell was evaluated."
    keys = ["protocol", "model", "dataset", "status"]
    groups = failed.groupby(keys, sort=False).agg(
        samples=("sample_id", "nunique"), methods=("method", "nunique")
    )
    listed = "; ".join(
        f"{names.models[model]}, {names.datasets[dataset]}, {protocol}: {row.samples} {status} "
        f"({row.methods} methods)"
        for (protocol, model, dataset, status), row in groups.iterrows()
    )
    why = meanings(failed["status"])
    return f"Left out of all means, and counted in the tables: {listed} ({why})."


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
        number_type = model["dtype"] + (
            "" if model["quantization"] == "none" else f", {model['quantization']}"
        )
        described = f"{source}, {number_type}, on {origin['device']}"
        facts.append(f"{label}: {described}" + (f", revision {revision}" if revision else ""))
    first = next(iter(origins.values()))
    facts.append(f"Code: {first['git_commit'] or 'not a git checkout'}")
    packages = {"python": first["python"], **first["packages"]}
    facts.append("Packages: " + ", ".join(f"{name} {found}" for name, found in packages.items()))
    return tuple(facts)
