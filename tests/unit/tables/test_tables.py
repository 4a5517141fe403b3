"""Tables: numbers, ranks, notes, and the three file formats."""

import argparse
import csv
import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import tabulate_insertion_deletion

import pisoft
from estimating import estimated
from pisoft.config.slices.display import DisplaySlice
from pisoft.contracts import SCHEMAS, write_rows, write_table
from pisoft.statistics.soft import SAMPLE_METRICS
from pisoft.tables.accuracy import accuracy_table
from pisoft.tables.insertion_deletion import insertion_deletion_table
from pisoft.tables.layout import Block, Entry, Row, Table
from pisoft.tables.original_soft import original_table
from pisoft.tables.pi_soft_auc import auc_table
from pisoft.tables.robust_statistics import robust_table
from pisoft.tables.soft import SoftRows
from pisoft.tables.variances import variance_table
from pisoft.tables.writer import write
from pisoft.units import NOTHING
from typesetting import assert_latex_compiles, needs_latex

GRID = [0.05, 0.5, 0.95]
METHODS = {"random": "Random", "attention": "Attention", "mine": "Mine"}
DATASETS = {"sst2": "SST2", "imdb": "IMDb"}
SCRIPTS = Path(pisoft.__file__).parents[1]


def sample_rows(means, failed=(), samples=3):
    """Rows of `soft_samples`; `means` = {(method, dataset): mean}; `failed` = (…, sample, why)."""
    reasons = {key: why for *key_parts, why in failed for key in [tuple(key_parts)]}
    rows = []
    for (method, dataset), mean in means.items():
        for number in range(samples):
            status = reasons.get((method, dataset, number), "ok")
            for metric in SAMPLE_METRICS:
                value = mean + (number - 1) / 100 if status == "ok" else None
                rows.append(
                    {
                        "protocol": "dynamic",
                        "model": "llama",
                        "method": method,
                        "dataset": dataset,
                        "sample_id": f"s{number}",
                        "metric": metric,
                        "value": value,
                        "status": status,
                    }
                )
    return rows


MEANS = {
    ("random", "sst2"): 0.2,
    ("attention", "sst2"): 0.4,
    ("mine", "sst2"): 0.9,
    ("random", "imdb"): 0.3,
    ("attention", "imdb"): 0.5,
    ("mine", "imdb"): 0.1,
}


def outcomes_of(rows):
    frame = pd.DataFrame(rows)
    return frame[frame["metric"] == "identity"].astype({"value": float})


def soft_rows(rows, methods=METHODS, datasets=DATASETS, clamp=True):
    names = {"methods": methods, "datasets": datasets, "clamp": clamp}
    where = "Llama · dynamic routing"
    return SoftRows(estimated(rows).statistics, outcomes_of(rows), where, **names)


def auc_of(rows, methods=METHODS, datasets=DATASETS, clamp=True):
    return auc_table(soft_rows(rows, methods, datasets, clamp), GRID, "bfloat16")


def soft_table(build, rows, clamp=True):
    return build(soft_rows(rows, clamp=clamp))


def variances_of(rows):
    variances = estimated(rows).variances
    return variance_table(variances, where="Llama", methods=METHODS, datasets=DATASETS)


def value_of(table, metric, dataset, method):
    values = table.values.set_index(["metric", "dataset", "method"])
    return values.loc[(metric, dataset, method)]


def average_ranks(table):
    return [entry.rank for entry in table.blocks[0].rows[-1].entries]


# Numbers --------------------------------------------------------------------------------------


def test_auc_table_shows_means_over_samples_and_their_mean_over_datasets():
    table = auc_of(sample_rows(MEANS))
    assert table.columns == ("Random", "Attention", "Mine")
    assert [block.title for block in table.blocks] == ["AUC π-Soft-NS ↑", "AUC π-Soft-NC ↑"]
    for block in table.blocks:
        assert [row.label for row in block.rows] == ["SST2", "IMDb", "Avg"]
        assert [entry.text for entry in block.rows[0].entries] == ["0.200", "0.400", "0.900"]
        assert [entry.text for entry in block.rows[2].entries] == ["0.250", "0.450", "0.500"]
        assert [row.strong for row in block.rows] == [False, False, True]
        assert [entry.rank for row in block.rows[:2] for entry in row.entries] == [None] * 6
        assert [entry.rank for entry in block.rows[2].entries] == [3, 2, 1]


