"""The paper's tables of the soft metrics, and what stands behind their means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pisoft.analysis.metrics import AVERAGE, METRICS
from pisoft.analysis.tables import (
    AVERAGE_MEANING,
    MARKS,
    NOTHING,
    Block,
    Entry,
    Row,
    Table,
    coverage_notes,
    missing_average_notes,
    number_text,
    statistic_block,
    statistic_entries,
    tidy,
)
from pisoft.contracts import OK

AUC_METRICS = ("auc_pi_soft_ns", "auc_pi_soft_nc")
ORIGINAL_METRICS = {"soft_ns": 3, "soft_nc": 3, "expected_retained": 1}  # decimals
ROBUST_METRICS = (
    "ratio_auc_pi_soft_ns",
    "ratio_auc_pi_soft_nc",
    "median_auc_pi_soft_ns",
    "median_auc_pi_soft_nc",
    "auc_low_pi_soft_ns",
    "auc_low_pi_soft_nc",
)
SOURCES = {
    "between_samples": "between samples",
    "monte_carlo": "draws",
    "numerical": "rounding",
}


@dataclass(frozen=True)
class SoftRows:
    """What the tables of one protocol and model show.

    Attributes:
        statistics: its `statistics` rows.
        outcomes: its `soft_samples` rows of the metric `identity`.
        where: model and protocol, for titles.
        methods: label of each method, in the order of the columns.
        datasets: label of each dataset, in the order of the rows.
        clamp: whether Soft-NS is clamped at 0.
    """

    statistics: pd.DataFrame
    outcomes: pd.DataFrame
    where: str
    methods: Mapping[str, str]
    datasets: Mapping[str, str]
    clamp: bool

    def table(
        self,
        title: str,
        corner: str,
        metrics: Iterable[str],
        blocks: tuple[Block, ...],
        notes: Iterable[str],
    ) -> Table:
        """Return a table of some metrics; notes on the samples follow those given."""
        return Table(
            title=f"{title} · {self.where}",
            corner=corner,
            columns=tuple(self.methods.values()),
            blocks=blocks,
            notes=(*notes, *coverage_notes(self.outcomes, self.methods, self.datasets)),
            values=tidy(self.statistics, metrics, self.methods, self.datasets),
            spanner="Methods",
        )

    def averaged_blocks(self, metrics: Iterable[str]) -> tuple[Block, ...]:
        """Return a block for each metric: datasets, and their average."""
        return tuple(
            statistic_block(
                METRICS[metric].label,
                self.statistics,
                metric,
                methods=self.methods,
                datasets=self.datasets,
                average="Avg",
                decimals=3,
            )
            for metric in metrics
        )

    def average_notes(self) -> tuple[str, ...]:
        """Say what the average is, and which method has none."""
        missing = missing_average_notes(self.outcomes, self.methods, self.datasets)
        return (f"Avg: {AVERAGE_MEANING}", *missing)


def auc_table(rows: SoftRows, grid: Sequence[float], number_type: str) -> Table:
    """Build the table of areas under the π-Soft curves (paper, tab:llama-soft).

    Args:
        rows: its rows.
        grid: retaining probabilities of the curves.
        number_type: of the model's weights and activations, for the noise floor.
    """
    statistic = (
        "Mean over samples of the area under the curve (trapezoid) on the grid π = "
        f"{min(grid):g}, …, {max(grid):g} ({len(grid)} values), so a curve that is 1 everywhere "
        f"has {max(grid) - min(grid):.3g}. Higher is better."
    )
    notes = (statistic, MARKS, _clamp_note(rows.clamp), *rows.average_notes())
    return rows.table(
        "AUC of π-Soft-NS and π-Soft-NC",
        "Dataset",
        AUC_METRICS,
        rows.averaged_blocks(AUC_METRICS),
        (*notes, *_noise_notes(rows.statistics, rows.outcomes, number_type)),
    )


def robust_table(rows: SoftRows) -> Table:
    """Build the table of statistics that no single sample can rule, beside the paper's means."""
    notes = (
        "A mean of ratios is ruled by samples whose zero baseline hardly changes the prediction "
        "(small H₀). Ratio of means: mean over samples of the area before it is divided by H₀, "
        "over the mean of H₀; never clamped. Median: of the samples' areas. π ≤ 0.3: mean of the "
        "areas over that part of the grid only, where few tokens are kept or removed. Higher is "
        "better.",
        f"{MARKS} Medians are not tested, and their intervals are of each method alone.",
        _clamp_note(rows.clamp),
        *rows.average_notes(),
    )
    return rows.table(
        "AUC of π-Soft-NS and π-Soft-NC, other statistics",
        "Dataset",
        ROBUST_METRICS,
        rows.averaged_blocks(ROBUST_METRICS),
        notes,
    )


