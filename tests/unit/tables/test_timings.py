"""The table of times and memory of attribution."""

import csv

import pandas as pd

from pisoft.tables.timings import timings_table
from pisoft.units import NOTHING
from soft_tables import DATASETS, METHODS, written

MODELS = {"llama": "Llama", "mistral": "Mistral"}
SECONDS = {
    ("llama", "random", "sst2"): 0.0000213,
    ("llama", "attention", "sst2"): 0.3104,
    ("llama", "mine", "sst2"): 45.2,
    ("mistral", "random", "sst2"): 0.0000213,
    ("mistral", "attention", "sst2"): 1234.5,
    ("mistral", "mine", "sst2"): 9.996,
    ("llama", "random", "imdb"): 0.00003,
    ("llama", "attention", "imdb"): 0.50001,
    ("llama", "mine", "imdb"): 0.5,
    ("mistral", "random", "imdb"): None,
    ("mistral", "attention", "imdb"): 0.25,
    ("mistral", "mine", "imdb"): 0.25,
}


def timings(seconds=SECONDS, **changes):
    rows = [
        {
            "model": model,
            "method": method,
            "dataset": dataset,
            "n": 0 if value is None else 24,
            "n_failed": 24 if value is None else 0,
            "seconds_per_sample": value,
            "median_seconds": value,
            "mean_prompt_tokens": 30.0,
            "peak_memory_mb": 812.4 if model == "llama" else 16_000.0,
            "peak_device_memory_mb": None,
            "device": "cpu",
        }
        | changes
        for (model, method, dataset), value in seconds.items()
    ]
    return pd.DataFrame(rows)


def table_of(rows, controls=("random",), methods=METHODS, imported=()):
    return timings_table(
        rows,
        models=MODELS,
        methods=methods,
        datasets=DATASETS,
        controls=controls,
        imported=imported,
    )


def texts(table, block):
    return [[entry.text for entry in row.entries] for row in table.blocks[block].rows]


def strong(table, block):
    return [[entry.strong for entry in row.entries[::2]] for row in table.blocks[block].rows]


def test_methods_are_rows_models_columns_and_datasets_blocks():
    table = table_of(timings())
    assert table.spanners == (("Llama", 2), ("Mistral", 2))
    assert table.columns == ("ms ↓", "MB", "ms ↓", "MB")
    assert [block.title for block in table.blocks] == ["SST2", "IMDb"]
    assert [row.label for row in table.blocks[0].rows] == ["Random", "Attention", "Mine"]
    assert texts(table, 0) == [
        ["0.021", "812", "0.021", "16000"],
        ["310", "812", "1200000", "16000"],
        ["45000", "812", "10000", "16000"],
    ]
    assert texts(table, 1)[0] == ["0.030", "812", NOTHING, "16000"]


def test_a_selection_among_depths_has_no_row_and_a_note_says_so():
    chosen = {**METHODS, "grad_ellm_selected": "Grad-ELLM (depth selected)"}
    table = table_of(timings(), methods=chosen)
    assert [row.label for row in table.blocks[0].rows] == list(METHODS.values())
    note = "Without a row, as a selection has no time of its own: Grad-ELLM (depth selected)."
    assert note in table.notes
    assert not any("Without a row" in text for text in table_of(timings()).notes)


def test_scores_made_elsewhere_have_no_row_and_a_note_says_so():
    """Also if they bear the label of a method that has one, and are the only baseline."""
    chosen = {**METHODS, "given": "Mine"}
    table = table_of(timings(), methods=chosen, imported=("given",), controls=("given",))
    assert [row.label for row in table.blocks[0].rows] == list(METHODS.values())
    assert "Without a row, as these scores were made elsewhere: Mine." in table.notes
    assert "excepted" not in " ".join(table.notes)


def test_the_fastest_method_of_a_column_is_bold_before_rounding_and_ties_share_it():
    table = table_of(timings())
    assert strong(table, 0) == [[False, False], [True, False], [False, True]]
    assert strong(table, 1) == [[False, False], [False, True], [True, True]]
    assert "Random excepted" in table.notes[0]


def test_times_have_two_significant_digits_and_no_spread():
    seconds = dict.fromkeys(SECONDS, 0.0) | {
        ("llama", "mine", "sst2"): 0.00996,
        ("mistral", "mine", "sst2"): 0.0996,
    }
    rows = table_of(timings(seconds)).blocks[0].rows
    assert [entry.text for entry in rows[2].entries[::2]] == ["10", "100"]
    assert rows[0].entries[0].text == "0.0"
    assert {entry.interval for row in rows for entry in row.entries} == {None}


def test_without_a_control_every_method_can_be_the_fastest():
    table = table_of(timings(), controls=())
    assert strong(table, 0) == [[True, True], [False, False], [False, False]]
    assert "excepted" not in table.notes[0]


def test_memory_is_the_devices_where_there_is_one():
    table = table_of(timings(peak_device_memory_mb=77.7, device="NVIDIA X"))
    assert texts(table, 0)[0][1::2] == ["78", "78"]
    assert "on the device" in table.notes[1]
    assert "resident" not in table.notes[1]
    assert "Measured on: NVIDIA X." in table.notes[2]
    assert "resident" in table_of(timings()).notes[1]


def test_failed_samples_are_counted_below_the_table():
    notes = " ".join(table_of(timings()).notes)
    assert "Samples per dataset: SST2 24, IMDb 24." in notes
    assert "Failed samples, left out of the means: IMDb (Mistral, Random): 24." in notes
    whole = dict.fromkeys(SECONDS, 1.0)
    assert "No sample failed." in table_of(timings(whole)).notes


def test_a_missing_cell_is_a_dash_and_not_in_the_csv(tmp_path):
    rows = timings({cell: s for cell, s in SECONDS.items() if cell[:2] != ("mistral", "mine")})
    table = table_of(rows)
    assert texts(table, 0)[2] == ["45000", "812", NOTHING, NOTHING]
    path, _, _ = written(table, tmp_path)
    lines = list(csv.DictReader(path.open(encoding="utf-8")))
    assert len(lines) == len(rows)
    assert {line["n"] for line in lines} == {"24", "0"}


def test_bold_reaches_both_layouts_and_full_precision_the_csv(tmp_path):
    path, latex, html = written(table_of(timings()), tmp_path)
    assert r"Attention & \textbf{310} & 812 & 1200000 & 16000 \\" in latex.read_text()
    assert "<td><b>310</b></td><td>812</td><td>1200000</td>" in html.read_text()
    lines = list(csv.DictReader(path.open(encoding="utf-8")))
    found = {(row["model"], row["method"], row["dataset"]): row for row in lines}
    assert float(found["llama", "attention", "imdb"]["seconds_per_sample"]) == 0.50001
    assert float(found["mistral", "mine", "sst2"]["peak_memory_mb"]) == 16_000
    assert found["mistral", "mine", "sst2"]["peak_device_memory_mb"] == ""