def test_datasets_weigh_the_same_in_the_average_whatever_their_number_of_samples():
    rows = sample_rows({("random", "sst2"): 0.2}, samples=3)
    rows += sample_rows({("random", "imdb"): 0.8}, samples=101)
    table = auc_of(rows, methods={"random": "Random"})
    small, large = np.mean([0.19, 0.2, 0.21]), np.mean([0.79 + k / 100 for k in range(101)])
    average = value_of(table, "auc_pi_soft_ns", "average", "random")
    assert average["value"] == pytest.approx((small + large) / 2)
    assert average["n"] == 104


def test_failed_samples_are_left_out_counted_and_explained():
    failed = [
        ("mine", "imdb", 0, "nonfinite_attribution"),
        ("mine", "imdb", 2, "nonfinite_logits"),
        *((method, "sst2", 1, "degenerate_baseline") for method in METHODS),
    ]
    table = auc_of(sample_rows(MEANS, failed))
    cell = value_of(table, "auc_pi_soft_ns", "imdb", "mine")
    assert (cell["value"], cell["n"], cell["n_failed"]) == (pytest.approx(0.1), 1, 2)
    notes = " ".join(table.notes)
    assert "Samples per dataset: SST2 3, IMDb 3." in notes
    assert "SST2 (all methods): 1 degenerate_baseline" in notes
    assert "IMDb (Mine): 1 nonfinite_attribution, 1 nonfinite_logits" in notes


def test_no_failure_is_said_too():
    assert "No sample failed." in auc_of(sample_rows(MEANS)).notes


def test_a_method_whose_samples_all_failed_has_no_average_and_a_reason():
    failed = [("mine", "imdb", number, "nonfinite_attribution") for number in range(3)]
    table = auc_of(sample_rows(MEANS, failed))
    assert table.blocks[0].rows[1].entries[2] == Entry(NOTHING)
    assert table.blocks[0].rows[2].entries[2] == Entry(NOTHING)
    assert average_ranks(table) == [2, 1, None]
    assert np.isnan(value_of(table, "auc_pi_soft_nc", "average", "mine")["value"])
    note = "No average for Mine, no sample evaluated (IMDb: 3 nonfinite_attribution)."
    assert note in table.notes


def test_a_missing_method_has_dashes_and_no_samples():
    means = {cell: mean for cell, mean in MEANS.items() if cell[0] != "mine"}
    table = auc_of(sample_rows(means))
    assert {row.entries[2].text for block in table.blocks for row in block.rows} == {NOTHING}
    note = "No average for Mine, no sample evaluated (SST2: no samples; IMDb: no samples)."
    assert note in table.notes
    assert value_of(table, "auc_pi_soft_ns", "sst2", "mine")["n"] == 0


def test_equal_values_share_a_rank_and_the_next_rank_is_skipped():
    tied = dict.fromkeys(MEANS, 0.5) | {("random", "sst2"): 0.1}
    assert average_ranks(auc_of(sample_rows(tied))) == [3, 1, 1]


def test_values_that_only_look_equal_do_not_share_a_rank():
    close = dict.fromkeys(MEANS, 0.5) | {("mine", "sst2"): 0.5002}
    table = auc_of(sample_rows(close))
    assert {entry.text for entry in table.blocks[0].rows[2].entries} == {"0.500"}
    assert average_ranks(table) == [2, 2, 1]


def test_no_more_than_three_ranks_are_marked():
    methods = {name: name.upper() for name in "abcde"}
    means = {(name, "sst2"): k / 10 for k, name in enumerate(methods)}
    table = auc_of(sample_rows(means), methods, {"sst2": "SST2"})
    assert average_ranks(table) == [None, None, 3, 2, 1]


