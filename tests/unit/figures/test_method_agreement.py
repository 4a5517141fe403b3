"""The figure of how far methods agree."""

import pytest

from helpers.agreement_results import CELL, LABELS, VALUES, agreement_rows
from helpers.views import view_of
from pisoft.figures.method_agreement import plot
from pisoft.formatting import NOTHING


@pytest.fixture
def draw(tmp_path):
    def drawn(values, **labels):
        rows = agreement_rows(values)
        return plot(view_of(LABELS | labels, CELL, method_agreement=rows))

    return drawn


def cells(panel):
    """Texts of a heatmap by line and column."""
    return {
        (int(text.get_position()[1]), int(text.get_position()[0])): text.get_text()
        for text in panel.texts
    }


def test_panels_show_tau_below_and_overlap_above_the_diagonal(draw):
    figure, rows = draw(VALUES)
    average, sst2, imdb = figure.axes[:3]
    assert cells(sst2) == {
        (1, 0): ".20", (2, 0): "−.40", (2, 1): "1.0",
        (0, 1): ".10", (0, 2): ".30", (1, 2): ".90",
    }  # fmt: skip
    assert cells(average)[1, 0] == ".40"
    assert cells(average)[2, 0] == cells(average)[0, 2] == NOTHING
    assert cells(imdb)[2, 0] == NOTHING
    titles = [panel.get_title() for panel in (average, sst2, imdb)]
    assert titles == ["Mean over datasets · n = 10–20", "SST2 · n = 10", "IMDb · n = 10"]
    tau = rows[rows["metric"] == "kendall_tau"].set_index(["dataset", "method", "other"])["value"]
    assert tau["imdb", "attention", "mine"] == 0.5
    assert tau["average", "attention", "mine"] == 0.75


def test_small_numbers_have_no_negative_zero(draw):
    figure, _ = draw({("random", "mine", "sst2"): (-0.001, 0.004)})
    assert cells(figure.axes[0]) == {(1, 0): ".00", (0, 1): ".00"}


def test_a_single_dataset_has_one_panel_named_after_it(draw):
    figure, _ = draw({("random", "mine", "sst2"): (0.5, 0.5)})
    assert [panel.get_title() for panel in figure.axes] == ["SST2 · n = 10", "", ""]
