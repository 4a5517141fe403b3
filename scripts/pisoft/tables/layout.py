"""What every table is made of, without anything of LaTeX or HTML, and numbers as text.

:mod:`pisoft.tables.writer` writes any :class:`Table` as CSV, LaTeX and HTML.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

import numpy as np
import pandas as pd

from pisoft.formatting import NOTHING, signed

EXPLORER = "Explorer"  # title of the page of single samples


@dataclass(frozen=True)
class Entry:
    """One number as text; a strong one is set in bold.

    `interval` is of 95 %; `mark` is the sign of how it compares with the best of its column.
    """

    text: str
    strong: bool = False
    interval: str | None = None
    mark: str = ""


@dataclass(frozen=True)
class Row:
    """One line of a table; in a ranking, readers may group rows by the `family` of their method."""

    label: str
    entries: tuple[Entry, ...]
    family: str = ""


@dataclass(frozen=True)
class Block:
    """Lines under a common heading."""

    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Table:
    """A table's layout, without anything of LaTeX or HTML, and its numbers.

    `links` to the page of scores, by labels of model and dataset, are in HTML a line below the
    table and the targets of dataset headings.
    """

    title: str
    corner: str  # heading of the row labels
    columns: tuple[str, ...]
    blocks: tuple[Block, ...]
    notes: tuple[str, ...]
    values: pd.DataFrame  # full precision: what the CSV holds
    spanners: tuple[tuple[str, int], ...] = ()  # headings over so many columns each, of all columns
    links: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def explorer_links(
    explorer: str, models: Mapping[str, str], datasets: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """Return where the explorer shows samples, by the labels of their model and dataset.

    `explorer` is its address, relative to the page with the table; empty: there is none.
    """
    return {
        of_model: {
            of_dataset: f"{explorer}#{urlencode({'model': model, 'dataset': dataset})}"
            for dataset, of_dataset in datasets.items()
        }
        for model, of_model in models.items()
        if explorer
    }


# Numbers --------------------------------------------------------------------------------------


def rank_text(rank: float) -> str:
    """Return a rank; ties share the mean of theirs, such as 1.5."""
    return NOTHING if np.isnan(rank) else f"{rank:g}"


def p_text(p_value: float) -> str:
    """Return a p-value as tables show it; one that is too small for them is said to be small."""
    return "<0.001" if p_value < 0.001 else number_text(p_value, 3)


def number_text(value: float, decimals: int) -> str:
    """Return a number as tables show it, a zero without a sign."""
    return NOTHING if np.isnan(value) else signed(f"{value:z.{decimals}f}")


def interval_text(low: float, high: float, decimals: int) -> str | None:
    """Return `[.12, .34]`; None if there is no interval."""
    if np.isnan(low):
        return None
    ends = (f"{end:.{decimals}f}" for end in (low, high))
    shown = (end.replace("0.", ".", 1) if abs(float(end)) < 1 else end for end in ends)
    return signed(f"[{', '.join(shown)}]")
