"""Values of methods and controls by sample, for cells with controls."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from pisoft.statistics.metrics import METRICS
from pisoft.statistics.reading import Files
from pisoft.statistics.soft import curve_matrix

ORACLE = "oracle"
KEYS = ["protocol", "model", "dataset", "metric"]
# Metrics of a sample by which scores are judged, and which of their values are better.
JUDGING = {m.numerator: m.best for m in METRICS.values() if m.compared and m.denominator is None}
Cell = dict[str, object]  # by KEYS and `position`; None: does not apply


def sample_values(files: Files) -> Iterator[tuple[Cell, pd.DataFrame]]:
    """Yield every cell with an oracle, and its values by sample and method or control.

    Higher is better; NaN: failed. The files are `soft_samples` and, if there are any,
    `datamodel_samples` and `ranking_samples`, of the methods and of the controls.
    """
    kinds = [k for k in ("soft_samples", "datamodel_samples", "ranking_samples") if k in files]
    rows = pd.concat([files.rows(kind) for kind in kinds], ignore_index=True)
    rows = rows[rows["metric"].isin(list(JUDGING)) & rows["sample_id"].notna()]
    # The stored draws are those of random scores, which both files have.
    rows = rows.drop_duplicates([*KEYS, "sample_id", "method"])
    for cell, group in _cells(rows):
        values = group.pivot(index="sample_id", columns="method", values="value")
        yield cell, -values if JUDGING[str(cell["metric"])] == "lowest" else values


def curve_values(files: Files) -> Iterator[tuple[Cell, pd.DataFrame]]:
    """Yield the same at every π of the curves, for samples measured there or failed."""
    grid = np.unique(files.rows("curves")["position"])
    for cell, group in _cells(files.rows("soft_sample_curves")):
        failed, methods = group["values"].isna().to_numpy(), group["method"].unique()
        for position, values in zip(grid, curve_matrix(group, grid.size).T, strict=True):
            at_position = group.assign(value=values)[failed | ~np.isnan(values)]
            wide = at_position.pivot(index="sample_id", columns="method", values="value")
            yield {**cell, "position": position}, wide.reindex(columns=methods)


def _cells(rows: pd.DataFrame) -> Iterator[tuple[Cell, pd.DataFrame]]:
    for key, group in rows.groupby(KEYS, sort=False, dropna=False):
        if ORACLE in set(group["method"]):
            names = (None if pd.isna(name) else name for name in key)
            yield {**dict(zip(KEYS, names, strict=True)), "position": None}, group
