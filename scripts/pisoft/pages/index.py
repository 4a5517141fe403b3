"""The front page of a run: what came out, in words, a figure and a table, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import pandas as pd

from pisoft.contracts import OK
from pisoft.pages.page import Bar, Card, Figure, Page, Panel, Section
from pisoft.statistics.metrics import AVERAGE, CONTROL, METRICS
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


def index_page(
    run: str,
    found: Findings,
    names: Names,
    *,
    table: Table,
    figure: Figure,
    facts: tuple[str, ...],
    files: Iterable[str],
    warning: str,
) -> Page:
    """Build the front page.

    Args:
        run: name of the run.
        found: its summaries.
        names: labels.
        table: the main table.
        figure: the main figure.
        facts: what made the results; see :func:`facts_of`.
        files: the run's other pages, tables and figures, below its folder.
        warning: what the numbers of this run do not show, or nothing.
    """
    return Page(
        title=f"π-Soft Bench · {run}",
        warning=warning,
        sections=(
            *_answers(found, names),
            *_links(files, names),
            Section("Numbers", tables=(table,)),
            Section("What was measured", (_WHAT, _size(found.statistics, names))),
            *_readings(found, names),
            Section("Main figure", figure=figure),
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


# Answers --------------------------------------------------------------------------------------

_LEGEND = (
    "Mean over samples (dot) and its 95 % interval (line), averaged over datasets; the best comes "
    "first. Shaded: the best, and what a test does not tell apart from it. In italics, with an "
    "open dot: random scores."
)


def _answers(found: Findings, names: Names) -> Iterable[Section]:
    """Show for each model how its methods are ranked, under each protocol and by each metric."""
    shown = found.statistics[
        (found.statistics["dataset"] == AVERAGE)
        & found.statistics["metric"].isin(READ_METRICS)
        & found.statistics["protocol"].notna()
    ]
    legend: tuple[str, ...] = (_LEGEND,)
    for model, rows in shown.groupby("model", sort=False):
        ends = rows[["value", "low", "high"]]
        span = (ends.min().min(), ends.max().max())
        panels = tuple(
            _panel(
                f"{METRICS[metric].label}, {protocol} routing",
                own.set_index("method"),
                _of_cell(found.comparisons, protocol, str(model), str(metric)),
                names,
                span,
            )
            for (protocol, metric), own in rows.groupby(["protocol", "metric"], sort=False)
        )
        n = int(rows["n"].max())
        heading = f"{names.models[str(model)]}: which scores are faithful? (n = {n} samples)"
        yield Section(heading, legend, panels=panels)
        legend = ()


def _panel(
    title: str,
    rows: pd.DataFrame,
    pairs: pd.DataFrame,
    names: Names,
    span: tuple[float, float],
) -> Panel:
    """Draw the methods of one metric, the best first, and say what the tests say."""
    known = rows[rows["value"].notna()].sort_values("rank", kind="stable")
    if known.empty:
        return Panel(title, "No method has a value in every dataset.", ())
    best = known[known["rank"] == known["rank"].min()]
    tied = known[(known["p_value"] >= LEVEL) & ~known.index.isin(best.index)]
    groups = dict.fromkeys(best.index, "best") | dict.fromkeys(tied.index, "tied")

    def place(value: float) -> float:
        return round(100 * (value - span[0]) / ((span[1] - span[0]) or 1), 2)

    bars = []
    for method, row in known.iterrows():
        interval = interval_text(row["low"], row["high"], 3)
        low, high = row[["low", "high"]].fillna(row["value"])
        bars.append(
            Bar(
                names.methods[str(method)],
                " ".join(filter(None, (f"{row['value']:.3f}", interval))),
                at=place(row["value"]),
                low=place(low),
                high=place(high),
                group=groups.get(method, "other"),
                control=method == CONTROL,
            )
        )
    return Panel(title, _verdict(known, best, tied, pairs, names), tuple(bars))


def _verdict(
    known: pd.DataFrame, best: pd.DataFrame, tied: pd.DataFrame, pairs: pd.DataFrame, names: Names
) -> str:
    """Say who leads, who is not told apart from that, and how many beat random scores."""
    lead = f"{_listed(best.index, names)} {'leads' if len(best) == 1 else 'lead'}"
    others = len(known) - len(best)
    if not others:
        return f"{lead}."
    apart = (
        f"{len(tied)} of {others} others are not told apart from it"
        if len(tied)
        else ("every other method is told apart from it")
    )
    said = f"{lead}; {apart}."
    if CONTROL not in known.index or len(known) < 2:
        return said
    better, _, _ = _against(pairs[pairs["dataset"] == AVERAGE], known)
    return f"{said} Better than random scores: {len(better)} of {len(known) - 1}."


# Links ----------------------------------------------------------------------------------------

# What each table, figure or page is called here, by group; others are listed under their own name.
CARDS = {
    "Answer": {
        "pi_soft_auc": "π-Soft-NS and π-Soft-NC (AUC)",
        "ranks": "Ranks and critical differences",
        "pi_curves": "Curves over π",
        "explorer": "Scores token by token",
        "published": "Against the paper",
    },
    "Robustness": {
        "robust_statistics": "Other statistics of the AUC",
        "variances": "Where the variance comes from",
        "original_soft": "Original Soft-NS and Soft-NC",
        "insertion_deletion": "Insertion and deletion",
        "metric_agreement": "Do metrics agree on methods?",
        "layer_study": "Layers that Grad-ELLM sums",
    },
    "Diagnostics": {
        "advantage": "Advantage over random scores by π",
        "density": "Are dense scores what is rewarded?",
        "method_agreement": "Do methods agree on tokens?",
        "scores": "Distribution of scores",
        "tokens": "Most important tokens of single texts",
        "protocol": "Why scores are calibrated",
    },
    "Provenance": {
        "accuracy": "Accuracy of the models",
        "timings": "Time and memory of attribution",
        "cost": "Cost of the run",
    },
}
MORE = "More"


def _links(files: Iterable[str], names: Names) -> Iterable[Section]:
    """Link to every file, with a card for each table or figure."""
    labels = {**names.models, **names.datasets}
    by_name: dict[str, list[tuple[str, str]]] = {}
    for file in files:
        *folders, last = PurePosixPath(file).with_suffix("").parts
        room, name, *cell = [*folders, last] if folders else ["page", last]
        what = [labels.get(part, part) for part in cell] if name != "published" else []
        by_name.setdefault(name, []).append((file, " · ".join([room.removesuffix("s"), *what])))
    known = {name for titles in CARDS.values() for name in titles}
    others = {name: name.replace("_", " ") for name in by_name if name not in known}
    for group, titles in {**CARDS, MORE: others}.items():
        cards = tuple(
            Card(title, tuple(by_name[name])) for name, title in titles.items() if name in by_name
        )
        if cards:
            yield Section(group, cards=cards)


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
    kinds = ("better than random scores", "not distinguishable from them", "worse than they are")
    groups = zip(kinds, _against(pairs, known), strict=True)
    told = [f"{what}: {_listed(group, names)}" for what, group in groups if group]
    return f"Against the control, {'; '.join(told) or 'no method can be compared'}."


def _against(pairs: pd.DataFrame, known: pd.DataFrame) -> tuple[list[str], list[str], list[str]]:
    """Return the methods that are better than random scores, not told apart, and worse."""
    better: list[str] = []
    equal: list[str] = []
    worse: list[str] = []
    mirrored = pairs.rename(columns={"method": "other", "other": "method"})
    both = pd.concat([pairs, mirrored.assign(difference=-pairs["difference"])])
    against = both[both["other"] == CONTROL].set_index("method")
    for method in known.index.intersection(against.index, sort=False):
        told_apart = against["p_adjusted"][method] < LEVEL
        larger = against["difference"][method] > 0
        (equal if not told_apart else better if larger else worse).append(method)
    return better, equal, worse


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
