"""The figure of advantages: lines, bands, the zero line, and the lack of random scores."""

import itertools

import numpy as np
import pandas as pd

from pisoft.figures.advantage import PANELS, plot_advantage
from pisoft.figures.style import line_styles
from pisoft.statistics.estimates import P_VALUES
from pisoft.statistics.metrics import NO_CONTROL

METHODS = {"random": "Random", "saliency": "Saliency", "mine": "$ M_{"}
GRID = (0.1, 0.5, 0.9)
VALUES = {"saliency": 0.25, "mine": 0.125}
CELL = {"protocol": "dynamic", "model": "llama", "dataset": "sst2"}
SETTINGS = {"models": {"llama": "Llama"}, "datasets": {"sst2": "SST2"}, "methods": METHODS}


def rows_of():
    return [
        {
            **CELL, "metric": metric, "method": method, "part": "at" if pi else "upper", "pi": pi,
            "value": value, "low": value - 0.25, "high": value + 0.25, "n": 20, "n_failed": 1,
            **dict.fromkeys(P_VALUES),
        }
        for metric, (method, value), pi in itertools.product(PANELS, VALUES.items(), (*GRID, None))
    ]  # fmt: skip


def draw(rows):
    methods = {name: METHODS[name] for name in VALUES}
    return plot_advantage(pd.DataFrame(rows), methods, "Llama · SST2")


def test_each_method_has_its_colour_its_differences_and_its_band_around_the_zero_line():
    figure = draw(rows_of())
    assert figure.get_suptitle() == "Advantage over random scores · Llama · SST2 · n = 20"
    styles = line_styles(METHODS)
    for panel, label in zip(figure.axes, PANELS.values(), strict=True):
        assert panel.get_ylabel() == label
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
    below = [{**r, "value": -1 - r["value"], "low": -1.5, "high": -1.0} for r in rows_of()]
    for panel in draw(below).axes:
        low, high = panel.get_ylim()
        assert low < -1
        assert high >= 0


def test_without_random_scores_the_figure_says_so():
    figure = plot_advantage(pd.DataFrame(rows_of())[:0], {}, "Llama · SST2")
    assert not figure.axes
    assert NO_CONTROL in [text.get_text() for text in figure.texts]
