"""The rank figure: bars between methods, and space for their names."""

import itertools

import pytest

from helpers.estimated_results import view
from helpers.result_rows import CELL, comparison_rows, frame, rank_rows
from pisoft.figures.ranks import groups, plot
from pisoft.statistics.metrics import AUC_METRICS

MANY = {f"m{k}": f"Method number {k}" for k in range(13)}
WINDOWS = [[*MANY][first : first + 4] for first in range(10)]


@pytest.mark.parametrize(
    ("together", "joined"),
    [
        (["ab", "bc"], [["a", "b"], ["b", "c"]]),
        (["ac"], [["a", "c"]]),  # one between them is not joined by their bar
        ([], []),
        (["abcd"], [["a", "b", "c", "d"]]),
    ],
)
def test_bars_join_exactly_the_methods_without_significant_differences(together, joined):
    pairs = frame(comparison_rows("auc", "abcd", together))
    assert groups(pairs, [*"abcd"]) == joined
    assert groups(pairs[:0], [*"abcd"]) == [[*"abcd"]], "without a test"


def test_methods_of_equal_rank_are_sorted_by_mean_rank():
    rows = rank_rows(AUC_METRICS[0], dict.fromkeys(MANY, 7.0))
    rows[1]["value"] = 9  # the mean rank of the first method
    left = draw(rows, []).axes[0]
    assert left.get_yticklabels()[-1].get_text() == MANY["m0"]


def test_all_methods_that_are_best_equally_often_are_named():
    rows = rank_rows(AUC_METRICS[0], {"m0": 1.0, "m1": 1.0, "m2": 3.0})
    title = draw(rows, []).get_suptitle()
    assert title.startswith(f"Most often best: {MANY['m0']} and {MANY['m1']} (100")


def test_without_resamples_the_share_is_a_dash():
    rows = [
        row for row in rank_rows(AUC_METRICS[0], {"m0": 1.0, "m1": 2.0}) if row["part"] == "rank"
    ]
    figure = draw(rows, [])
    assert "Most often best" not in figure.get_suptitle()
    assert [text.get_text() for text in figure.axes[0].texts[:2]] == ["–"] * 2


@pytest.mark.parametrize("together", [[], [[*MANY]], WINDOWS])
@pytest.mark.parametrize("apart", [0, 1])
def test_names_of_thirteen_methods_do_not_overlap(together, apart):
    ranks = {name: 7 + apart * (place - 6.0) for place, name in enumerate(MANY)}
    figure = draw([row for name in AUC_METRICS for row in rank_rows(name, ranks)], together)
    figure.draw_without_rendering()
    for panel in figure.axes:
        lines = panel.get_yticklabels() if panel.yaxis.get_visible() else []
        texts = [*panel.texts, *lines, *panel.get_xticklabels()]
        boxes = [text.get_window_extent() for text in texts if text.get_visible()]
        for box in boxes:
            assert min(box.x0, box.y0) >= -1
            assert max(box.x1 - figure.bbox.x1, box.y1 - figure.bbox.y1) <= 1
        for one, other in itertools.combinations(boxes, 2):
            wide = min(one.x1, other.x1) - max(one.x0, other.x0)
            high = min(one.y1, other.y1) - max(one.y0, other.y0)
            assert min(wide, high, one.width, other.width) <= 1, "a pixel's edge"


def draw(ranks, together):
    pairs = [row for name in AUC_METRICS for row in comparison_rows(name, MANY, together)]
    return plot(view({"ranks": frame(ranks), "comparisons": frame(pairs)}, CELL, methods=MANY))
