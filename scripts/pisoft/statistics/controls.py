"""Values of controls and methods by sample: what their diagnosis begins with."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np
import pandas as pd

from pisoft.statistics.metrics import METRICS
from pisoft.statistics.reading import Files

# Of a sample's numbers, those that say how good its scores are, and which are better.
JUDGING = {m.of: m.best for m in METRICS.values() if m.compared and m.over is None}
ORACLE = "oracle"


def control_values(
    files: Files, controls: Collection[str] = (ORACLE,)
) -> Iterator[tuple[dict[str, object], pd.DataFrame]]:
    """Yield each metric of each protocol, model and dataset that has controls, at each π if it has.

    Args:
        files: `soft_samples`, `soft_sample_curves`, `curves` and, if there are any,
            `datamodel_samples` and `ranking_samples`, of the run and of its controls.
        controls: one of these there must be.

    Yields:
        protocol (None: of no protocol), model, metric, dataset, and pi (None: of no single one);
        and values, a row per sample, a column per method and control; higher is better, NaN where
        a sample has failed.
    """
    for kind in ("soft_samples", "datamodel_samples", "ranking_samples"):
        rows = files.rows(kind) if kind in files else pd.DataFrame(columns=["metric", "sample_id"])
        rows = rows[rows["metric"].isin(list(JUDGING)) & rows["sample_id"].notna()]
        keys = ["protocol"] * ("protocol" in rows) + ["model", "dataset", "metric"]
        for key, group in rows.groupby(keys, sort=False) if len(rows) else ():
            cell = {"protocol": None, **dict(zip(keys, key, strict=True)), "pi": None}
            if set(controls) & set(group["method"]):
                # Stored draws are those of random scores, which both files have.
                once = group.drop_duplicates(["sample_id", "method"])
                wide = once.pivot(index="sample_id", columns="method", values="value")
                yield cell, -wide if JUDGING[str(cell["metric"])] == "lowest" else wide
    yield from _along_curves(files)


def _along_curves(files: Files) -> Iterator[tuple[dict[str, object], pd.DataFrame]]:
    grid = np.unique(files.rows("curves")["position"])
    curves = files.rows("soft_sample_curves")
    keys = ["protocol", "model", "dataset", "metric"]
    for key, group in curves.groupby(keys, sort=False):
        if ORACLE not in set(group["method"]):
            continue
        lacking = np.full(grid.size, np.nan)
        values = np.stack([lacking if curve is None else curve for curve in group["values"]])
        for pi, at_pi in zip(grid, values.T, strict=True):
            cell: Mapping[str, object] = dict(zip(keys, key, strict=True))
            wide = group.assign(value=at_pi).pivot(
                index="sample_id", columns="method", values="value"
            )
            yield {**cell, "pi": pi}, wide
