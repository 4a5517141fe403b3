"""The front page of a run: what came out, in words, a figure and a table, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pisoft.contracts import OK
from pisoft.pages.page import Figure, Page, Section
from pisoft.statistics.metrics import AVERAGE, CONTROL
from pisoft.statistics.robustness import order_changes
from pisoft.tables.layout import FAMILIES, LEVEL, Table, interval_text
from pisoft.units import duration, scaled

READ_METRICS = {
    "auc_pi_soft_ns": "π-Soft-NS (do the tokens with high scores suffice?)",
    "auc_pi_soft_nc": "π-Soft-NC (does the model miss them?)",
}


@dataclass(frozen=True)
class Names:
    """Labels in the order of the run."""

    models: Mapping[str, str]
    datasets: Mapping[str, str]
    methods: Mapping[str, str]


@dataclass(frozen=True)
class Findings:
    """Rows of the summary files that the page tells about."""

    statistics: pd.DataFrame
    comparisons: pd.DataFrame
    leave_one_out: pd.DataFrame
    outcomes: pd.DataFrame  # `soft_samples` of the metric `identity`
    cost: pd.DataFrame


def overview_page(
    run: str,
    found: Findings,
    names: Names,
    *,
    table: Table,
    figure: Figure,
    facts: tuple[str, ...],
) -> Page:
    """Build the front page.

    Args:
        run: name of the run.
        found: its summaries.
        names: labels.
        table: the main table.
        figure: the main figure.
        facts: what made the results; see :func:`facts_of`.
    """
    return Page(
        title=f"π-Soft Bench · {run}",
        sections=(
            Section("What was measured", (_WHAT, _size(found.statistics, names))),
            *_readings(found, names),
            Section("Main figure", figure=figure),
            Section("Main table", tables=(table,)),
            Section("Samples that could not be evaluated", (_failures(found.outcomes, names),)),
            Section("Cost", (_cost(found.cost),)),
            Section("What made these results", points=facts),
        ),
    )


_WHAT = (
    "Every attribution method gave each token of a prompt a score. Tokens were switched off at "
    "random according to their scores, the same expected share π for every method, and the change "
    "of the model's next-token distribution was measured (Hellinger distance). A number sums up "
    "the curve over π; higher is better. Numbers are means over samples; in brackets, their 95 % "
    "bootstrap interval. Differences count only if a paired permutation test finds them "
    f"(p < {LEVEL}, {FAMILIES})."
)


def _size(statistics: pd.DataFrame, names: Names) -> str:
    cells = statistics[(statistics["metric"] == "h0") & (statistics["dataset"] != AVERAGE)]
    largest = cells.groupby("dataset")["n"].max()
    listed = ", ".join(f"{names.datasets[name]} {largest[name]}" for name in names.datasets)
    return (
        f"Models: {', '.join(names.models.values())}. Methods: {len(names.methods)}. Samples that "
        f"could be evaluated, at most: {listed}."
    )


# Reading --------------------------------------------------------------------------------------


def _readings(found: Findings, names: Names) -> Iterable[Section]:
    """Tell for each model and protocol what the averages over datasets say, and what not."""
    averages = found.statistics[found.statistics["dataset"] == AVERAGE]
    for (protocol, model), rows in averages.dropna(subset="protocol").groupby(
        ["protocol", "model"], sort=False
    ):
        yield Section(
            f"Reading: {names.models[model]}, {protocol} routing",
            points=tuple(
                sentence
                for metric in READ_METRICS
                for sentence in _reading(
                    rows[rows["metric"] == metric].set_index("method"),
                    _best(rows[rows["metric"] == f"ratio_{metric}"]),
                    _of_cell(found.comparisons, protocol, model, metric),
                    _of_cell(found.leave_one_out, protocol, model, metric),
                    names,
                )
            ),
        )


def _of_cell(rows: pd.DataFrame, protocol: str, model: str, metric: str) -> pd.DataFrame:
    own = (rows["protocol"] == protocol) & (rows["model"] == model) & (rows["metric"] == metric)
    return rows[own]


def _best(rows: pd.DataFrame) -> str | None:
    """Return the best method of one metric and dataset; None without a value."""
    found = rows["best"].dropna()
    return None if found.empty else str(found.iloc[0])


def _reading(
    rows: pd.DataFrame,
    ratio_best: str | None,
    pairs: pd.DataFrame,
    left_out: pd.DataFrame,
    names: Names,
) -> list[str]:
    """Return sentences on one metric: the best, the control, and single datasets."""
    metric = str(rows["metric"].iloc[0])
    title = READ_METRICS[metric]
    known = rows[rows["value"].notna()]
    if known.empty:
        return [f"{title}: no method has a value in every dataset."]
    best = known.loc[_best(known)]
    tied = [name for name in known.index if known["p_value"][name] >= LEVEL]
    others = "every other method is told apart from it"
    if tied:
        others = (
            f"not distinguishable from it: {_listed(tied, names)} ({len(tied)} of "
            f"{len(known) - 1} others)"
        )
    sentences = [f"{title}: {_value_text(best, names)} is highest; {others}."]
    pairs = pairs[pairs["dataset"] == AVERAGE]
    if ratio_best is not None and ratio_best != best.name:
        sentences.append(
            f"By the ratio of means, which no single sample can rule, it is "
            f"{names.methods[ratio_best]} instead."
        )
    if CONTROL in known.index and len(known) > 1:
        sentences.append(_against_control(pairs, known, names))
    changes = order_changes(left_out).dropna(subset="left_out")
    changes = changes[changes["best_changes"]]
    if len(changes):
        told = "; ".join(
            f"without {names.datasets[row.left_out]} it is {_listed(row.best, names)}"
            for row in changes.itertuples()
        )
        sentences.append(f"Which method is highest hangs on single datasets: {told}.")
    return sentences


def _value_text(numbers: pd.Series, names: Names) -> str:
    interval = interval_text(numbers["low"], numbers["high"], 3) or "no interval"
    return f"{names.methods[str(numbers.name)]} ({numbers['value']:.3f} {interval})"


def _against_control(pairs: pd.DataFrame, known: pd.DataFrame, names: Names) -> str:
    """Say which methods random scores do not beat, and which they do not equal."""
    groups: dict[str, list[str]] = {
        "better than random scores": [],
        "not distinguishable from them": [],
        "worse than they are": [],
    }
    better, equal, worse = groups.values()
    mirrored = pairs.rename(columns={"method": "other", "other": "method"})
    both = pd.concat([pairs, mirrored.assign(difference=-pairs["difference"])])
    against = both[both["other"] == CONTROL].set_index("method")
    for method in known.index.intersection(against.index, sort=False):
        told_apart = against["p_adjusted"][method] < LEVEL
        larger = against["difference"][method] > 0
        (equal if not told_apart else better if larger else worse).append(method)
    told = [f"{what}: {_listed(group, names)}" for what, group in groups.items() if group]
    return f"Against the control, {'; '.join(told) or 'no method can be compared'}."


def _listed(methods: Iterable[str], names: Names) -> str:
    return ", ".join(names.methods[method] for method in methods)


# Failures, cost, provenance -------------------------------------------------------------------


def _failures(outcomes: pd.DataFrame, names: Names) -> str:
    """Count the samples that failed by model, dataset and reason, and for how many methods."""
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
    return f"Left out of all means, and counted in the tables: {listed}."


def _cost(cost: pd.DataFrame) -> str:
    """Sum up forwards, FLOP and time."""
    forwards, flops = cost["forwards_high"].sum(), cost["flops_high"].sum()
    timed, jobs = int(cost["timed_jobs"].sum()), int(cost["jobs"].sum())
    return (
        f"{jobs} jobs up to the evaluation; {scaled(forwards)} forwards and "
        f"{scaled(flops, 'FLOP')} as planned; {duration(cost['seconds'].sum())} of wall-clock "
        f"time, added up over the {timed} jobs that were timed."
    )


def facts_of(origins: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Return what made the results, from the provenance of each model's generations.

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