def test_the_grid_and_its_span_are_stated():
    assert "0.05, …, 0.95 (3 values)" in auc_of(sample_rows(MEANS)).notes[0]
    assert "has 0.9." in auc_of(sample_rows(MEANS)).notes[0]


def test_a_single_sample_makes_a_table():
    table = auc_of(sample_rows(dict.fromkeys(MEANS, 0.25), samples=1))
    assert table.blocks[0].rows[0].entries[0].text == "0.240"
    assert value_of(table, "auc_pi_soft_ns", "sst2", "mine")["n"] == 1


@pytest.mark.parametrize(("clamp", "words"), [(True, "is clamped at 0"), (False, "not clamped")])
def test_notes_say_whether_soft_ns_is_clamped(clamp, words):
    notes = " ".join(auc_of(sample_rows(MEANS), clamp=clamp).notes)
    assert words in notes
    for build in (original_table, robust_table):
        assert words in " ".join(soft_table(build, sample_rows(MEANS), clamp).notes)


def test_notes_give_the_noise_floor_and_its_number_type():
    rows = sample_rows(MEANS)
    for row in rows:
        if row["metric"] == "identity":
            row["value"] = 0.003 if row["sample_id"] == "s0" else 0.0
    notes = " ".join(auc_of(rows).notes)
    assert "Noise floor (bfloat16)" in notes
    assert "distance 0.001 on average and 0.003 at most" in notes


def test_original_table_has_a_block_of_three_rows_per_dataset():
    table = soft_table(original_table, sample_rows(MEANS))
    assert [block.title for block in table.blocks] == ["SST2", "IMDb"]
    assert [row.label for row in table.blocks[1].rows] == ["Soft-NS ↑", "Soft-NC ↑", "E[R]"]
    assert [entry.text for entry in table.blocks[0].rows[0].entries] == ["0.200", "0.400", "0.900"]
    assert [entry.text for entry in table.blocks[0].rows[2].entries] == ["0.2", "0.4", "0.9"]
    assert len(table.values) == 3 * (2 + 1) * 3


def test_robust_table_has_ratios_of_means_medians_and_the_low_part():
    rows = sample_rows(MEANS, samples=4)
    for row in rows:
        if row["metric"] == "h0":
            row["value"] = 0.1 if row["sample_id"] == "s0" else 0.8
    table = soft_table(robust_table, rows)
    assert len(table.blocks) == 6
    found = value_of(table, "ratio_auc_pi_soft_nc", "sst2", "mine")["value"]
    numerators = [0.9 + (number - 1) / 100 for number in range(4)]
    assert found == pytest.approx(sum(numerators) / (0.1 + 3 * 0.8))
    found = value_of(table, "median_auc_pi_soft_ns", "sst2", "mine")["value"]
    assert found == pytest.approx(np.median(numerators))
    assert "ruled by samples" in table.notes[0]


def test_variance_table_shows_what_the_draws_and_rounding_make_of_the_variance():
    rows = sample_rows(MEANS, samples=5)
    for row in rows:
        row["value"] = {"monte_carlo_ns": 5e-5, "numerical": 1e-3}.get(row["metric"], row["value"])
    table = variances_of(rows)
    deviation, between, draws, rounding = table.blocks[0].rows
    total = np.var(np.arange(5) / 100, ddof=1)
    assert deviation.entries[0].text == f"{np.sqrt(total):.4f}"
    assert draws.entries[0].text == f"{5e-5 / total:.2f}"
    assert rounding.entries[0].text == "<0.01"  # 0.004
    assert between.entries[0].text == f"{1 - (5e-5 + 1e-6) / total:.2f}"


def test_a_single_sample_has_no_variance():
    entries = variances_of(sample_rows(MEANS, samples=1)).blocks[0].rows[0].entries
    assert {entry.text for entry in entries} == {NOTHING}


