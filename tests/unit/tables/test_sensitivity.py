"""The table of orders with a choice made otherwise."""

import pandas as pd

from pisoft.contracts import write_rows
from pisoft.tables.sensitivity import sensitivity_table
from pisoft.units import MINUS, NOTHING
from rooms import tabulate
from sensitive import CELL, DATASETS, METHODS, SETTINGS, WHY, frame, sensitivity_rows
from typesetting import assert_latex_fits, needs_latex


def table_of(rows, datasets=DATASETS):
    return sensitivity_table(frame(rows), where="Llama", methods=METHODS, datasets=datasets)


def test_a_row_has_its_tau_by_dataset_and_whether_another_method_is_best():
    table = table_of(sensitivity_rows())
    assert table.columns == ("SST2", "IMDb", "Avg", "Another is best", "Largest change of rank")
    (ns, nc) = table.blocks
    texts = {row.label: [entry.text for entry in row.entries] for row in ns.rows}
    assert texts == {
        "H² in place of H": [*["1.00"] * 3, "no", "0"],
        "Not clamped": [*[f"{MINUS}0.50"] * 3, "Random, Saliency", "1.5"],
        "Median over samples": [*["0.25"] * 3, "Saliency", "2"],
        "A single draw": [NOTHING] * 5,
        "Half of the samples": [*["0.62"] * 3, "in 15 %", "1.25"],
    }
    assert [row.label for row in nc.rows] == [
        row.label for row in ns.rows if "clamp" not in row.label
    ]
    assert ns.rows[0].entries[0].interval == "[.75, 1.00]"


def test_notes_say_what_has_no_number_and_how_many_samples_and_methods_there_are():
    notes = table_of(sensitivity_rows()).notes
    assert f"No number: A single draw ({WHY})." in notes
    assert any("of Avg. Methods in an order: 3." in note for note in notes)
    assert "SST2 18 (at most 2 failed)" in notes[-1]


def test_a_run_of_one_dataset_shows_no_average():
    table = table_of(sensitivity_rows(), {"sst2": "SST2"})
    assert table.columns == ("SST2", "Another is best", "Largest change of rank")


def test_the_table_script_reads_one_cell_of_the_file(tmp_path):
    path = tmp_path / "sensitivity.parquet"
    fixed = [{**row, "protocol": "fixed"} for row in sensitivity_rows()]
    write_rows(path, "sensitivity", fixed + sensitivity_rows(), {})
    made = tabulate("sensitivity", SETTINGS, {"sensitivity": path}, tmp_path, **CELL)
    found = pd.read_csv(made["csv"])
    assert len(found) == len(sensitivity_rows())
    assert {"kendall_tau", "low", "high", "n_methods", "n", "n_failed"} <= set(found.columns)


@needs_latex
def test_the_latex_table_fits_a_column_or_both(tmp_path):
    assert_latex_fits(table_of(sensitivity_rows()), tmp_path)
