"""The table of the density of scores, and its correlation with faithfulness."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from pisoft.statistics.metrics import AUC_METRICS, AVERAGE, CONTROL, METRICS
from pisoft.tables import grid, notes
from pisoft.views.view import Number, View, display

MEASURES = {"mean_score": "Mean score (1 is dense)", "gini": "Gini index (0 is dense)"}
AMONG = {"all": "all methods", "without random": "without random scores"}


@display(
    title="Do the metrics reward dense scores?",
    by=("protocol", "model"),
    reads=("density", "density_correlations"),
)
def table(view: View) -> grid.Table:
    """Build the table of one protocol and model."""
    density, correlations = view.results("density"), view.results("density_correlations")
    results = density.with_rows(pd.concat([density.rows, correlations.rows]))
    parts = set(correlations.rows["part"])
    titles = {
        f"Spearman's ρ with {METRICS[metric].label}, {label}": {"metric": metric, "part": part}
        for metric in AUC_METRICS
        for part, label in AMONG.items()
        if part in parts
    }
    columns = grid.columns("metric", MEASURES, grid.with_interval)
    means = {"Density, mean over datasets": {"dataset": AVERAGE}}
    lines = grid.each("dataset", results.with_average)
    blocks = [
        *grid.blocks(density, means, grid.each("method", density.methods), columns, columns[0]),
        *grid.blocks(correlations, titles, lines, grid.columns("other", MEASURES, _tested)),
    ]
    missing = "" if CONTROL in density.methods else "Random scores are not among the methods."
    meaning = [f"{notes.text('interval')} {notes.text('densities')}", notes.about("density")]
    correlated = notes.sparse(view.settings, "single_samples", numbers="Spearman's ρ with the AUCs")
    below = [*meaning, missing, correlated, notes.samples(results)]
    return grid.table(view, results, columns, blocks, below, "Method or dataset")


def _tested(number: Number) -> grid.Entry:
    """Show a number with its interval and, if it was tested, its p-value."""
    entry, p = grid.with_interval(number), number.p_adjusted
    test = "" if np.isnan(p) else f"p = {grid.p_text(p)}".replace("= <", "< ")
    return replace(entry, interval=", ".join(filter(None, (entry.interval, test))) or None)
