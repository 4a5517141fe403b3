"""The figure of how far metrics agree."""

import pytest

from helpers.agreement_results import CELL, INSERTION, LABELS, NC, NS, metric_rows
from helpers.views import view_of
from pisoft.figures.metric_agreement import plot
from pisoft.formatting import NOTHING


@pytest.fixture
def draw(tmp_path):
    def drawn(rows, datasets=LABELS["datasets"]):
        labels = {
            "models": {"llama": "A model of some length"}, "datasets": datasets,
            "methods": {name: name.upper() for name in "abc"},
        }  # fmt: skip
        other = [{**row, "model": "mistral"} for row in metric_rows({NS: [9, 1]})]
        return plot(view_of(labels, CELL, statistics=rows + other))

    return drawn


def texts_of(figure, title="Mean over datasets"):
    (average, *_) = (panel for panel in figure.axes if panel.get_title() == title)
    return {
        (int(text.get_position()[1]), int(text.get_position()[0])): text.get_text()
        for text in average.texts
    }


def test_the_figure_shows_tau_names_what_it_leaves_out_and_marks_gaps(draw):
    values = {NS: [1, 2, 3, 0], NC: [1, 2, 3, 9], "soft_ns": [5, 5, 5], INSERTION: [1, 3, 2]}
    figure, rows = draw(metric_rows(values, datasets=("sst2", "imdb", "average")))
    assert texts_of(figure) == {
        (0, 0): "1.0", (1, 0): NOTHING, (1, 1): NOTHING,
        (2, 0): "−.33", (2, 1): "−.33", (2, 2): NOTHING,
    }  # fmt: skip
    title = figure._suptitle.get_text()
    assert "length · 3 methods" in title, "others are not of the model"
    assert "Deletion" in title
    assert "Insertion" not in title
    assert len(rows) == 3 * 6, "the average and two datasets, pairs of four metrics"


def test_a_single_metric_makes_a_figure_without_numbers(draw):
    figure, rows = draw(metric_rows({NS: [1, 2]}, datasets=("average", "sst2")))
    assert not texts_of(figure, "SST2")
    assert rows.empty


def test_a_single_dataset_has_one_panel_named_after_it(draw):
    figure, _ = draw(metric_rows({NS: [1, 2], NC: [2, 1]}, datasets=("average", "sst2")))
    assert [panel.get_title() for panel in figure.axes] == ["SST2", ""]
    assert texts_of(figure, "SST2") == {(0, 0): "−1.0"}
