"""The curves of answers, as a figure."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from pisoft.errors import BenchmarkError, in_one_line
from pisoft.figures.pi_curves_all import by_method
from pisoft.statistics.metrics import CURVE_METRICS


@in_one_line
def plot(answer: pd.DataFrame) -> Figure:
    """Draw π-Soft-NS and π-Soft-NC over π with their 95 % intervals, a panel per method.

    Args:
        answer: what :func:`pisoft.evaluate` returns, or several of them, by `pandas.concat`.

    Raises:
        BenchmarkError: no such rows, or several models or protocols.
    """
    if "metric" not in answer or not answer["metric"].isin(CURVE_METRICS).any():
        raise BenchmarkError("answer: has no curves; pass what `evaluate` returns")
    rows = answer[answer["metric"].isin(CURVE_METRICS)].rename(columns={"pi": "position"})
    cells = rows[["model", "protocol"]].drop_duplicates().to_numpy().tolist()
    if len(cells) > 1:
        raise BenchmarkError(f"answer: must be of one model and protocol, got {cells}")
    title = "{}, {} routing".format(*cells[0])
    return by_method(title, rows, {name: name for name in rows["method"].unique()})
