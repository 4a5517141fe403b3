"""The table of Grad-ELLM at several depths (paper, app:layer-ablation)."""

from __future__ import annotations

from itertools import product

import numpy as np

from pisoft.config.studies import grad_ellm_label
from pisoft.statistics.layer_study import DEVELOPMENT, FIXED, LEAKY, REST, SELECTED
from pisoft.statistics.metrics import AUC_METRICS
from pisoft.statistics.results import select
from pisoft.tables import grid, notes
from pisoft.views.view import Number, View, display


@display(
    title="How many layers should Grad-ELLM sum?",
    by=("protocol", "model"),
    reads=("depths",),
    cells="layer_study",
)
def table(view: View) -> grid.Table:
    """Build the table of one protocol and model."""
    results = view.results("depths")
    rows = results.rows.assign(depth=results.rows["position"])
    by_depth = rows["part"] == REST  # elsewhere the depth is no key, but part of the result
    numbers = results.with_rows(
        rows.assign(position=rows["position"].where(by_depth))[rows["part"] != DEVELOPMENT]
    )
    depths = {depth: f"Depth {depth:.0f}" for depth in np.unique(rows.loc[by_depth, "position"])}
    (fixed,) = select(rows, part=FIXED)["depth"].unique()
    fixed_depth = "all" if np.isnan(fixed) else grid.rank_text(fixed)
    columns = [
        *grid.columns("position", depths, grid.plain(3), part=REST),
        grid.Column("Selected depth", {"part": SELECTED}, _depth),
        grid.Column("Selected", {"part": SELECTED}, _mean),
        grid.Column(f"Fixed depth {fixed_depth}", {"part": FIXED}, _mean),
        grid.Column("Leaky depth", {"part": LEAKY}, _depth),
        grid.Column("Leaky", {"part": LEAKY}, grid.plain(3)),
    ]
    lines = {
        f"{label}, {grad_ellm_label(weights)}": {"dataset": dataset, "method": weights}
        for (dataset, label), weights in product(results.datasets.items(), rows["method"].unique())
    }
    blocks = grid.blocks(numbers, grid.metrics(AUC_METRICS), lines, columns)
    below = [notes.about("layer_study"), *notes.depth_samples(results, lines)]
    return grid.table(view, results, columns, blocks, below, corner="Dataset, method")


def _depth(number: Number) -> grid.Entry:
    return grid.Entry(grid.rank_text(number.depth))


def _mean(number: Number) -> grid.Entry:
    text, error = grid.number_text(number.value, 3), number.standard_error
    return grid.Entry(text if np.isnan(error) else f"{text} ± {error:.3f}")
