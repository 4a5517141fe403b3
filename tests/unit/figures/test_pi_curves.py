"""Curves over π: who is in colour, who is named where, and in which order."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_hex

from helpers.curve_results import CELL, METHODS, WHERE, curve_rows, view
from pisoft.figures.pi_curves import LABEL_HEIGHT, OTHERS, plot, spread
from pisoft.figures.style import line_styles
from pisoft.statistics.metrics import CURVE_METRICS

MANY = {
    **{f"m{place}": f"A rather long name of method {place}" for place in range(9)},
    "grad_ellm": "Grad-ELLM",
    "grad_ellm_original": "Grad-ELLM (original)",
    "random": "Random",
    "last": "Last",
}


def area_rows(methods, tied=()):
    """Rows of both areas; the first method is the best, the last one the worst."""
    first, *_ = methods
    return [
        {
            **CELL, "metric": f"auc_{metric}", "method": method, "value": 1 - place / 100,
            "rank": place + 1, "best": first,
            "p_adjusted": None if method == first else 0.05 if method in tied else 0.001,
        }
        for metric in CURVE_METRICS
        for place, method in enumerate(methods)
    ]  # fmt: skip


def draw(methods, tied=(), curves=None):
    rows = curve_rows(list(methods)[::-1]) if curves is None else curves
    return plot(view(methods, curves=rows, statistics=area_rows(methods, tied)))


def names(panel):
    """The names beside a panel, from top to bottom."""
    found = [text for text in panel.texts if text.get_text()]
    return [text.get_text() for text in sorted(found, key=lambda text: -text.get_position()[1])]


def colours(panel):
    """The colours of the curves."""
    curves = [line for line in panel.get_lines() if len(line.get_xdata()) > 1]
    return [to_hex(line.get_color(), keep_alpha=False) for line in curves]


def test_the_best_the_tied_the_paper_s_random_scores_and_the_worst_are_named():
    for panel in draw(MANY, tied=["m2"]).axes:
        assert names(panel) == [
            "A rather long name of method 0",
            "A rather long name of method 2 ≈",
            "Grad-ELLM",
            "Grad-ELLM (original)",
            "Random",
            "Last",
            "others",
        ]
        styles = line_styles(MANY)
        named = {"m0", "m2", "grad_ellm", "grad_ellm_original", "random", "last"}
        expected = [styles[name].colour.lower() for name in MANY if name in named]
        assert colours(panel) == [OTHERS.lower()] * (len(MANY) - len(named)) + expected
        assert len(panel.collections) == len(named), "only lines in colour have bands"
        assert panel.get_title() == "Best or tied (≈): 2 of 13 methods"
        (bold,) = (text for text in panel.texts if text.get_fontweight() == "bold")
        assert bold.get_text() == "A rather long name of method 0"


def test_of_many_that_are_tied_the_first_four_are_in_colour():
    panel = draw(MANY, tied=[name for name in MANY if name not in ("m0", "random", "last")]).axes[0]
    assert names(panel)[:5] == [
        "A rather long name of method 0",
        *(f"A rather long name of method {place} ≈" for place in (1, 2, 3)),
        "Grad-ELLM ≈",
    ]
    title = "Best or tied (≈): 11 of 13 methods, 6 in colour"
    assert panel.get_title() == title, "the paper's are among them"


def test_equal_methods_are_all_the_best():
    areas = [{**r, "rank": 1.5 if r["rank"] < 3 else r["rank"]} for r in area_rows(METHODS)]
    panel = plot(view(METHODS, curves=curve_rows(), statistics=areas)).axes[0]
    bold = [text.get_text() for text in panel.texts if text.get_fontweight() == "bold"]
    assert bold == ["Attention", "Random"]


def test_a_method_without_a_curve_counts_and_is_not_named():
    rows = curve_rows([name for name in MANY if name != "m0"])
    panel = draw(MANY, tied=["m1"], curves=rows).axes[0]
    assert names(panel)[0] == "A rather long name of method 1 ≈"
    assert panel.get_title() == "Best or tied (≈): 2 of 13 methods, 1 in colour"


def test_of_few_methods_all_are_in_colour():
    panel = draw(METHODS, tied=["attention", "mine"]).axes[0]
    assert names(panel) == ["Random", "Attention ≈", "Grad-ELLM", "$ Mine_{ <b> ≈"]


def test_names_do_not_overlap_and_lie_inside_the_figure_beside_their_panel():
    figure = draw(MANY, tied=["m1", "m2", "m3", "m4"])
    figure.draw_without_rendering()
    for panel, following in itertools.zip_longest(figure.axes, figure.axes[1:]):
        shown = [panel.title, *(text for text in panel.texts if text.get_text())]
        boxes = [text.get_window_extent() for text in shown]
        edge = figure.bbox.x1 if following is None else following.get_tightbbox().x0
        for place, box in enumerate(boxes):
            assert place == 0 or panel.bbox.x1 <= box.x0
            assert box.x1 <= edge
            assert not [other for other in boxes[:place] if box.overlaps(other)]


def test_without_any_value_nothing_is_named():
    rows = [{**row, "value": None, "rank": None, "best": ""} for row in area_rows(METHODS)]
    figure = plot(view(METHODS, curves=curve_rows(n=0), statistics=rows))
    assert [names(panel) for panel in figure.axes] == [[], []]
    assert figure.get_suptitle() == f"{WHERE} · n = 0"


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9), st.sampled_from([0.01, LABEL_HEIGHT]))
def test_names_are_as_near_to_the_ends_as_gaps_and_order_allow(ends, gap):
    places = spread(np.array(ends), gap)
    assert np.all(np.diff(places) >= gap - 1e-9)
    assert places.min() >= -1e-9
    assert places.max() <= 1 + 1e-9
    if np.all(np.diff(ends) >= gap):
        assert places == pytest.approx(ends)


def test_crowded_names_are_centred_on_their_ends():
    assert spread(np.array([0.5, 0.5, 0.5]), 0.1) == pytest.approx([0.4, 0.5, 0.6])
    assert spread(np.array([0.9, 1.0, 1.0]), 0.1) == pytest.approx([0.8, 0.9, 1.0])
