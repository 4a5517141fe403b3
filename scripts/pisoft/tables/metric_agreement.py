"""How far metrics agree on which methods are better."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from pisoft.config.slices.display import DisplaySlice
from pisoft.statistics.metric_agreement import agreement_matrix, metric_agreement, ordering_metrics
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.reading import Files
from pisoft.tables.layout import Block, Table
from pisoft.tables.matrix import column_numbers, symmetric_rows

Settings = DisplaySlice


def table(files: Files, settings: DisplaySlice, cell: Mapping[str, str]) -> Table:
    """Build the table of one model."""
    statistics = files.rows("statistics", **cell)
    return metric_agreement_table(
        statistics[statistics["method"].isin(settings.methods)],  # not those of selected depths
        where=settings.where(cell),
        datasets=settings.datasets,
    )


def metric_agreement_table(
    statistics: pd.DataFrame, *, where: str, datasets: Mapping[str, str]
) -> Table:
    """Build the table of how far metrics agree on methods by their means over datasets.

    Args:
        statistics: rows of kind `statistics` of one model.
        where: model, for the title.
        datasets: label of each dataset; their own numbers are in the CSV.
    """
    metrics, left_out = ordering_metrics(statistics)
    values = metric_agreement(statistics, metrics, datasets)
    below = agreement_matrix(values, metrics, AVERAGE)
    labels = [metric.label for metric in metrics]
    without = "; ".join(metric.label for metric in left_out)
    return Table(
        title=f"Agreement of metrics on methods · {where}",
        corner="Metric",
        columns=column_numbers(labels),
        blocks=(Block("", symmetric_rows(np.where(np.isnan(below), below.T, below), labels)),),
        notes=(
            *_METRIC_NOTES,
            *_method_notes(values),
            *([f"Left out, no value: {without}."] if without else []),
        ),
        values=values,
    )


_METRIC_NOTES = (
    "Kendall's τ-b between the orders in which two metrics put the methods by their means over the "
    "datasets: 1 for the same order, 0 for unrelated ones, −1 for opposite ones. Insertion and "
    "infidelity, of which lower is better, are turned round, so that 1 always says that the same "
    "methods are better. Each dataset's own τ is in the CSV.",
)


def _method_notes(values: pd.DataFrame) -> list[str]:
    """Say how many methods are put in an order."""
    counts = values.loc[values["dataset"] == AVERAGE, "n_methods"]
    if counts.empty:
        return ["No two metrics to compare."]
    fewest, most = counts.min(), counts.max()
    counted = f"{most}" if fewest == most else f"{fewest} to {most}"
    return [f"Methods in an order: {counted}. The CSV has the p-value of no association."]
