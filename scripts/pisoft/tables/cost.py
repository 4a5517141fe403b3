"""The table of what a run was predicted to cost and what it did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from pisoft.displays import display
from pisoft.tables.layout import Block, Entry, Row, Table
from pisoft.units import NOTHING, scaled
from pisoft.views import View

WITHOUT_MODEL = "For all models"
COLUMNS = (
    "Jobs",
    "Forwards",
    "counted",
    "counted / predicted",
    "Tokens",
    "counted",
    "counted / predicted",
    "FLOP",
    "Time, s",
    "FLOP/s",
)
_NOTES = (
    "Forwards, tokens and FLOP are predicted from the lengths of the prompts and answers that the "
    "run has made. FLOP: matrix products, two for a multiplication and an addition; a backward "
    "pass counts as a forward.",
    "Counted: what the jobs themselves have counted, as far as they do. Time: wall-clock time of "
    "the jobs, added up, loading included. FLOP/s: FLOP divided by this time.",
)
_LIMITS = (
    "Two numbers are for the fewest and for the most draws of a draw budget; the counted are "
    "compared with the most, and FLOP/s is of the draws that were counted."
)


@display(
    title="Cost, predicted and measured",
    reads={"cost": "summary/cost"},
)
def table(view: View) -> Table:
    """Build the table of the run."""
    files, settings, cell = view.files, view.settings, view.cell
    return cost_table(files.rows("cost", **cell), models=settings.models)


def cost_table(rows: pd.DataFrame, *, models: Mapping[str, str]) -> Table:
    """Build the table of predicted and measured costs.

    Args:
        rows: rows of kind `cost`.
        models: label of each model, in the order of the blocks.
    """
    values = with_ratios(rows)
    groups = [(label, values["model"] == name) for name, label in models.items()]
    groups.append((WITHOUT_MODEL, values["model"].isna()))
    blocks = tuple(
        Block(title, tuple(map(_row, values[chosen].to_dict("records"))))
        for title, chosen in groups
        if chosen.any()
    )
    budgeted = (values["flops_low"] < values["flops_high"]).any()
    return Table(
        title="Cost: predicted and measured",
        corner="Rule",
        columns=COLUMNS,
        blocks=blocks,
        notes=(*_NOTES, *([_LIMITS] if budgeted else []), *_gap_notes(values, models)),
        values=values,
    )


def with_ratios(rows: pd.DataFrame) -> pd.DataFrame:
    """Add ratios of counted to predicted (upper limit), and FLOP/s, NaN where jobs are missing.

    Args:
        rows: rows of kind `cost`.
    """
    counted = rows["counted_jobs"] == rows["jobs"]
    timed = (rows["timed_jobs"] == rows["jobs"]) & (rows["flops_high"] > 0)
    forwards = (rows["counted_forwards"] / rows["forwards_high"]).where(counted)
    tokens = (rows["counted_tokens"] / rows["tokens_high"]).where(counted)
    exact = rows["flops_low"] == rows["flops_high"]
    flops = rows["flops_high"] * tokens.mask(exact, 1.0)
    rate = (flops / rows["seconds"]).where(timed)
    return rows.assign(forwards_ratio=forwards, tokens_ratio=tokens, flops_per_second=rate)


def _row(row: dict[str, Any]) -> Row:
    counted, timed = row["counted_jobs"] == row["jobs"], row["timed_jobs"] == row["jobs"]
    texts = (
        str(row["jobs"]),
        _limits(row["forwards_low"], row["forwards_high"]),
        scaled(row["counted_forwards"]) if counted else NOTHING,
        _ratio(row["forwards_ratio"]),
        _limits(row["tokens_low"], row["tokens_high"]),
        scaled(row["counted_tokens"]) if counted else NOTHING,
        _ratio(row["tokens_ratio"]),
        _limits(row["flops_low"], row["flops_high"]),
        f"{row['seconds']:.1f}" if timed else NOTHING,
        NOTHING if np.isnan(row["flops_per_second"]) else scaled(row["flops_per_second"]),
    )
    return Row(row["rule"], tuple(map(Entry, texts)))


def _limits(low: float, high: float) -> str:
    if high == 0:
        return NOTHING
    return " to ".join(dict.fromkeys((scaled(low), scaled(high))))


def _ratio(value: float) -> str:
    return NOTHING if np.isnan(value) else f"{value:.3f}"


def _gap_notes(rows: pd.DataFrame, models: Mapping[str, str]) -> list[str]:
    """Say how many jobs have left no time, or have counted only in part."""
    untimed, uncounted = [], []
    for row in rows.to_dict("records"):
        name = models.get(row["model"])
        where = f"{row['rule']} ({name})" if name else row["rule"]
        if row["timed_jobs"] < row["jobs"]:
            untimed.append(f"{where}: {row['jobs'] - row['timed_jobs']} of {row['jobs']}")
        if 0 < row["counted_jobs"] < row["jobs"]:
            uncounted.append(f"{where}: {row['jobs'] - row['counted_jobs']} of {row['jobs']}")
    notes = []
    if untimed:
        notes.append(f"Jobs without a benchmark file, so no time is given: {'; '.join(untimed)}.")
    if uncounted:
        notes.append(f"Jobs that counted nothing, so no count is given: {'; '.join(uncounted)}.")
    return notes
