"""Sentences of pages: the leading methods and the results of tests.

A method without a p-value was not tested; no sentence counts it as different or as equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from pisoft.config.jobs.displays import LabelSettings
from pisoft.statistics.metrics import AUC_METRICS, AVERAGE, CONTROL, LEVEL
from pisoft.statistics.orders import order_changes
from pisoft.statistics.permutation_baseline import GAIN
from pisoft.statistics.results import in_both_orders, select
from pisoft.store.parquet import OK, meanings
from pisoft.views.titles import count_text, share_text
from pisoft.views.view import Results

NS, NC = AUC_METRICS
SHORT = {NS: "π-Soft-NS", NC: "π-Soft-NC"}
BETTER, EQUAL = "significantly better", "not significantly different"
WORSE, UNTESTED = "significantly worse", "not tested"
NO_VALUE = "No method has a value in every dataset."


def _by_test(p_values: pd.Series, is_higher: pd.Series | bool = False) -> dict[str, list[str]]:
    """Return methods by the outcome of a test, from its p-value and the sign of the difference."""
    p_values = p_values.astype(float)
    significant = p_values < LEVEL
    groups = {
        BETTER: significant & is_higher,
        EQUAL: p_values >= LEVEL,
        WORSE: significant & ~np.array(is_higher),
        UNTESTED: p_values.isna(),
    }
    return {name: list(p_values.index[chosen]) for name, chosen in groups.items()}


@dataclass(frozen=True)
class Order:
    """The order of the methods by one metric, and the tests between them.

    `rows` (`statistics`, by method, best first) and `pairs` (`comparisons`) are for one protocol,
    model, metric and dataset; `labels` name the methods.
    """

    rows: pd.DataFrame
    pairs: pd.DataFrame
    labels: Mapping[str, str]

    @cached_property
    def groups(self) -> dict[str, list[str]]:
        """The other methods by their comparison with the best."""
        return _by_test(self.rows["p_adjusted"].drop(self.best))

    @cached_property
    def best(self) -> list[str]:
        """The methods at the first rank."""
        return list(self.rows.index[self.rows["rank"] == self.rows["rank"].min()])

    @property
    def is_clear(self) -> bool:
        """Whether one method is significantly better than every other one."""
        _, equal, worse, untested = self.groups.values()
        return len(self.best) == 1 and bool(worse) and not equal and not untested

    @property
    def leaders(self) -> str:
        """Name the leaders."""
        if len(self.best) == len(self.rows) > 1:
            return f"all {len(self.best)} methods are level"
        return f"{self.listed(self.best)} {'leads' if len(self.best) == 1 else 'lead'}"

    @property
    def lead(self) -> str:
        """State the lead over the runner-up, with the least certain test."""
        rest = self.rows.drop(self.best)
        second = list(rest.index[rest["rank"] == rest["rank"].min()])
        if not second:
            return ""
        gap = self.rows["value"].max() - rest["value"].max()
        detectable = self.detectable(second)
        power = f"; detectable with 80 % power: {detectable:.3f}" if np.isfinite(detectable) else ""
        tests = {UNTESTED: UNTESTED, EQUAL: f"not significant{power}", WORSE: "significant"}
        test = next(text for kind, text in tests.items() if {*second} & {*self.groups[kind]})
        return f"{gap:.3f} ahead of {self.listed(second)} ({test})"

    def against(self, other: str) -> dict[str, list[str]]:
        """Return the other methods by their comparison with one; empty if that has no value."""
        both = in_both_orders(self.pairs)
        competitors = self.rows.index.drop(other) if other in self.rows.index else []
        tests = both[both["other"] == other].set_index("method").reindex(competitors)
        return _by_test(tests["p_adjusted"], tests["value"] > 0)

    def detectable(self, methods: Iterable[str]) -> float:
        """Return the difference from the best that all tests detect with 80 % power, or NaN."""
        return float(self.rows["detectable"].reindex(methods).astype(float).max(skipna=False))

    @property
    def rivals(self) -> list[str]:
        """Return clauses that compare the other methods with the best."""
        _, equal, worse, untested = self.groups.values()
        clauses = []
        if equal:
            count = f"{len(equal)} of {len(equal) + len(worse)} other methods"
            clauses = [f"no significant difference from the best: {count}"]
            if np.isfinite(detectable := self.detectable(equal)):
                clauses[0] += f" (detectable with 80 % power: {detectable:.3f})"
        elif worse:
            tested = "method that was tested" if untested else "method"
            clauses = [f"every other {tested} is significantly worse"]
        return [*clauses, *([f"{UNTESTED}: {self.listed(untested)}"] if untested else [])]

    def listed(self, methods: Iterable[str]) -> str:
        """Return labels."""
        return ", ".join(self.labels[name] for name in methods) or "none"


@dataclass(frozen=True)
class Numbers:
    """Results for pages: rows by question, and labels of methods, models and datasets."""

    rows: Mapping[str, pd.DataFrame]
    labels: LabelSettings

    def results(self, question: str, **keys: Any) -> Results:
        """Return results and their labels; see :func:`pisoft.statistics.results.select`."""
        rows = select(self.rows[question], **keys)
        return Results(rows, self.labels.methods, self.labels.datasets)

    def averages(self, question: str, **keys: Any) -> pd.DataFrame:
        """Return rows of means over datasets."""
        return select(self.rows[question], dataset=AVERAGE, **keys)

    @cached_property
    def restricted(self) -> dict[str, str]:
        """Labels of datasets by model; empty if every model has all datasets."""
        single = self.rows["statistics"].query("dataset != @AVERAGE")
        by_model = {name: set(rows) for name, rows in single.groupby("model")["dataset"]}
        if all(names == by_model[model] for model in by_model for names in by_model.values()):
            return {}
        labels = self.labels.datasets.items()
        return {
            model: ", ".join(label for name, label in labels if name in by_model[model])
            for model in self.labels.models
        }

    @property
    def restrictions(self) -> str:
        """A sentence on the datasets of each model, empty if they are the same."""
        listed = (f"{self.labels.models[name]}: {text}" for name, text in self.restricted.items())
        return f"Datasets of each model: {'; '.join(listed)}." if self.restricted else ""

    def order(self, **cell: str) -> Order:
        """Return the order of the methods; a cell is metric, protocol and, if several, model."""
        rows = self.averages("statistics", **cell).dropna(subset="value").set_index("method")
        pairs = self.averages("comparisons", **cell)
        return Order(rows.sort_values("rank", kind="stable"), pairs, self.labels.methods)


# The front page ---------------------------------------------------------------------------------


def headline(numbers: Numbers) -> str:
    """State the leader in one sentence: by each metric or, over several rankings, how often."""
    cells = numbers.averages("statistics", metric=AUC_METRICS).groupby(["protocol", "model"])
    by_cell = [
        {name: numbers.order(protocol=protocol, model=model, metric=name) for name in AUC_METRICS}
        for protocol, model in cells.groups
    ]
    if len(by_cell) == 1:
        return answer(by_cell[0])
    orders = [order for cell in by_cell for order in cell.values() if not order.rows.empty]
    firsts = Counter(method for order in orders for method in order.best)
    if not firsts:
        return NO_VALUE
    leaders = [name for name, count in firsts.items() if count == max(firsts.values())]
    clear = sum({*order.best} <= {*leaders} and order.is_clear for order in orders)
    return (
        f"{orders[0].listed(leaders)} {'leads' if len(leaders) == 1 else 'each lead'} "
        f"{max(firsts.values())} of {len(orders)} rankings (by model, routing and metric); "
        f"the lead over every other method is significant in {clear or 'none'} of them."
    )


def answer(orders: Mapping[str, Order]) -> str:
    """State the leader by each metric of a model and protocol, and its lead over the runner-up."""
    ranked = {SHORT[metric]: order for metric, order in orders.items() if len(order.rows)}
    if not ranked:
        return NO_VALUE
    leaders = {order.leaders for order in ranked.values()}
    if len(ranked) > 1 and len(leaders) == 1:
        leads = [f"by {name}, {order.lead}" for name, order in ranked.items() if order.lead]
        clauses = [f"{leaders.pop()} by both metrics", "; ".join(leads)]
        return f"{begun(': '.join(filter(None, clauses)))}."
    clauses = [
        ", ".join(filter(None, (f"by {name}", order.leaders, order.lead)))
        for name, order in ranked.items()
    ]
    return f"{begun('; '.join(clauses))}."


def validity(rows: pd.DataFrame) -> str:
    """State from `metric_validation` whether both metrics rank controls by evidence."""
    whole = select(rows, metric=AUC_METRICS, part="samples_needed", position=[np.nan])
    needed = whole.loc[whole["n"] > 0, "value"]
    sizes = needed.dropna()
    samples = f"; it takes at most {count_text(round(sizes.max()), 'sample')}" if len(sizes) else ""
    return (
        "Planted evidence ranks above noisy evidence, noisy evidence above random scores, and "
        "random scores above inverted evidence in "
        f"{share_text(len(sizes), len(needed), 'ranking')}{samples}."
    )


def permuted(rows: pd.DataFrame) -> str:
    """State from `permutation_baseline` how often scores beat their own permutations."""
    gains = select(rows, metric=AUC_METRICS, part=GAIN, dataset=AVERAGE)
    tested = gains.dropna(subset="p_adjusted")
    lost = ((tested["p_adjusted"] < LEVEL) & (tested["value"] > 0)).sum()
    untested = f" ({UNTESTED}: {len(gains) - len(tested)})" if len(gains) > len(tested) else ""
    return (
        "Shuffling a method's scores over the tokens lowers its AUC significantly in "
        f"{share_text(lost, len(tested), 'comparison')}{untested}."
    )


def rounding(rows: pd.DataFrame) -> str:
    """State from `variance_components` how much variance of an AUC is noise."""
    keys = ["protocol", "model", "dataset", "metric", "method"]
    parts = select(rows, metric=AUC_METRICS).set_index([*keys, "part"])["value"].unstack()
    shares = (parts["numerical"] / parts["total"].where(parts["total"] > 0)).dropna()
    if shares.empty:
        return "Unknown, because no method's AUC varies between samples."
    tenths = np.ceil(round(1000 * shares.max(), 6))  # of a percent, rounded up as a bound
    bound = f"at most {tenths / 10:.1f}" if tenths > 1 else "less than 0.1"
    return f"Rounding explains {bound} % of the variance of any method's AUC."


def verdict(numbers: Numbers, **cell: str) -> str:
    """State the leader by a metric, its robustness, and the number of methods above random."""
    order = numbers.order(**cell)
    if order.rows.empty:
        return NO_VALUE
    clauses = [order.leaders, *order.rivals]
    if missing := {*numbers.averages("statistics", **cell)["method"]} - {*order.rows.index}:
        labels = [name for name in order.labels if name in missing]
        clauses.append(f"not ranked, because some dataset has no value: {order.listed(labels)}")
    better, equal, worse, untested = order.against(CONTROL).values()
    if tested := len(better) + len(equal) + len(worse):
        clauses.append(f"{BETTER} than random scores: {len(better)} of {tested}")
    if untested:
        clauses.append(f"{UNTESTED} against random scores: {order.listed(untested)}")
    if CONTROL not in order.rows.index:
        clauses.append(f"{UNTESTED} against random scores, which have no value here")
    ratio = numbers.order(**{**cell, "metric": f"ratio_{cell['metric']}"})
    if not set(ratio.best) & set(order.best) and not ratio.rows.empty:
        clauses.append(
            f"by the ratio of means, which no single sample can dominate, {ratio.leaders} instead"
        )
    changes = order_changes(numbers.averages("ranks", part="without", **cell))
    listed = "; ".join(
        f"without {numbers.labels.datasets[row.other]} it is {order.listed(row.best)}"
        for row in changes[changes["best_differs"]].itertuples()
    )
    if listed:
        clauses.append(f"the leading method depends on single datasets: {listed}")
    return f"{'. '.join(map(begun, clauses))}."


def sizes(numbers: Numbers) -> str:
    """State what was run, and the number of evaluated samples per dataset."""
    labels = numbers.labels
    largest = select(numbers.rows["statistics"], metric="h0").groupby("dataset")["n"].max()
    listed = ", ".join(f"{label} {largest[name]}" for name, label in labels.datasets.items())
    sentences = [
        f"Models: {', '.join(labels.models.values())}. Methods: {len(labels.methods)}. Evaluated "
        f"samples, at most: {listed}.",
        numbers.restrictions,
    ]
    return " ".join(filter(None, sentences))


def failures(numbers: Numbers) -> str:
    """Count failed samples by model, dataset and reason, with the affected methods."""
    rows = select(numbers.rows["coverage"], metric="identity")
    failed = rows[rows["part"] != OK]
    if failed.empty:
        return "None: every sample was evaluated."
    groups = failed.groupby(["protocol", "model", "dataset", "part"], sort=False)["value"]
    listed = "; ".join(
        f"{numbers.labels.models[model]}, {numbers.labels.datasets[dataset]}, {protocol}: up to "
        f"{row['max']:.0f} {status} per method ({row['count']:.0f} methods)"
        for (protocol, model, dataset, status), row in groups.agg(["max", "count"]).iterrows()
    )
    why = meanings(failed["part"])
    return f"Left out of all means, and counted in the tables: {listed} ({why})."


def begun(clause: str) -> str:
    """Return a clause with a capital letter."""
    return clause[0].upper() + clause[1:]
