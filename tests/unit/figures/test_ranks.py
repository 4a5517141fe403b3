"""The figure of ranks: their order, and bars of methods that do not differ."""

import pytest

from helpers.estimated_results import view
from helpers.ranked_results import CELL, METHODS, RANKS, TOGETHER, all_rows
from helpers.result_rows import frame
from pisoft.figures.panels import GREY
from pisoft.figures.ranks import plot

MANY = {f"m{k}": f"Method number {k}" for k in range(13)}


def draw(ranks=RANKS, together=TOGETHER, methods=METHODS):
    rows = all_rows(ranks, {"": ranks}, together)
    return plot(view({name: frame(own) for name, own in rows.items()}, CELL, methods=methods))


def bars(panel):
    """The rows that every bar beside a panel joins."""
    lines = (line for line in panel.get_lines() if line.get_color() == GREY)
    return sorted(tuple(line.get_ydata()) for line in lines)


def test_methods_of_equal_rank_stand_in_the_order_of_their_mean_ranks():
    rows = {name: frame(own) for name, own in all_rows(dict.fromkeys(METHODS, 2.5)).items()}
    ranks = rows["ranks"]
    ranks.loc[(ranks["part"] == "mean_rank") & (ranks["method"] == "random"), "value"] = 3.9
    left = plot(view(rows, CELL, methods=METHODS)).axes[0]
    assert left.get_yticklabels()[-1].get_text() == "Random"


@pytest.mark.parametrize(
    ("together", "joined"),
    [
        (TOGETHER, [(0, 1), (1, 2)]),
        ([("grad_ellm", "mine")], [(0, 2)]),  # one between them is not held by their bar
        ([], []),
        ([tuple(RANKS)], [(0, 1, 2, 3)]),
    ],
)
def test_bars_join_exactly_the_methods_that_do_not_differ_significantly(together, joined):
    assert bars(draw(together=together).axes[0]) == joined


def test_pairs_without_a_test_are_joined():
    rows = {name: frame(own) for name, own in all_rows(together=[]).items()}
    rows["comparisons"] = rows["comparisons"].iloc[:0]
    figure = plot(view(rows, CELL, methods=METHODS))
    assert bars(figure.axes[0]) == [(0, 1, 2, 3)]


def test_a_method_without_a_rank_is_named_below_and_has_no_row():
    panel = draw({**RANKS, "mine": None}).axes[0]
    names = [label.get_text() for label in panel.get_yticklabels()]
    assert names == ["Grad-ELLM", "Attention", "Random"]
    assert panel.get_xlabel().endswith("No rank: $ M_{")


@pytest.mark.parametrize("ranked", [0, 1])
def test_fewer_than_two_ranks_leave_no_bar(ranked):
    ranks = {name: 1.0 if place < ranked else None for place, name in enumerate(METHODS)}
    assert bars(draw(ranks).axes[0]) == []


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
