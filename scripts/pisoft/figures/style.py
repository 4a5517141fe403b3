"""The style of figures: fixed colours, markers and dashes of methods, and reproducible files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from io import StringIO
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import seaborn
from matplotlib.figure import Figure

FULL_WIDTH = 180  # millimetres: a page's text, where fonts are printed in their size
NARROWEST = 0.9  # of its width on such a page, a panel on a narrower one
_INCHES = 7.1  # the full width
_SHARE = ContextVar("share", default=1.0)

Dash = str | tuple[int, tuple[float, ...]]


@dataclass(frozen=True)
class LineStyle:
    """Appearance of one method's line."""

    colour: str
    marker: str
    dash: Dash

    @property
    def point(self) -> dict[str, Any]:
        """Colour and marker, as matplotlib takes them."""
        return {"color": self.colour, "marker": self.marker}

    @property
    def line(self) -> dict[str, Any]:
        """Colour and dash, as matplotlib takes them."""
        return {"color": self.colour, "linestyle": self.dash}


_SOLID: Dash = "-"
_DASHED: Dash = (0, (5, 2))
_DOTTED: Dash = (0, (1, 1.5))
_DASH_DOTTED: Dash = (0, (6, 2, 1, 2))

# Okabe & Ito's colours, distinct with any colour vision; yellow is left out (too pale for a line)
_FIXED = {
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
_FURTHER = (
    *("attention_rollout", "occlusion", "gradient_shap", "grad_ellm_original"),
    *("attn_lrp", "cp_lrp", "gim", "mask_regression", "permutation_shap", "kernel_shap"),
    *("ifr", "grad_ellm_inseq", "flashtrace", "depass"),
)
# With those above, 28 colours as far apart as can be, also with red-green blindness.
_OTHER_COLOURS = (
    *("#332288", "#882255", "#117733", "#AA4499", "#999933", "#44AA99", "#661100", "#0000EE"),
    *("#8877EE", "#7700BB", "#6655EE", "#660055", "#444488", "#667766", "#DD0044", "#882200"),
    *("#66BB77", "#EE88CC", "#446677"),
)
_OTHER_MARKERS = ("h", "<", ">", "p", "d")
_OTHER_DASHES = (_DASH_DOTTED, _SOLID, _DASHED)

_METADATA: dict[str, dict[str, None]] = {
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    ".svg": {"Date": None, "Creator": None},
    ".png": {"Software": None},
}


@contextmanager
def page_width(millimetres: float) -> Iterator[None]:
    """Draw figures for a page narrower than a full one."""
    token = _SHARE.set(millimetres / FULL_WIDTH)
    try:
        yield
    finally:
        _SHARE.reset(token)


def share() -> float:
    """Return the width of figures as a share of a full page."""
    return _SHARE.get()


def width() -> float:
    """Return the width of figures in inches."""
    return _INCHES * share()


def abreast(columns: int) -> int:
    """Return how many columns of panels fit, given their number on a full page."""
    most = max(1, min(columns, int(share() * columns / NARROWEST)))
    return -(-columns // -(-columns // most))


def line_styles(methods: Iterable[str]) -> dict[str, LineStyle]:
    """Return the appearance of every method.

    The benchmark's methods always look the same. Other methods get the free styles in order, so
    appending a method does not change the others. The lengths of the cycles are coprime, so all 285
    combinations of colour, marker and dash differ.
    """
    names = list(methods)
    assigned = dict(_FIXED)
    looks = zip(cycle(_OTHER_COLOURS), cycle(_OTHER_MARKERS), cycle(_OTHER_DASHES), strict=False)
    for name in (*_FURTHER, *names):
        if name not in assigned:
            assigned[name] = LineStyle(*next(looks))
    return {name: assigned[name] for name in names}


def theme() -> AbstractContextManager[Any]:
    """Return a context in which figures are drawn and saved in the benchmark's look.

    The font ships with matplotlib, so files do not depend on installed fonts.
    """
    looks = {
        **seaborn.plotting_context("paper", font_scale=0.85),
        **seaborn.axes_style("whitegrid"),
        "font.family": "DejaVu Sans",
        "text.parse_math": False,  # a dollar sign in a label is a dollar sign
        "svg.hashsalt": "pisoft",  # identifiers inside the file, random without it
        "pdf.fonttype": 42,
        "savefig.dpi": 260,
        "grid.color": "#E6E6E6",
        "axes.edgecolor": "#4D4D4D",
    }
    return matplotlib.rc_context(looks)


class NotebookFigure(Figure):
    """A figure that notebooks display under any matplotlib backend."""

    def _repr_svg_(self) -> str:
        image = StringIO()
        with theme():
            self.savefig(image, format="svg", metadata=_METADATA[".svg"])
        return image.getvalue()


def save_figure(figure: Figure, paths: Iterable[Path]) -> None:
    """Save a figure under every path, in the format of its suffix: .pdf, .svg or .png.

    Files contain no date and no random identifiers: equal figures give equal bytes.

    Raises:
        ValueError: another suffix.
    """
    with theme():
        # At the resolution of .png: hinted for fewer dots, texts would be laid out too narrow.
        figure.set_dpi(matplotlib.rcParams["savefig.dpi"])
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # laid out once: every format would do it again
        # The last digits of a layout depend on the order of sets.
        for part in figure.subfigs:
            part.bbox_relative.set_points(np.round(part.bbox_relative.get_points(), 6))
        for panel in figure.axes:
            panel.set_position(np.round(panel.get_position(original=True).bounds, 6).tolist())
    for path in paths:
        if path.suffix not in _METADATA:
            raise ValueError(f"{path}: figures are saved as {', '.join(_METADATA)}")
        with theme():
            figure.savefig(path, metadata=_METADATA[path.suffix])