def ranking_rows(means, failed=()):
    """Rows of `ranking_samples`; `means` = {(method, dataset): (deletion, insertion)}."""
    rows = []
    for (method, dataset), pair in means.items():
        for number in range(3):
            status = "nonfinite_logits" if (method, dataset, number) in failed else "ok"
            for metric, mean in zip(("deletion_auc", "insertion_auc"), pair, strict=True):
                rows.append(
                    {
                        "model": "llama",
                        "method": method,
                        "dataset": dataset,
                        "sample_id": f"s{number}",
                        "metric": metric,
                        "value": mean + (number - 1) / 100 if status == "ok" else None,
                        "status": status,
                        "reason": None,
                    }
                )
    return rows


def left_out_rows():
    """Rows of `ranking_samples` for a dataset that cannot be ranked."""
    cell = {"model": "llama", "dataset": "wikibio", "sample_id": None, "value": None}
    return [
        {**cell, "method": method, "metric": metric, "status": "not_applicable", "reason": "none"}
        for method in METHODS
        for metric in ("deletion_auc", "insertion_auc")
    ]


RANKING = {
    ("random", "sst2"): (0.2, 0.3),
    ("attention", "sst2"): (0.4, 0.1),
    ("mine", "sst2"): (0.6, 0.2),
    ("random", "imdb"): (0.1, 0.4),
    ("attention", "imdb"): (0.4, 0.3),
    ("mine", "imdb"): (0.5, 0.1),
}


def insertion_deletion_of(rows):
    datasets = {"wikibio": "WikiBio", **DATASETS}
    statistics = estimated([*rows, *left_out_rows()], "ranking_samples").statistics
    frame = pd.DataFrame([*rows, *left_out_rows()])
    names = {"methods": METHODS, "datasets": datasets}
    return insertion_deletion_table(statistics, frame, where="Llama", **names)


def test_deletion_is_best_where_highest_and_insertion_where_lowest():
    table = insertion_deletion_of(ranking_rows(RANKING))
    assert [block.title for block in table.blocks] == ["Deletion ↑", "Insertion ↓"]
    deletion, insertion = (block.rows[-1] for block in table.blocks)
    assert deletion.label == insertion.label == "Average"
    assert [entry.text for entry in deletion.entries] == ["0.1500", "0.4000", "0.5500"]
    assert [entry.rank for entry in deletion.entries] == [3, 2, 1]
    assert [entry.text for entry in insertion.entries] == ["0.3500", "0.2000", "0.1500"]
    assert [entry.rank for entry in insertion.entries] == [3, 2, 1]
    best_deletion_only = {**RANKING, ("mine", "imdb"): (0.5, 0.9)}
    table = insertion_deletion_of(ranking_rows(best_deletion_only))
    assert [entry.rank for entry in table.blocks[1].rows[-1].entries] == [2, 1, 3]


def test_a_dataset_that_cannot_be_ranked_is_named_and_in_no_mean():
    table = insertion_deletion_of(ranking_rows(RANKING))
    for block in table.blocks:
        assert [row.label for row in block.rows] == ["SST2", "IMDb", "Average"]
    assert set(table.values["dataset"]) == {"sst2", "imdb", "average"}
    assert "Left out: WikiBio, because none." in table.notes
    assert "No sample failed." in table.notes
    assert "Samples per dataset: SST2 3, IMDb 3." in table.notes


def test_failed_samples_of_a_ranking_are_counted_and_left_out():
    failed = {("mine", "imdb", 0), *((method, "sst2", 2) for method in METHODS)}
    table = insertion_deletion_of(ranking_rows(RANKING, failed))
    cell = value_of(table, "insertion_auc", "imdb", "mine")
    assert (cell["value"], cell["n"], cell["n_failed"]) == (pytest.approx(0.105), 2, 1)
    assert value_of(table, "deletion_auc", "average", "mine")["n"] == 4
    notes = " ".join(table.notes)
    assert "SST2 (all methods): 1 nonfinite_logits" in notes
    assert "IMDb (Mine): 1 nonfinite_logits" in notes


