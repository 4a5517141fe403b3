"""What heatmaps of agreement share: cells with numbers, gaps, names and a scale."""

from __future__ import annotations

from typing import Any

import numpy as np
import seaborn
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from pisoft.units import NOTHING

# Inches.
CELL = 0.3  # two digits fit


SMALLEST_PANEL = 2.4


TITLE = 0.3


NUMBERS: dict[str, Any] = {"size": 6.5}


Look = tuple[str, float, float]  # a colour map that any colour vision can read, and its range


TAU: Look = ("RdBu", -1.0, 1.0)  # blue agrees


TAU_MEANING = "Kendall's τ-b\n(1: same order, 0: unrelated, −1: opposite)"


def draw_numbers(panel: Axes, matrix: np.ndarray, look: Look) -> None:
    """Colour the cells that have a value, and write it into them."""
    draw_cells(panel, matrix, look, annot=_texts(matrix), fmt="", annot_kws=NUMBERS)


def draw_cells(panel: Axes, matrix: np.ndarray, look: Look, **numbers: Any) -> None:
    """Colour the cells that have a value; `numbers` is how seaborn writes into them."""
    colours, lowest, highest = look
    seaborn.heatmap(
        matrix,
        ax=panel,
        cmap=colours,
        vmin=lowest,
        vmax=highest,
        square=True,
        cbar=False,
        linewidths=0.5,
        xticklabels=[],
        yticklabels=[],
        **numbers,
    )
    panel.grid(visible=False)


def _texts(matrix: np.ndarray) -> np.ndarray:
    """Return numbers of at most 1 in size as short texts: `.53`, `−.07`, `1.0`."""
    rounded = np.round(matrix, 2) + 0.0  # no negative zero
    texts = [f"{value:.2f}".replace("1.00", "1.0").replace("0.", ".") for value in rounded.ravel()]
    signed = [text.replace("-", "\N{MINUS SIGN}") for text in texts]
    return np.array(signed, dtype=object).reshape(matrix.shape)


def mark_gaps(panel: Axes, gaps: np.ndarray) -> None:
    """Write a dash into the cells that lack a value, the diagonal left out."""
    for line, column in np.argwhere(gaps & ~np.eye(len(gaps), dtype=bool)):
        panel.text(column + 0.5, line + 0.5, NOTHING, ha="center", va="center", **NUMBERS)


def name_cells(panel: Axes, columns: list[str], lines: list[str]) -> None:
    """Write names below a panel and beside it."""
    panel.set_anchor("W")  # the layout leaves room for names left of the space that it divides
    panel.set_xticks(np.arange(len(columns)) + 0.5, columns, rotation=90, fontsize="small")
    panel.set_yticks(np.arange(len(lines)) + 0.5, lines, rotation=0, fontsize="small")


def add_scale(panel: Axes, look: Look, label: str) -> None:
    """Fill a panel with a colour map's scale."""
    colours, lowest, highest = look
    mappable = ScalarMappable(Normalize(lowest, highest), colours)
    assert panel.figure is not None
    scale = panel.figure.colorbar(mappable, cax=panel, orientation="horizontal")
    scale.set_label(label, fontsize="small")
    scale.set_ticks(np.linspace(lowest, highest, 5).tolist())
    scale.ax.tick_params(labelsize="small")
