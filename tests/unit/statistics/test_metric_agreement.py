"""Agreement of metrics: orders compared, direction, gaps, its figure and table."""

import argparse

import numpy as np
import pandas as pd
import plot_metric_agreement as figure_script
import pytest
import scipy.stats
import tabulate_metric_agreement as table_script

from pisoft.config.slices.display import DisplaySlice
from pisoft.contracts import write_rows
from pisoft.figures.metric_agreement import plot_metric_agreement
from pisoft.statistics.metric_agreement import (
    RANKING_METRICS,
    SOFT_METRICS,
    agreement_matrix,
    metric_agreement,
    ordering_metrics,
)
from pisoft.tables.metric_agreement import metric_agreement_table
from pisoft.units import NOTHING
from typesetting import assert_latex_compiles, needs_latex
from uncertainty import frame, statistics_row

DATASETS = {"sst2": "SST2", "imdb": "IMDb"}
NS, NC, DELETION, INSERTION = "auc_pi_soft_ns", "auc_pi_soft_nc", "deletion_auc", "insertion_auc"


def rows_of(values, protocol="dynamic", datasets=("average",)):
    """Rows of `statistics`; `values` = {metric: values of the methods a, b, …}."""
    return [
        statistics_row(
            metric, dataset, "abcdefghijklm"[place], value,
            protocol=None if metric in RANKING_METRICS else protocol,
        )
        for metric, numbers in values.items()
        for dataset in datasets
        for place, value in enumerate(numbers)
    ]  # fmt: skip


def compared(rows, datasets=DATASETS):
    statistics = frame(rows)
    metrics, _ = ordering_metrics(statistics)
    found = metric_agreement(statistics, metrics, datasets)
    return {
        (row["dataset"], row["protocol"], row["metric"], row["other_protocol"], row["other"]): row
        for row in found.to_dict("records")
    }


def tau(rows, metric, other):
    (row,) = (
        row
        for key, row in compared(rows).items()
        if key[0] == "average" and (key[2], key[4]) == (metric, other)
    )
    return row["kendall_tau"]


def test_equal_orders_agree_and_opposite_ones_do_not():
    rows = rows_of({NS: [0.1, 0.2, 0.9], NC: [1.0, 5.0, 6.0], "soft_ns": [3.0, 2.0, 1.0]})
    assert tau(rows, NS, NC) == 1
    assert tau(rows, NS, "soft_ns") == -1


def test_of_insertion_the_lowest_is_best():
    rows = rows_of({NS: [0.1, 0.2, 0.9], DELETION: [1, 2, 3], INSERTION: [0.3, 0.2, 0.1]})
    assert tau(rows, NS, INSERTION) == tau(rows, DELETION, INSERTION) == tau(rows, NS, DELETION)
    assert tau(rows, NS, INSERTION) == 1


def test_tau_p_value_and_number_of_methods_are_scipys_with_ties():
    generator = np.random.default_rng(0)
    ns, nc = generator.random(12).round(1), generator.random(12).round(1)
    row = compared(rows_of({NS: ns, NC: nc}))["average", "dynamic", NS, "dynamic", NC]
    expected = scipy.stats.kendalltau(ns, nc)
    assert row["kendall_tau"] == pytest.approx(expected.statistic)
    assert row["p_value"] == pytest.approx(expected.pvalue)
    assert row["n_methods"] == 12


def test_methods_without_a_value_are_left_out_of_the_pair_only():
    rows = rows_of({NS: [1, 2, 3, 0], NC: [1, 2, 3, None], "soft_nc": [1, 2, 3, 0.5]})
    found = compared(rows)
    assert found["average", "dynamic", NS, "dynamic", NC]["n_methods"] == 3
    assert found["average", "dynamic", NS, "dynamic", NC]["kendall_tau"] == 1
    assert found["average", "dynamic", NS, "dynamic", "soft_nc"]["n_methods"] == 4


@pytest.mark.parametrize("values", [[5, 5, 5], [5, None, None], [None, 5, None]])
def test_tau_is_undefined_without_an_order(values):
    assert np.isnan(tau(rows_of({NS: [1, 2, 3], NC: values}), NS, NC))


def test_protocols_are_compared_with_each_other_and_datasets_on_their_own():
    rows = rows_of({NS: [1, 2, 3]}, "dynamic", ["average", "sst2", "imdb"])
    rows += rows_of({NS: [3, 2, 1]}, "fixed", ["average", "imdb"])
    found = compared(rows)
    assert found["average", "dynamic", NS, "fixed", NS]["kendall_tau"] == -1
    assert np.isnan(found["sst2", "dynamic", NS, "fixed", NS]["kendall_tau"])
    assert found["sst2", "dynamic", NS, "fixed", NS]["n_methods"] == 0
    assert found["imdb", "dynamic", NS, "fixed", NS]["kendall_tau"] == -1
    assert [key[0] for key in found] == ["average", "sst2", "imdb"]


