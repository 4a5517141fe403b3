"""The table of what a run was predicted to cost and what it did."""

from __future__ import annotations

from typing import Any

import pandas as pd

from pisoft.displays import display
from pisoft.tables import notes
from pisoft.tables.layout import Block, Entry, Row, Table, number_text
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


@display(
    title="Cost, predicted and measured",
    reads={"cost": "summary/cost"},
)
def table(view: View) -> Table:
    """Build the table of the run."""
    rows, models = with_ratios(view.files.rows("cost")), view.settings.models
    groups = [(label, rows["model"] == name) for name, label in models.items()]
    groups.append((WITHOUT_MODEL, rows["model"].isna()))
    return Table(
        title="Cost: predicted and measured",
        corner="Rule",
        columns=COLUMNS,
        blocks=tuple(
            Block(title, tuple(map(_row, rows[chosen].itertuples())))
            for title, chosen in groups
            if chosen.any()
        ),
        notes=tuple(notes.of_cost(rows, models)),
        values=rows,
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


def _row(row: Any) -> Row:
    counted, timed = row.counted_jobs == row.jobs, row.timed_jobs == row.jobs
    texts = (
        str(row.jobs),
        _limits(row.forwards_low, row.forwards_high),
        scaled(row.counted_forwards) if counted else NOTHING,
        number_text(row.forwards_ratio, 3),
        _limits(row.tokens_low, row.tokens_high),
        scaled(row.counted_tokens) if counted else NOTHING,
        number_text(row.tokens_ratio, 3),
        _limits(row.flops_low, row.flops_high),
        number_text(row.seconds, 1) if timed else NOTHING,
        scaled(row.flops_per_second) if row.flops_per_second > 0 else NOTHING,
    )
    return Row(row.rule, tuple(map(Entry, texts)))


def _limits(low: float, high: float) -> str:
    return " to ".join(dict.fromkeys((scaled(low), scaled(high)))) if high else NOTHING
