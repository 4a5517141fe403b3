"""How figures look: one colour, marker and dash per method everywhere, and reproducible files."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import seaborn
from matplotlib.figure import Figure

matplotlib.use("Agg")  # jobs run without a display

Dash = str | tuple[int, tuple[float, ...]]


@dataclass(frozen=True)
class LineStyle:
    """Appearance of one method's line."""

    colour: str
    marker: str
    dash: Dash


_SOLID: Dash = "-"
_DASHED: Dash = (0, (5, 2))
_DOTTED: Dash = (0, (1, 1.5))
_DASH_DOTTED: Dash = (0, (6, 2, 1, 2))

# Okabe & Ito's colours, told apart with any colour vision; yellow is left out (too pale for a line)
_KNOWN = {
    "random": LineStyle("#8C8C8C", "x", _DOTTED),
    "attention": LineStyle("#0072B2", "o", _SOLID),
    "saliency": LineStyle("#E69F00", "s", _DASHED),
    "input_x_gradient": LineStyle("#009E73", "^", _SOLID),
    "deeplift": LineStyle("#CC79A7", "v", _DASHED),
    "integrated_gradients": LineStyle("#56B4E9", "D", _SOLID),
    "value_zeroing": LineStyle("#000000", "P", _DASH_DOTTED),
    "reagent": LineStyle("#7A5C00", "X", _DASHED),
    "grad_ellm": LineStyle("#D55E00", "*", _SOLID),
}
# The benchmark's further methods have the first of the other styles, shown or not.
_FURTHER = ("attention_rollout", "occlusion", "gradient_shap", "grad_ellm_original")
_OTHER_COLOURS = ("#332288", "#882255", "#117733", "#AA4499", "#999933", "#44AA99", "#661100")
_OTHER_MARKERS = ("h", "<", ">", "p", "d")
_OTHER_DASHES = (_DASH_DOTTED, _SOLID, _DASHED)

_METADATA: dict[str, dict[str, None]] = {
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    ".svg": {"Date": None, "Creator": None},
    ".png": {"Software": None},
}


def line_styles(methods: Iterable[str]) -> dict[str, LineStyle]:
    """Return the appearance of every method.

    The benchmark's own methods always look the same. Others get the free styles in the order
    given: 101 combinations (7 · 5 · 3, but for our own four), so appending a method changes no
    other one's.
    """
    names = list(methods)
    others = [*_FURTHER, *(name for name in names if name not in (*_KNOWN, *_FURTHER))]
    assigned = {name: _other_style(position) for position, name in enumerate(others)}
    return {name: _KNOWN.get(name) or assigned[name] for name in names}


def theme() -> AbstractContextManager[Any]:
    """Return a context in which figures are drawn and saved in the benchmark's look.

    The font ships with matplotlib, so files do not depend on what the machine has installed.
    """
    looks = {
        **seaborn.plotting_context("notebook", font_scale=0.85),
        **seaborn.axes_style("whitegrid"),
        "font.family": "DejaVu Sans",
        "text.parse_math": False,  # a dollar sign in a label is a dollar sign
        "svg.hashsalt": "pisoft",  # identifiers inside the file, random without it
        "pdf.fonttype": 42,
        "savefig.dpi": 200,
        "grid.color": "#E6E6E6",
        "axes.edgecolor": "#4D4D4D",
    }
    return matplotlib.rc_context(looks)


def save_figure(figure: Figure, paths: Iterable[Path]) -> None:
    """Save a figure under every path, in the format of its suffix: .pdf, .svg or .png.

    The files hold no date and no random identifier: equal figures give equal bytes.

    Raises:
        ValueError: another suffix.
    """
    with theme():
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # laid out once: every format would do it anew
    for path in paths:
        if path.suffix not in _METADATA:
            raise ValueError(f"{path}: figures are saved as {', '.join(_METADATA)}")
        with theme():
            figure.savefig(path, metadata=_METADATA[path.suffix])


def _other_style(position: int) -> LineStyle:
    """Return the style at a position; the cycles' lengths share no factor, so none comes twice."""
    return LineStyle(
        _OTHER_COLOURS[position % len(_OTHER_COLOURS)],
        _OTHER_MARKERS[position % len(_OTHER_MARKERS)],
        _OTHER_DASHES[position % len(_OTHER_DASHES)],
    )
