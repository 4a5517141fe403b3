"""Ranks: intervals, critical differences, ranks without a dataset, figure and table."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tabulate_ranks

import pisoft
from pisoft.config.slices.display import DisplaySlice
from pisoft.contracts import write_rows
from pisoft.figures.ranks import METRICS, plot_ranks
from pisoft.tables.ranks import rank_table
from pisoft.units import NOTHING
from typesetting import assert_latex_compiles, needs_latex
from uncertainty import comparison_rows, frame, left_out_rows, ranked_rows

SCRIPTS = Path(pisoft.__file__).parents[1]
DATASETS = {"sst2": "SST2", "imdb": "IMDb"}
METHODS = {"random": "Random", "attention": "Attention", "grad_ellm": "Grad-ELLM", "mine": "$ M_{"}
RANKS = {"random": 4.0, "attention": 2.0, "grad_ellm": 1.0, "mine": 3.0}
TOGETHER = [("grad_ellm", "attention"), ("attention", "mine")]
MANY = {f"m{k}": f"Method number {k}" for k in range(13)}


def both(make, *given, **more):
    """The rows of both metrics."""
    return [row for metric in METRICS for row in make(metric, *given, **more)]


def draw(ranks=RANKS, together=TOGETHER, methods=METHODS):
    statistics = frame(both(ranked_rows, ranks))
    comparisons = both(comparison_rows, ranks, together)
    columns = ["metric", "dataset", "method", "other", "p_holm"]
    return plot_ranks(statistics, pd.DataFrame(comparisons, columns=columns), methods, "Llama")


def bars(panel):
    """The mean ranks under every bar of a critical-difference diagram."""
    lines = (line for line in panel.get_lines() if line.get_marker() == "o")
    return sorted(
        tuple(sorted(np.round(line.get_xdata(), 9)))
        for line in lines
        if np.size(line.get_ydata()) > 1 and max(line.get_ydata()) < 0
    )


def test_methods_stand_at_their_ranks_the_best_first_with_their_intervals():
    upper = draw().axes[0]
    names = [label.get_text() for label in upper.get_yticklabels()]
    assert names == ["Grad-ELLM", "Attention", "$ M_{", "Random"]
    points = [line for line in upper.get_lines() if len(line.get_xdata()) == 1]
    assert [line.get_xdata()[0] for line in points] == [1, 2, 3, 4]
    spans = [tuple(line.get_xdata()) for line in upper.get_lines() if len(line.get_xdata()) == 2]
    assert spans == [(1, 2), (1, 3), (2, 4), (3, 4)]
    shares = [text.get_text() for text in upper.texts]
    assert shares == ["best in", "100 %", "0 %", "0 %", "0 %"]


def test_bars_join_exactly_the_methods_that_are_not_told_apart():
    assert bars(draw().axes[1]) == [(1.1, 2.1), (2.1, 3.1)]


def test_a_method_between_others_is_not_held_by_their_bar():
    figure = draw(together=[("grad_ellm", "mine")])
    assert bars(figure.axes[1]) == [(1.1, 3.1)]


def test_no_bar_where_all_are_told_apart_and_one_where_none_is():
    assert bars(draw(together=[]).axes[1]) == []
    assert bars(draw(together=[tuple(RANKS)]).axes[1]) == [(1.1, 2.1, 3.1, 4.1)]


def test_pairs_that_were_not_tested_are_not_told_apart():
    statistics = frame(both(ranked_rows, RANKS))
    columns = ["metric", "dataset", "method", "other", "p_holm"]
    figure = plot_ranks(statistics, pd.DataFrame([], columns=columns), METHODS, "Llama")
    assert bars(figure.axes[1]) == [(1.1, 2.1, 3.1, 4.1)]


def test_labels_of_the_diagram_say_method_and_mean_rank():
    labels = {text.get_text() for text in draw().axes[1].texts}
    assert labels == {"Grad-ELLM (1.1)", "Attention (2.1)", "$ M_{ (3.1)", "Random (4.1)"}


def test_a_method_without_a_rank_says_so_and_is_not_in_the_diagram():
    figure = draw({**RANKS, "mine": None})
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == ["Grad-ELLM", "Attention", "Random", "$ M_{ (no rank)"]
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


LEFT_OUT = {
    None: RANKS,
    "sst2": {"random": 4.0, "attention": 1.5, "grad_ellm": 1.5, "mine": 3.0},
    "imdb": {"random": 1.0, "attention": 2.0, "grad_ellm": 3.0, "mine": None},
}


def table_of(ranks=RANKS, left_out=LEFT_OUT):
    statistics = both(ranked_rows, ranks) + both(ranked_rows, ranks, dataset="sst2")
    return rank_table(
        frame(statistics),
        frame(both(left_out_rows, left_out)),
        where="Llama · dynamic routing",
        methods=METHODS,
        datasets=DATASETS,
    )


def test_table_shows_ranks_intervals_shares_and_ranks_without_a_dataset():
    table = table_of()
    assert table.columns == ("Rank", "95 % interval", "Best in", "Without SST2", "Without IMDb")
    assert [block.title for block in table.blocks] == ["π-Soft-NS ↑", "π-Soft-NC ↑"]
    texts = {row.label: [entry.text for entry in row.entries] for row in table.blocks[0].rows}
    assert texts == {
        "Random": ["4", "3 to 4", "0 %", "4", "1"],
        "Attention": ["2", "1 to 3", "0 %", "1.5", "2"],
        "Grad-ELLM": ["1", "1 to 2", "100 %", "1.5", "3"],
        "$ M_{": ["3", "2 to 4", "0 %", "3", NOTHING],
    }
    assert "Samples per dataset: SST2 20." in table.notes


def test_a_method_without_a_rank_is_named():
    table = table_of({**RANKS, "mine": None})
    row = table.blocks[1].rows[3]
    assert [entry.text for entry in row.entries[:3]] == [NOTHING] * 3
    note = "No rank for $ M_{ by π-Soft-NC ↑: no value for some dataset."
    assert note in table.notes
    assert "Samples per dataset: SST2 0 to 20, by method (at most 20 failed)." in table.notes


def test_a_single_dataset_leaves_nothing_when_it_is_left_out():
    table = table_of(left_out={None: RANKS})
    assert {entry.text for row in table.blocks[0].rows for entry in row.entries[3:]} == {NOTHING}


def write_files(folder):
    """Write the three summary files, with rows of another protocol and model."""
    files = {
        "statistics": both(ranked_rows, RANKS),
        "comparisons": both(comparison_rows, RANKS, TOGETHER),
        "leave_one_out": both(left_out_rows, LEFT_OUT),
    }
    for kind, rows in files.items():
        fixed = [{**row, "protocol": "fixed"} for row in rows]
        mistral = [{**row, "model": "mistral"} for row in rows]
        write_rows(folder / f"{kind}.parquet", kind, rows + fixed + mistral, {})


def test_the_table_script_reads_one_cell_of_the_files(tmp_path):
    write_files(tmp_path)
    settings = DisplaySlice(models={"llama": "Llama"}, datasets=DATASETS, methods=METHODS)
    files = {kind: tmp_path / f"ranks.{kind}" for kind in ("csv", "tex", "html")}
    arguments = argparse.Namespace(
        settings=settings.to_json(),
        statistics=tmp_path / "statistics.parquet",
        leave_one_out=tmp_path / "leave_one_out.parquet",
        protocol="dynamic",
        model="llama",
        **files,
    )
    tabulate_ranks.main(arguments)
    found = pd.read_csv(files["csv"]).set_index(["metric", "method"])
    row = found.loc["auc_pi_soft_nc", "grad_ellm"]
    assert (row["rank"], row["rank_low"], row["rank_high"], row["mean_rank"]) == (1, 1, 2, 1.1)
    assert (row["best_share"], row["rank_without_sst2"], row["rank_without_imdb"]) == (1, 1.5, 3)


def test_the_figure_script_writes_the_same_files_in_every_process(tmp_path):
    write_files(tmp_path)
    settings = {"models": {"llama": "Llama"}, "datasets": DATASETS, "methods": METHODS}
    command = [sys.executable, str(SCRIPTS / "plot_ranks.py"), "--settings", json.dumps(settings)]
    command += ["--statistics", str(tmp_path / "statistics.parquet")]
    command += ["--comparisons", str(tmp_path / "comparisons.parquet")]
    command += ["--protocol", "dynamic", "--model", "llama"]
    found = []
    for seed in ("1", "2"):  # of the order of sets
        paths = [tmp_path / f"{seed}.{suffix}" for suffix in ("pdf", "svg", "png")]
        outputs = [part for path in paths for part in (f"--{path.suffix[1:]}", str(path))]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run(command + outputs, env=environment, check=True)
        found.append([path.read_bytes() for path in paths])
    assert found[0] == found[1]


@needs_latex
def test_the_latex_table_compiles(tmp_path):
    assert_latex_compiles(table_of({**RANKS, "mine": None}), tmp_path)
