"""The table of Grad-ELLM at several depths (paper, app:layer-ablation)."""

from __future__ import annotations

from itertools import product

import numpy as np

from pisoft.config.studies import grad_ellm_label
from pisoft.statistics.layer_study import DEVELOPMENT, FIXED, LEAKY, REST, SELECTED
from pisoft.statistics.metrics import AUC_METRICS
from pisoft.statistics.results import select
from pisoft.tables import notes
from pisoft.tables.grid import Column, blocks, columns, grid_table, metrics, plain
from pisoft.tables.layout import Entry, Table, number_text, rank_text
from pisoft.views.view import Number, View, display


@display(
    title="How many layers should Grad-ELLM sum?",
    by=("protocol", "model"),
    reads=("depths",),
    cells="layer_study",
)
def table(view: View) -> Table:
    """Build the table of one protocol and model."""
    results = view.results("depths")
    rows = results.rows.assign(depth=results.rows["position"])
    by_depth = rows["part"] == REST  # elsewhere the depth is no key, but part of the result
    numbers = results.of(
        rows.assign(position=rows["position"].where(by_depth))[rows["part"] != DEVELOPMENT]
    )
    depths = {depth: f"Depth {depth:.0f}" for depth in np.unique(rows.loc[by_depth, "position"])}
    (fixed,) = select(rows, part=FIXED)["depth"].unique()
    fixed_depth = "all" if np.isnan(fixed) else rank_text(fixed)
    grid = [
        *columns("position", depths, plain(3), part=REST),
        Column("Selected depth", {"part": SELECTED}, _depth),
        Column("Selected", {"part": SELECTED}, _mean),
        Column(f"Fixed depth {fixed_depth}", {"part": FIXED}, _mean),
        Column("Leaky depth", {"part": LEAKY}, _depth),
        Column("Leaky", {"part": LEAKY}, plain(3)),
    ]
    lines = {
        f"{label}, {grad_ellm_label(weights)}": {"dataset": dataset, "method": weights}
        for (dataset, label), weights in product(results.datasets.items(), rows["method"].unique())
    }
    made = blocks(numbers, metrics(AUC_METRICS), lines, grid)
    below = [notes.of_table("layer_study"), *notes.of_depths(results, lines)]
    return grid_table(view, results, grid, made, below, corner="Dataset, method")


def _depth(number: Number) -> Entry:
    return Entry(rank_text(number.depth))


def _mean(number: Number) -> Entry:
    text = number_text(number.value, 3)
    return Entry(text if np.isnan(number.value) else f"{text} ± {number.standard_error:.3f}")