def original_table(rows: SoftRows) -> Table:
    """Build the table of the original Soft-NS and Soft-NC with E[R] (paper, `llama verify`)."""
    blocks = tuple(
        Block(
            title,
            tuple(
                Row(
                    METRICS[metric].label,
                    statistic_entries(rows.statistics, metric, name, rows.methods, decimals),
                )
                for metric, decimals in ORIGINAL_METRICS.items()
            ),
        )
        for name, title in rows.datasets.items()
    )
    statistic = (
        "Means over samples, scores used as they are (no calibration). Higher is better for "
        "Soft-NS and Soft-NC. E[R] is the expected number of retained tokens, the sum of the "
        "scores: methods that retain different numbers of tokens are not comparable here."
    )
    return rows.table(
        "Original Soft-NS and Soft-NC",
        "Metric",
        ORIGINAL_METRICS,
        blocks,
        (statistic, MARKS, _clamp_note(rows.clamp)),
    )


def variance_table(
    variances: pd.DataFrame,
    *,
    where: str,
    methods: Mapping[str, str],
    datasets: Mapping[str, str],
) -> Table:
    """Build the table of where the variance of a sample's AUC comes from.

    Args:
        variances: `variances` rows of one protocol and model.
        where: model and protocol, for the title.
        methods: label of each method, in the order of the columns.
        datasets: label of each dataset, in the order of the rows.
    """
    numbers = variances.set_index(["metric", "dataset", "method"])
    blocks = tuple(
        Block(
            f"{METRICS[metric].label.rstrip(' ↑')}, {datasets[dataset]}",
            (
                Row("standard deviation", _deviations(numbers, metric, dataset, methods)),
                *(
                    Row(f"share {label}", _shares(numbers, metric, dataset, methods, source))
                    for source, label in SOURCES.items()
                ),
            ),
        )
        for metric in AUC_METRICS
        for dataset in datasets
    )
    notes = (
        "Variance of the samples' AUC (π-Soft-NS not clamped). Draws: the mean Monte Carlo "
        "variance of a sample, which more draws make smaller; with one draw it is estimated from "
        "the roughness of the curve. Rounding: an upper bound, from the distance of the "
        "unperturbed input evaluated again. Between samples: the rest, which only more samples "
        "average out; as a difference of estimates it can leave 0 to 1.",
        f"{NOTHING}: fewer than two samples could be evaluated.",
    )
    return Table(
        title=f"Where the variance comes from · {where}",
        corner="Variance",
        columns=tuple(methods.values()),
        blocks=blocks,
        notes=notes,
        values=variances.drop(columns=["protocol", "model"]),
        spanner="Methods",
    )


def _deviations(
    numbers: pd.DataFrame, metric: str, dataset: str, methods: Mapping[str, str]
) -> tuple[Entry, ...]:
    deviations = np.sqrt(numbers["total"])
    found = (deviations.get((metric, dataset, method), np.nan) for method in methods)
    return tuple(Entry(number_text(value, 4)) for value in found)


def _shares(
    numbers: pd.DataFrame, metric: str, dataset: str, methods: Mapping[str, str], source: str
) -> tuple[Entry, ...]:
    shares = numbers[source] / numbers["total"]
    found = (shares.get((metric, dataset, method), np.nan) for method in methods)
    return tuple(Entry(_share_text(value)) for value in found)


def _share_text(share: float) -> str:
    """Return a share with two decimals; one that is too small for them is said to be small."""
    return "<0.01" if 0 < share < 0.005 else number_text(share, 2)


# Notes ----------------------------------------------------------------------------------------


def _clamp_note(clamp: bool) -> str:
    """Say whether Soft-NS is clamped."""
    if clamp:
        return "Soft-NS is clamped at 0 for every step, after averaging over its draws."
    return (
        "Soft-NS is not clamped at 0, because a clamped mean would depend on the number of draws. "
        "It may be negative, and a sample whose zero baseline hardly changes the prediction (small "
        "H₀) can then rule a mean: see the table of other statistics."
    )


def _noise_notes(statistics: pd.DataFrame, outcomes: pd.DataFrame, number_type: str) -> list[str]:
    """Say how far rounding alone moves the unperturbed prediction, against the zero baseline."""
    found = outcomes.loc[outcomes["status"] == OK, "value"]
    if found.empty:
        return []
    h0 = statistics[(statistics["metric"] == "h0") & (statistics["dataset"] != AVERAGE)]
    mean_h0 = (h0["value"] * h0["n"]).sum() / h0["n"].sum()
    return [
        f"Noise floor ({number_type}): the unperturbed input, evaluated like a perturbed one, is "
        f"at distance {found.mean():.1g} on average and {found.max():.1g} at most; the zero "
        f"baseline is at {mean_h0:.2g} on average."
    ]