ACCURACY = [
    {
        "model": "llama",
        "dataset": dataset,
        "n": 98,
        "n_failed": 2,
        "truncated": 1,
        "accuracy": accuracy,
        "greedy_is_label": accuracy,
        "mean_prompt_tokens": 41.25,
        "mean_output_tokens": 1.0,
    }
    for dataset, accuracy in (("sst2", 0.9375), ("imdb", None))
]


def test_accuracy_table_leaves_open_generation_empty():
    table = accuracy_table(
        pd.DataFrame(ACCURACY), models={"llama": "Llama", "gone": "Gone"}, datasets=DATASETS
    )
    (sst2, imdb), (gone, _) = (block.rows for block in table.blocks)
    expected = ["0.938", "0.938", "1", "41.2", "1.0", "98", "2"]
    assert [entry.text for entry in sst2.entries] == expected
    assert [entry.text for entry in imdb.entries] == [NOTHING, NOTHING, *expected[2:]]
    assert sst2.entries[0].interval == wilson_text(0.9375, 98)
    assert not any(entry.interval for entry in (*imdb.entries, *sst2.entries[2:]))
    assert {entry.text for entry in gone.entries} == {NOTHING}
    assert table.values.columns.tolist() == [
        "metric",
        "model",
        "dataset",
        "value",
        "low",
        "high",
        "n",
        "n_failed",
    ]


def wilson_text(share, n, z=1.959963984540054):
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return f"[{centre - half:.3f}, {centre + half:.3f}]".replace("0.", ".")


# Files ----------------------------------------------------------------------------------------


def written(table, folder):
    paths = [folder / f"table.{suffix}" for suffix in ("csv", "tex", "html")]
    write(table, *paths)
    return paths


def test_csv_holds_every_number_in_full_precision(tmp_path):
    rows = sample_rows({cell: mean / 3 for cell, mean in MEANS.items()})
    path, _, _ = written(auc_of(rows), tmp_path)
    lines = list(csv.DictReader(path.open(encoding="utf-8")))
    assert list(lines[0]) == [
        *("metric", "dataset", "method", "value", "low", "high", "standard_error"),
        *("n", "n_failed", "rank", "best", "p_value"),
    ]
    assert len(lines) == 2 * (2 + 1) * 3
    first = lines[0]
    assert (first["metric"], first["dataset"], first["method"]) == (
        "auc_pi_soft_ns",
        "sst2",
        "random",
    )
    values = [row["value"] for row in rows[:: len(SAMPLE_METRICS)]][:3]
    assert float(first["value"]) == pytest.approx(sum(values) / 3, rel=1e-15)
    assert [line["metric"] for line in lines] == ["auc_pi_soft_ns"] * 9 + ["auc_pi_soft_nc"] * 9


HOSTILE = (
    r"50% a_b & c#d $e ^~ {f} \g [h] * <script>alert('x')</script> | "
    "\N{MULTIPLICATION SIGN} \N{EN DASH} π"
)


def hostile_table():
    rows = (
        Row(HOSTILE, (Entry("1.000", 1), Entry(NOTHING))),
        Row(f"[{HOSTILE}", (Entry("2.000", 2), Entry("3.000", 3)), strong=True),
        Row("* star", (Entry("2.000"), Entry("3.000"))),
    )
    return Table(
        title=HOSTILE,
        corner=HOSTILE,
        columns=(HOSTILE, "B"),
        blocks=(Block(HOSTILE, rows), Block("[second]", rows)),
        notes=(HOSTILE, "second\n\nnote"),
        values=pd.DataFrame({"metric": [HOSTILE]}),
        spanner=HOSTILE,
    )


def test_latex_specials_are_escaped(tmp_path):
    _, path, _ = written(hostile_table(), tmp_path)
    text = path.read_text(encoding="utf-8")
    assert r"50\% a\_b \& c\#d \$e \textasciicircum{}\textasciitilde{} \{f\}" in text
    assert r"\textbackslash{}g {[}h{]} {*} \textless{}script\textgreater{}" in text
    assert r"$\times$ -- $\pi$" in text
    assert "second note" in text


