"""Evaluated cells made by hand, as files of soft metrics."""

from __future__ import annotations

import random

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
    """Rows for `steps` = {sample: number of steps}; `status` = {(sample, step): status}."""
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
    """Write the summaries of soft metrics of each method's rows, and return their files by kind."""
    kinds = ("soft_samples", "curves", "soft_sample_curves")
    files = {kind: folder / f"{kind}.parquet" for kind in kinds}
    soft = [write_soft(folder, rows[name], CELL._replace(method=name)) for name in rows]
    script_runs.summarise("soft", STATISTICS, {"soft": soft}, files)
    return files
