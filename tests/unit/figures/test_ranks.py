"""The figure of ranks: intervals and critical differences."""

import numpy as np
import pytest

from helpers.estimated_results import view
from helpers.ranked_results import CELL, METHODS, RANKS, TOGETHER, all_rows
from helpers.result_rows import frame
from pisoft.figures.ranks import plot

MANY = {f"m{k}": f"Method number {k}" for k in range(13)}


def draw(ranks=RANKS, together=TOGETHER, methods=METHODS):
    rows = all_rows(ranks, {"": ranks}, together)
    return plot(view({name: frame(own) for name, own in rows.items()}, CELL, methods=methods))


def bars(panel):
    """The mean ranks under every bar of a critical-difference diagram."""
    lines = (line for line in panel.get_lines() if line.get_marker() == "o")
    return sorted(
        tuple(sorted(np.round(line.get_xdata(), 9)))
        for line in lines
        if np.size(line.get_ydata()) > 1 and max(line.get_ydata()) < 0
    )


def test_methods_of_equal_rank_stand_in_the_order_of_their_mean_ranks():
    rows = {name: frame(own) for name, own in all_rows(dict.fromkeys(METHODS, 2.5)).items()}
    ranks = rows["ranks"]
    ranks.loc[(ranks["part"] == "mean_rank") & (ranks["method"] == "random"), "value"] = 3.9
    left = plot(view(rows, CELL, methods=METHODS)).axes[0]
    assert left.get_yticklabels()[-1].get_text() == "Random"


def test_bars_join_exactly_the_methods_that_do_not_differ_significantly():
    assert bars(draw().axes[1]) == [(1.1, 2.1), (2.1, 3.1)]


def test_a_method_between_others_is_not_held_by_their_bar():
    figure = draw(together=[("grad_ellm", "mine")])
    assert bars(figure.axes[1]) == [(1.1, 3.1)]


def test_no_bar_where_all_differ_and_one_where_none_does():
    assert bars(draw(together=[]).axes[1]) == []
    assert bars(draw(together=[tuple(RANKS)]).axes[1]) == [(1.1, 2.1, 3.1, 4.1)]


def test_pairs_without_a_test_are_joined():
    rows = {name: frame(own) for name, own in all_rows(together=[]).items()}
    rows["comparisons"] = rows["comparisons"].iloc[:0]
    figure = plot(view(rows, CELL, methods=METHODS))
    assert bars(figure.axes[1]) == [(1.1, 2.1, 3.1, 4.1)]


def test_a_method_without_a_rank_says_so_and_is_not_in_the_diagram():
    figure = draw({**RANKS, "mine": None})
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == ["Grad-ELLM", "Attention", "Random", "$ M_{ (no value)"]
    assert len(figure.axes[1].texts) == 3


@pytest.mark.parametrize("ranked", [0, 1])
def test_fewer_than_two_ranks_leave_no_diagram(ranked):
    ranks = {name: 1.0 if place < ranked else None for place, name in enumerate(METHODS)}
    figure = draw(ranks)
    assert [text.get_text() for text in figure.axes[1].texts] == [
        "fewer than two methods have a rank"
    ]


IN_ORDER = {name: place + 1.0 for place, name in enumerate(MANY)}
CASES = {
    "spread": (IN_ORDER, [list(MANY)[first : first + 4] for first in range(10)]),
    "equal": (dict.fromkeys(MANY, 7.0), [tuple(MANY)]),
    "together": (IN_ORDER, [tuple(MANY)]),
    "apart": (IN_ORDER, []),
}


@pytest.mark.parametrize("case", CASES)
def test_thirteen_methods_fit_and_their_names_do_not_overlap(case):
    figure = draw(*CASES[case], MANY)
    figure.draw_without_rendering()
    for panel in figure.axes:
        lines = panel.get_yticklabels() if panel.yaxis.get_visible() else []
        texts = [*panel.texts, *lines, *panel.get_xticklabels()]
        boxes = [text.get_window_extent() for text in texts if text.get_visible()]
        for place, box in enumerate(boxes):
            assert box.x0 >= -1
            assert box.y0 >= -1
            assert box.x1 <= figure.bbox.x1 + 1
            assert box.y1 <= figure.bbox.y1 + 1
            assert not [other for other in boxes[:place] if overlap(box, other)]


def overlap(box, other):
    """Whether two boxes share more than a pixel's edge."""
    wide = min(box.x1, other.x1) - max(box.x0, other.x0)
    high = min(box.y1, other.y1) - max(box.y0, other.y0)
    return wide > 1 and high > 1 and box.width > 1 and other.width > 1