def test_latex_marks_ranks_by_colour_and_number_ties_by_a_sign_and_shows_intervals(tmp_path):
    _, path, _ = written(auc_of(sample_rows(MEANS, samples=9)), tmp_path)
    text = path.read_text(encoding="utf-8")
    tie = r"$^{\approx}$"  # what is better on one dataset is worse on the other
    assert (
        rf"\textbf{{Avg}} & \textcolor{{green!60!black}}{{\textbf{{0.280}}}}$^{{3}}${tie} "
        rf"& \textcolor{{blue}}{{\textbf{{0.480}}}}$^{{2}}${tie} "
        r"& \textcolor{red}{\textbf{0.530}}$^{1}$ \\"
    ) in text
    assert text.count(r"{\tiny {[}.") == 2 * 3 * 3  # an interval below every number


def test_what_the_test_does_not_tell_apart_from_the_best_is_marked(tmp_path):
    near = sample_rows({("random", "sst2"): 0.1, ("mine", "sst2"): 0.5}, samples=9)
    third = sample_rows({("attention", "sst2"): 0.5}, samples=9)
    for row in third:  # as good as `mine` on average, better on some samples and worse on others
        if row["value"] is not None:
            row["value"] += -0.05 if int(row["sample_id"][1:]) % 2 else 0.039
    table = auc_of([*near, *third], datasets={"sst2": "SST2"})
    row = table.blocks[0].rows[0]
    assert [entry.tied for entry in row.entries] == [False, True, False]
    assert [entry.strong for entry in row.entries] == [False, False, True]
    _, latex, html = written(table, tmp_path)
    assert latex.read_text(encoding="utf-8").count(r"$^{\approx}$") == 4
    assert html.read_text(encoding="utf-8").count("<sup>≈</sup>") == 4


@needs_latex
@pytest.mark.parametrize(
    "make",
    [
        hostile_table,
        lambda: auc_of(sample_rows(MEANS)),
        lambda: auc_of(sample_rows(MEANS), clamp=False),
        lambda: soft_table(robust_table, sample_rows(MEANS)),
        lambda: soft_table(original_table, sample_rows(MEANS)),
        lambda: variances_of(sample_rows(MEANS)),
    ],
)
def test_latex_compiles_with_booktabs_and_xcolor_alone(tmp_path, make):
    assert_latex_compiles(make(), tmp_path)


