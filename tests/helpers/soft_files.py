"""Hand-made evaluated cells, as files of soft metrics."""

from __future__ import annotations

import itertools
import random
import statistics

import numpy as np

from helpers import script_runs
from pisoft.config.cells import Cell
from pisoft.store.parquet import write_rows
from pisoft.store.schemas import FILES, SCHEMAS

GRID = (0.1, 0.4, 0.9)
CELL = Cell("dynamic", "", "llama", "", "attention", "sst2")
MINIMUM_H0 = 1e-4
STATISTICS = {"minimum_h0": MINIMUM_H0, "clamp": "mean"}
PER_DRAW = [
    f"{metric}_{measure}"
    for metric in ("ns", "nc")
    for measure in ("distances", "total_variations", "log_probability_changes")
]


def soft_row(sample, step, pi, generator, status="ok", draws=4):
    row = {"sample_id": sample, "step": step, "pi": pi, "perturbable": 7, "status": status}
    row |= dict.fromkeys(name for name in SCHEMAS["soft"].names if name not in row)
    if status == "ok":
        row |= {"alpha": 1.0, "achieved": pi or generator.random(), "feasible": True}
        row |= {"floored": 0, "ceiled": 0, "h0": 0.5, "identity": generator.random() / 1000}
        row |= {name: [generator.random() for _ in range(draws)] for name in PER_DRAW}
    return row


def soft_rows(steps, seed=1, status=None, draws=4, grid=GRID):
    """Return rows for `steps` = {sample: number of steps}; `status` = {(sample, step): status}."""
    generator = random.Random(seed)
    return [
        soft_row(sample, step, pi, generator, (status or {}).get((sample, step), "ok"), draws)
        for sample, count in steps.items()
        for step in range(0, 5 * count, 5)
        for pi in (None, *grid)
    ]


def write_soft(folder, rows, cell=CELL):
    path = folder / f"{FILES['soft'].path}.parquet".format(**cell.wildcards)
    write_rows(path, "soft", rows, {})
    return path


def soft_summaries(folder, rows):
    """Write summaries of soft metrics from rows by method, or by method and dataset.

    Return their files by kind.
    """
    kinds = ("soft_samples", "curves", "soft_sample_curves")
    files = {kind: folder / f"{kind}.parquet" for kind in kinds}
    soft = []
    for key, cell_rows in rows.items():
        method, dataset = (key, CELL.dataset) if isinstance(key, str) else key
        cell = CELL._replace(method=method, dataset=dataset)
        soft.append(write_soft(folder, cell_rows, cell))
    script_runs.summarise("soft", STATISTICS, {"soft": soft}, files)
    return files


def soft_value(row, metric, clamp=True):
    """Return Soft-NS or Soft-NC of a row by their definition, from draws in float32 as stored."""
    mean = statistics.fmean(float(np.float32(x)) for x in row[f"{metric}_distances"])
    ratio = (row["h0"] - mean if metric == "ns" else mean) / row["h0"]
    return max(0.0, ratio) if clamp and metric == "ns" else ratio


def mean_curve(rows, sample, of):
    """Return the mean over a sample's ok steps by π, with None for the original metrics."""
    values = {}
    for row in rows:
        if row["sample_id"] == sample and row["status"] == "ok":
            values.setdefault(row["pi"], []).append(of(row))
    return {pi: statistics.fmean(pi_values) for pi, pi_values in values.items()}


def area(points):
    """Return the area under straight lines through points (x, y)."""
    return sum((x2 - x1) * (y1 + y2) / 2 for (x1, y1), (x2, y2) in itertools.pairwise(points))
