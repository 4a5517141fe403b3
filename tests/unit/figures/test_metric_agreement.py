"""The figure of how far metrics agree."""

import pandas as pd
import pytest

from agreeing import (
    DATASETS,
    INSERTION,
    METRIC_ROWS,
    METRIC_SETTINGS,
    NC,
    NS,
    metric_rows,
    write_metrics,
)
from pisoft.figures.metric_agreement import plot_metric_agreement
from pisoft.statistics.metric_agreement import (
    RANKING_METRICS,
    SOFT_METRICS,
    metric_agreement,
    ordering_metrics,
)
from pisoft.units import NOTHING
from rooms import plot
from uncertainty import frame


def draw(statistics, datasets=DATASETS, where="Llama"):
    metrics, left_out = ordering_metrics(statistics)
    rows = metric_agreement(statistics, metrics, datasets)
    return plot_metric_agreement(rows, metrics, left_out, datasets, where)


def texts_of(figure):
    (average, *_) = (panel for panel in figure.axes if panel.get_title() == "Mean over datasets")
    return {
        (int(text.get_position()[1]), int(text.get_position()[0])): text.get_text()
        for text in average.texts
    }


def test_the_figure_shows_tau_names_what_it_leaves_out_and_marks_gaps():
    figure = draw(frame(METRIC_ROWS))
    assert texts_of(figure) == {
        (1, 0): "1.0", (2, 0): NOTHING, (2, 1): NOTHING,
        (3, 0): "−1.0", (3, 1): "−1.0", (3, 2): NOTHING,
    }  # fmt: skip
    title = figure._suptitle.get_text()
    assert "Llama · 3 methods" in title
    assert "Deletion" in title
    assert "Insertion" not in title


@pytest.mark.parametrize("datasets", [1, 2, 5, 7])
@pytest.mark.parametrize("protocols", [["dynamic"], ["dynamic", "fixed"]])
def test_no_text_leaves_the_figure(datasets, protocols):
    names = {f"d{k}": f"Dataset {k}" for k in range(datasets)}
    every = {name: [1, 2, 3] for name in (*SOFT_METRICS, *RANKING_METRICS)}
    rows = [row for name in protocols for row in metric_rows(every, name)]
    rows = frame(rows).drop_duplicates(["protocol", "metric", "method"])
    figure = draw(rows, names, "A model of some length")
    figure.draw_without_rendering()
    for text in texts_and_ticks(figure):
        box = text.get_window_extent()
        assert box.x0 >= -1, text.get_text()
        assert box.y0 >= -1, text.get_text()
        assert box.x1 <= figure.bbox.x1 + 1, text.get_text()
        assert box.y1 <= figure.bbox.y1 + 1, text.get_text()


def texts_and_ticks(figure):
    yield figure._suptitle
    for panel in (panel for panel in figure.axes if panel.axison):
        yield panel.title
        yield from (*panel.get_xticklabels(), *panel.get_yticklabels(), *panel.texts)


def test_a_model_without_any_value_makes_a_figure():
    figure = draw(frame(metric_rows({NS: [None, None]})))
    assert set(texts_of(figure).values()) == {NOTHING}


def test_the_script_draws_one_model_of_the_file_with_its_numbers(tmp_path):
    files = write_metrics(tmp_path / "statistics.parquet")
    made = plot("metric_agreement", METRIC_SETTINGS, files, tmp_path, model="llama")
    found = pd.read_csv(made["png"].with_suffix(".csv"))
    assert len(found) == 3 * 6  # average and two datasets, pairs of four metrics
    average = found[found["dataset"] == "average"].set_index(["metric", "other"])["kendall_tau"]
    assert average[NS, NC] == 1
    assert average[NS, INSERTION] == -1
    assert all(path.stat().st_size for path in made.values())