class Page(HTMLParser):
    """Collects the elements of a page, their text, and whether every one is closed."""

    VOID = ("meta", "link", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.text = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_html_shows_a_hostile_label_as_text(tmp_path):
    _, _, path = written(hostile_table(), tmp_path)
    page = Page(path.read_text(encoding="utf-8"))
    assert not page.open
    assert "script" not in [tag for tag, _ in page.tags]
    assert page.text.count(HOSTILE) >= 6


def test_html_is_self_contained_and_marks_ranks_without_colour_too(tmp_path):
    _, _, path = written(auc_of(sample_rows(MEANS)), tmp_path)
    page = Page(path.read_text(encoding="utf-8"))
    assert not [tag for tag, found in page.tags if {"src", "href"} & set(found)]
    ranks = [found["class"] for tag, found in page.tags if tag == "td" and "class" in found]
    assert ranks == ["rank3", "rank2", "rank1"] * 2
    assert [tag for tag, _ in page.tags].count("sup") == 6 + 12  # ranks; of 3 samples, all tied
    assert page.text.count("≈") == 12


def test_tables_are_equal_bytes_every_time(tmp_path):
    first = [path.read_bytes() for path in written(auc_of(sample_rows(MEANS)), tmp_path)]
    assert first == [path.read_bytes() for path in written(auc_of(sample_rows(MEANS)), tmp_path)]


# Command line ---------------------------------------------------------------------------------


def tabulate(folder, kind, *arguments):
    settings = {"models": {"llama": "Llama"}, "datasets": DATASETS, "methods": METHODS}
    script = "tabulate_accuracy.py"
    if kind != "accuracy":
        settings |= {"clamp": True, "types": {"llama": "float32"}}
        script = "tabulate_soft.py"
        arguments = ("--kind", kind, "--protocol", "dynamic", "--model", "llama", *arguments)
    outputs = [part for s in ("csv", "tex", "html") for part in (f"--{s}", folder / f"t.{s}")]
    return subprocess.run(
        [
            *(sys.executable, str(SCRIPTS / script), "--settings", json.dumps(settings)),
            *map(str, [*arguments, *outputs]),
        ],
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        capture_output=True,
        text=True,
    )


def curve_rows():
    cell = {"protocol": "dynamic", "model": "llama", "method": "random", "dataset": "sst2"}
    numbers = {"metric": "pi_soft_ns", "mean": 0.5, "standard_error": None, "n": 1, "n_failed": 0}
    return [cell | numbers | {"pi": pi} for pi in GRID]


@pytest.mark.parametrize("kind", ["auc", "robust", "original", "variance", "accuracy"])
def test_the_script_writes_every_kind(tmp_path, kind):
    uncertainty = estimated(sample_rows(MEANS))
    for name in ("statistics", "variances"):
        schema = SCHEMAS[name]
        rows = getattr(uncertainty, name)[schema.names]
        table = pa.Table.from_pandas(rows, schema=schema, preserve_index=False)
        write_table(tmp_path / f"{name}.parquet", name, table, {})
    write_rows(tmp_path / "samples.parquet", "soft_samples", sample_rows(MEANS), {})
    write_rows(tmp_path / "curves.parquet", "soft_curves", curve_rows(), {})
    write_rows(tmp_path / "accuracy.parquet", "accuracy", ACCURACY, {})
    inputs = {
        "auc": ("statistics", "samples", "curves"),
        "robust": ("statistics", "samples"),
        "original": ("statistics", "samples"),
        "variance": ("variances",),
        "accuracy": ("accuracy",),
    }[kind]
    files = [part for name in inputs for part in (f"--{name}", tmp_path / f"{name}.parquet")]
    result = tabulate(tmp_path, kind, *files)
    assert result.returncode == 0, result.stderr
    assert all((tmp_path / f"t.{suffix}").stat().st_size for suffix in ("csv", "tex", "html"))


def test_the_script_names_a_missing_argument(tmp_path):
    result = tabulate(tmp_path, "auc")
    assert result.returncode == 1
    assert result.stderr == "error: --kind auc needs --statistics, --samples, --curves\n"


def test_the_script_writes_insertion_and_deletion(tmp_path):
    rows = [*ranking_rows(RANKING), *left_out_rows()]
    rows += [{**row, "model": "mistral", "value": 0.0} for row in ranking_rows(RANKING)]
    write_rows(tmp_path / "samples.parquet", "ranking_samples", rows, {})
    datasets = {**DATASETS, "wikibio": "WikiBio"}
    settings = DisplaySlice(models={"llama": "Llama"}, datasets=datasets, methods=METHODS)
    outputs = {suffix: tmp_path / f"t.{suffix}" for suffix in ("csv", "tex", "html")}
    found = estimated(rows, "ranking_samples").statistics[SCHEMAS["statistics"].names]
    table = pa.Table.from_pandas(found, schema=SCHEMAS["statistics"], preserve_index=False)
    write_table(tmp_path / "statistics.parquet", "statistics", table, {})
    tabulate_insertion_deletion.main(
        argparse.Namespace(
            settings=settings.to_json(), samples=tmp_path / "samples.parquet", model="llama",
            statistics=tmp_path / "statistics.parquet",
            **outputs,
        )
    )  # fmt: skip
    lines = list(csv.DictReader(outputs["csv"].open(encoding="utf-8")))
    values = {(line["metric"], line["dataset"], line["method"]): line["value"] for line in lines}
    assert float(values["insertion_auc", "average", "mine"]) == pytest.approx(0.15)
    assert "Left out: WikiBio, because none." in outputs["html"].read_text(encoding="utf-8")
