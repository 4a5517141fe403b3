"""The figure of advantages: lines, bands, the zero line, and the lack of random scores."""

import itertools

import numpy as np

from helpers.curve_results import CELL, METHODS, view
from pisoft.figures.advantage import plot
from pisoft.figures.style import line_styles
from pisoft.statistics.metrics import CURVE_METRICS, NO_CONTROL

GRID = (0.1, 0.5, 0.9)
VALUES = {"attention": 0.25, "mine": 0.125}


def rows_of(shift=0.0):
    return [
        {
            **CELL, "metric": metric, "method": method, "part": "at" if pi else "upper",
            "position": pi, "value": value + shift, "low": value + shift - 0.25,
            "high": value + shift + 0.25, "n": 20, "n_failed": 1,
        }
        for metric, (method, value), pi in itertools.product(
            CURVE_METRICS, VALUES.items(), (*GRID, None)
        )
    ]  # fmt: skip


def test_each_method_has_its_colour_its_differences_and_its_band_around_the_zero_line():
    figure = plot(view(advantage=rows_of()))
    title = "Llama · SST2 · dynamic routing · n = 20"
    assert figure.get_suptitle() == title
    styles = line_styles(METHODS)
    assert [panel.get_ylabel() for panel in figure.axes] == [
        "π-Soft-NS less Random's ↑",
        "π-Soft-NC less Random's ↑",
    ]
    for panel in figure.axes:
        lines = {line.get_label(): line for line in panel.get_lines()}
        for method, value in VALUES.items():
            line = lines[METHODS[method]]
            assert line.get_color() == styles[method].colour
            assert line.get_xydata().tolist() == [[pi, value] for pi in GRID]
        low, high = panel.get_ylim()
        assert low <= 0 < high
        assert any(np.array_equal(line.get_ydata(), [0, 0]) for line in panel.get_lines())
        band = panel.collections[0].get_paths()[0].vertices[:, 1]
        assert (band.min(), band.max()) == (0.0, 0.5)


def test_differences_below_zero_still_show_the_zero_line():
    for panel in plot(view(advantage=rows_of(shift=-2))).axes:
        low, high = panel.get_ylim()
        assert low < -1
        assert high >= 0


def test_without_random_scores_the_figure_says_so():
    figure = plot(view(advantage=[]))
    assert not figure.axes
    assert NO_CONTROL in [text.get_text() for text in figure.texts]
