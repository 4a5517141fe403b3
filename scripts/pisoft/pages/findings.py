"""The results of a run averaged over datasets, as ranked panels and as sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pandas as pd

from pisoft.pages.page import Bar, Panel, Section
from pisoft.statistics.metrics import AVERAGE, CONTROL, METRICS
from pisoft.statistics.robustness import order_changes
from pisoft.statistics.standing import LEVEL, standing
from pisoft.tables.layout import interval_text

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
    """Rows of the summary files that the front page reports."""

    statistics: pd.DataFrame
    comparisons: pd.DataFrame
    leave_one_out: pd.DataFrame
    outcomes: pd.DataFrame  # `soft_samples` of the metric `identity`


# At a glance -----------------------------------------------------------------------------------

_LEGEND = (
    "Dot: mean over samples, averaged over datasets. Line: its 95 % interval. Best first. Shaded: "
    "the best method and those not significantly different from it. Italics and an open dot: "
    "random scores."
)


def averages(statistics: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the means over datasets of :data:`READ_METRICS`."""
    return statistics[
        (statistics["dataset"] == AVERAGE)
        & statistics["metric"].isin(READ_METRICS)
        & statistics["protocol"].notna()
    ]


def answers(found: Findings, names: Names) -> Iterable[Section]:
    """Rank the methods of each model, by protocol and metric."""
    shown = averages(found.statistics)
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
    """Return the methods of one metric, best first, with the verdict of the tests."""
    known = rows[rows["value"].notna()].sort_values("rank", kind="stable")
    if known.empty:
        return Panel(title, "No method has a value in every dataset.", ())
    best, tied = standing(known)
    groups = dict.fromkeys(best, "best") | dict.fromkeys(tied, "tied")

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
                group=groups.get(str(method), "other"),
                control=method == CONTROL,
            )
        )
    return Panel(title, _verdict(known, pairs, names), tuple(bars))


def _verdict(known: pd.DataFrame, pairs: pd.DataFrame, names: Names) -> str:
    """Name the leading methods; count those not significantly worse, and those above random."""
    best, tied = standing(known)
    verdict = f"{_listed(best, names)} {'leads' if len(best) == 1 else 'lead'}."
    rest = len(known) - len(best)
    if tied:
        verdict += f" Not significantly different: {len(tied)} of {rest} other methods."
    elif rest:
        verdict += " Every other method is significantly worse."
    if CONTROL not in known.index or len(known) < 2:
        return verdict
    better, _, _ = against(pairs[pairs["dataset"] == AVERAGE], known)
    return f"{verdict} Significantly better than random scores: {len(better)} of {len(known) - 1}."


# In sentences -----------------------------------------------------------------------------------


def readings(found: Findings, names: Names) -> Iterable[Section]:
    """State in sentences what the averages over datasets show, by model and protocol."""
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
    cell = (rows["protocol"] == protocol) & (rows["model"] == model) & (rows["metric"] == metric)
    return rows[cell]


def _best(rows: pd.DataFrame) -> str | None:
    """Return the best method of one metric and dataset; None without a value."""
    best = rows["best"].dropna()
    return None if best.empty else str(best.iloc[0])


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
    best, tied = standing(known)
    highest = ", ".join(_value_text(known.loc[method], names) for method in best)
    first = f"{title}: {highest} {'is' if len(best) == 1 else 'are'} highest"
    rest = len(known) - len(best)
    if tied:
        near = f"{_listed(tied, names)} ({len(tied)} of {rest} other methods)"
        first += f"; not significantly different: {near}"
    elif rest:
        first += "; every other method is significantly worse"
    sentences = [f"{first}."]
    pairs = pairs[pairs["dataset"] == AVERAGE]
    if ratio_best is not None and ratio_best not in best:
        sentences.append(
            f"By the ratio of means, which no single sample can dominate, "
            f"{names.methods[ratio_best]} is highest instead."
        )
    if CONTROL in known.index and len(known) > 1:
        sentences.append(_against_control(pairs, known, names))
    changes = order_changes(left_out).dropna(subset="left_out")
    changes = changes[changes["best_changes"]]
    if len(changes):
        listed = "; ".join(
            f"without {names.datasets[row.left_out]} it is {_listed(row.best, names)}"
            for row in changes.itertuples()
        )
        sentences.append(f"The leading method depends on single datasets: {listed}.")
    return sentences


def _value_text(numbers: pd.Series, names: Names) -> str:
    interval = interval_text(numbers["low"], numbers["high"], 3) or "no interval"
    return f"{names.methods[str(numbers.name)]} ({numbers['value']:.3f} {interval})"


def _against_control(pairs: pd.DataFrame, known: pd.DataFrame, names: Names) -> str:
    """List the methods better than random scores, not significantly different, and worse."""
    kinds = ("significantly better", "not significantly different", "significantly worse")
    groups = zip(kinds, against(pairs, known), strict=True)
    listed = [f"{kind}: {_listed(group, names)}" for kind, group in groups if group]
    return f"Against random scores, {'; '.join(listed) or 'no method can be compared'}."


def against(
    pairs: pd.DataFrame, known: pd.DataFrame, other: str = CONTROL
) -> tuple[list[str], list[str], list[str]]:
    """Return the methods significantly better than another, not significantly different, and worse.

    Args:
        pairs: `comparisons` rows of one protocol, model, metric and dataset.
        known: `statistics` rows of the same, by method.
        other: the method that they are held against.
    """
    better: list[str] = []
    equal: list[str] = []
    worse: list[str] = []
    mirrored = pairs.rename(columns={"method": "other", "other": "method"})
    both = pd.concat([pairs, mirrored.assign(difference=-pairs["difference"])])
    tested = both[both["other"] == other].set_index("method")
    for method in known.index.intersection(tested.index, sort=False):
        apart = tested["p_adjusted"][method] < LEVEL
        larger = tested["difference"][method] > 0
        (equal if not apart else better if larger else worse).append(method)
    return better, equal, worse


def _listed(methods: Iterable[str], names: Names) -> str:
    return ", ".join(names.methods[method] for method in methods)