def test_metrics_without_a_value_are_left_out():
    rows = rows_of({NS: [1, 2], NC: [None, None], DELETION: [1, 2]})
    shown, left_out = ordering_metrics(frame(rows))
    assert [metric.label for metric in shown] == ["π-Soft-NS · dynamic", "Deletion"]
    assert len(left_out) == len(SOFT_METRICS) + len(RANKING_METRICS) - 2
    assert "π-Soft-NC · dynamic" in [metric.label for metric in left_out]


def test_each_pair_stands_in_the_line_of_its_second_metric():
    rows = rows_of({NS: [1, 2, 3], NC: [3, 2, 1], DELETION: [1, 3, 2]})
    statistics = frame(rows)
    metrics, _ = ordering_metrics(statistics)
    found = metric_agreement(statistics, metrics, DATASETS)
    matrix = agreement_matrix(found, metrics, "average")
    nan = np.nan
    expected = [[nan, nan, nan], [-1, nan, nan], [1 / 3, -1 / 3, nan]]
    np.testing.assert_allclose(matrix, expected)


# Figure and table -----------------------------------------------------------------------------

ROWS = rows_of({NS: [1, 2, 3], NC: [1, 2, 3], "soft_ns": [5, 5, 5], INSERTION: [1, 2, 3]})


def texts_of(figure):
    (average, *_) = (panel for panel in figure.axes if panel.get_title() == "Mean over datasets")
    return {
        (int(text.get_position()[1]), int(text.get_position()[0])): text.get_text()
        for text in average.texts
    }


def test_the_figure_shows_tau_names_what_it_leaves_out_and_marks_gaps():
    figure = plot_metric_agreement(frame(ROWS), DATASETS, "Llama")
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
    rows = [row for name in protocols for row in rows_of(every, name)]
    rows = frame(rows).drop_duplicates(["protocol", "metric", "method"])
    figure = plot_metric_agreement(rows, names, "A model of some length")
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


def test_a_model_without_any_value_makes_figure_and_table():
    rows = frame(rows_of({NS: [None, None]}))
    assert set(texts_of(plot_metric_agreement(rows, DATASETS, "Llama")).values()) == {NOTHING}
    table = metric_agreement_table(rows, where="Llama", datasets=DATASETS)
    assert {e.text for row in table.blocks[0].rows for e in row.entries} == {"", NOTHING}


def test_table_is_symmetric_numbered_and_names_what_is_left_out():
    table = metric_agreement_table(frame(ROWS), where="Llama", datasets=DATASETS)
    assert table.columns == ("1", "2", "3", "4")
    assert [row.label for row in table.blocks[0].rows] == [
        "1 π-Soft-NS · dynamic", "2 π-Soft-NC · dynamic", "3 Soft-NS · dynamic", "4 Insertion",
    ]  # fmt: skip
    first, _, _, last = table.blocks[0].rows
    assert [entry.text for entry in first.entries] == ["", "1.00", NOTHING, "-1.00"]
    assert [entry.text for entry in last.entries] == ["-1.00", "-1.00", NOTHING, ""]
    (left_out,) = (note for note in table.notes if note.startswith("Left out, no value: "))
    assert left_out.endswith("; Soft-NC · dynamic; Deletion.")
    assert any("Methods in an order: 3." in note for note in table.notes)


def test_the_scripts_read_one_model_of_the_file(tmp_path):
    other = [{**row, "model": "mistral", "value": -row["value"]} for row in rows_of({NS: [9, 1]})]
    write_rows(tmp_path / "statistics.parquet", "statistics", ROWS + other, {})
    settings = DisplaySlice(models={"llama": "Llama"}, datasets=DATASETS, methods={})
    common = {"settings": settings.to_json(), "model": "llama"}
    common["statistics"] = tmp_path / "statistics.parquet"
    files = {kind: tmp_path / f"out.{kind}" for kind in ("csv", "tex", "html", "pdf", "svg", "png")}
    table_script.main(argparse.Namespace(**common, **files))
    figure_script.main(argparse.Namespace(**common, **files))
    found = pd.read_csv(files["csv"])
    assert len(found) == 3 * 6  # average and two datasets, pairs of four metrics
    average = found[found["dataset"] == "average"].set_index(["metric", "other"])["kendall_tau"]
    assert average[NS, NC] == 1
    assert average[NS, INSERTION] == -1
    assert all(files[kind].stat().st_size for kind in ("pdf", "svg", "png", "tex", "html"))


@needs_latex
def test_the_latex_table_compiles(tmp_path):
    assert_latex_compiles(
        metric_agreement_table(frame(ROWS), where="Llama", datasets=DATASETS), tmp_path
    )
