"""The table of what the models answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.stats.proportion import proportion_confint

from pisoft.displays import display
from pisoft.tables.layout import Block, Entry, Row, Table, interval_text, number_text
from pisoft.units import NOTHING
from pisoft.views import View

ACCURACY_COLUMNS = {
    "accuracy": ("Accuracy ↑", 3),
    "greedy_is_label": ("Greedy is label", 3),
    "truncated": ("Truncated", 0),
    "mean_prompt_tokens": ("Prompt tokens", 1),
    "mean_output_tokens": ("Output tokens", 1),
    "n": ("n", 0),
    "n_failed": ("n failed", 0),
}
SHARES = ("accuracy", "greedy_is_label")


@display(
    title="Accuracy of the models",
    reads={"accuracy": "summary/accuracy"},
)
def table(view: View) -> Table:
    """Build the table of the run."""
    files, settings, cell = view.files, view.settings, view.cell
    rows = files.rows("accuracy", **cell)
    return accuracy_table(rows, models=settings.models, datasets=settings.datasets)


def accuracy_table(
    rows: pd.DataFrame, *, models: Mapping[str, str], datasets: Mapping[str, str]
) -> Table:
    """Build the table of what the models answered.

    Args:
        rows: rows of kind `accuracy`.
        models: label of each model, in the order of the blocks.
        datasets: label of each dataset, in the order of the rows.
    """
    numbers = rows.set_index(["model", "dataset"])[list(ACCURACY_COLUMNS)]
    numbers = numbers.reindex(pd.MultiIndex.from_product([models, datasets])).astype(np.float64)
    blocks = tuple(
        Block(
            title,
            tuple(
                Row(label, tuple(_accuracy_entries(numbers.loc[(model, dataset)])))
                for dataset, label in datasets.items()
            ),
        )
        for model, title in models.items()
    )
    notes = (
        "Over the n samples that could be evaluated. Accuracy: share whose preferred label word "
        "is the right one. Greedy is label: share whose most probable next token, over the whole "
        f"vocabulary, begins a label word. Both are {NOTHING} for open generation. In brackets: "
        "Wilson's 95 % interval.",
        "Truncated: prompts shortened to fit. Prompt and output tokens: means per sample. "
        "n failed: samples left out of all means.",
    )
    return Table(
        title="Accuracy and lengths",
        corner="Dataset",
        columns=tuple(label for label, _ in ACCURACY_COLUMNS.values()),
        blocks=blocks,
        notes=notes,
        values=_accuracy_values(rows),
    )


def _accuracy_values(rows: pd.DataFrame) -> pd.DataFrame:
    """Return metric, model, dataset, value, low, high, n, n_failed."""
    measured = [name for name in ACCURACY_COLUMNS if name not in ("n", "n_failed")]
    keys = ["model", "dataset", "n", "n_failed"]
    tidy = rows.melt(id_vars=keys, value_vars=measured, var_name="metric")
    shares = tidy["metric"].isin(SHARES)
    tidy["low"], tidy["high"] = wilson(tidy["value"].astype(float).where(shares), tidy["n"])
    return tidy[["metric", "model", "dataset", "value", "low", "high", "n", "n_failed"]]


def _accuracy_entries(values: pd.Series) -> Iterable[Entry]:
    for name, (_, decimals) in ACCURACY_COLUMNS.items():
        low, high = wilson(values[name], values["n"]) if name in SHARES else (np.nan, np.nan)
        text = number_text(values[name], decimals)
        yield Entry(text, interval=interval_text(low, high, decimals))


def wilson(share: Any, n: Any) -> tuple[Any, Any]:
    """Return both ends of Wilson's 95 % interval of shares of n samples; NaN gives NaN."""
    low, high = proportion_confint(share * n, n, alpha=0.05, method="wilson")
    return low, high
