"""Tables of hand-made samples of the soft metrics, for tests."""

from __future__ import annotations

import itertools
from dataclasses import replace

from helpers.estimated_results import estimated, view
from helpers.result_rows import frame, result_row
from pisoft.statistics.metrics import AUC_METRICS
from pisoft.statistics.soft import SAMPLE_METRICS
from pisoft.tables import pi_soft_auc
from pisoft.tables.writer import write

GRID = [0.05, 0.5, 0.95]
METHODS = {"random": "Random", "attention": "Attention", "mine": "Mine"}
FAMILIES = {"random": "baseline", "attention": "attention", "mine": "gradient"}
DATASETS = {"sst2": "SST2", "imdb": "IMDb"}
CELL = {"protocol": "dynamic", "model": "llama"}
MEANS = {
    ("random", "sst2"): 0.2, ("attention", "sst2"): 0.4, ("mine", "sst2"): 0.9,
    ("random", "imdb"): 0.3, ("attention", "imdb"): 0.5, ("mine", "imdb"): 0.1,
}  # fmt: skip


def sample_rows(means):
    """Return rows of `soft_samples`; `means` = {(method, dataset): mean}."""
    rows = []
    for ((method, dataset), mean), number in itertools.product(means.items(), range(3)):
        row = {**CELL, "method": method, "dataset": dataset, "sample_id": f"s{number}"}
        row |= {"value": mean + (number - 1) / 100, "status": "ok"}
        rows += [{**row, "metric": metric} for metric in SAMPLE_METRICS]
    return rows


def table_of(display, rows, **settings):
    """Return a display's table of samples."""
    names = {"methods": METHODS, "datasets": DATASETS, "families": FAMILIES} | settings
    frames = {**vars(estimated(rows)), **curves_on(GRID)}
    return display.table(view(frames, CELL, **names))


def curves_on(grid):
    """Return curves; only their grid is read."""
    curves = frame([result_row("statistics", 0.5, position=pi) for pi in grid])
    return {"curves": curves, "soft_curves": curves.assign(pi=curves["position"])}


def auc_of(rows, **settings):
    return table_of(pi_soft_auc, rows, **settings)


def areas_of(rows, **settings):
    """Return the table with its blocks of AUCs only."""
    table = auc_of(rows, **settings)
    shown = table.values["metric"].isin(AUC_METRICS)
    return replace(table, blocks=table.blocks[: len(AUC_METRICS)], values=table.values[shown])


def written(table, folder):
    paths = [folder / f"table.{suffix}" for suffix in ("csv", "tex", "html")]
    write(table, *paths)
    return paths
