"""The table of how far metrics agree."""

import pandas as pd

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
from pisoft.tables.metric_agreement import metric_agreement_table
from pisoft.units import NOTHING
from rooms import tabulate
from typesetting import assert_latex_fits, needs_latex
from uncertainty import frame


def test_a_model_without_any_value_makes_a_table():
    rows = frame(metric_rows({NS: [None, None]}))
    table = metric_agreement_table(rows, where="Llama", datasets=DATASETS)
    assert {e.text for row in table.blocks[0].rows for e in row.entries} == {"", NOTHING}


def test_table_is_symmetric_numbered_and_names_what_is_left_out():
    table = metric_agreement_table(frame(METRIC_ROWS), where="Llama", datasets=DATASETS)
    assert table.columns == ("1", "2", "3", "4")
    assert [row.label for row in table.blocks[0].rows] == [
        "1 π-Soft-NS · dynamic", "2 π-Soft-NC · dynamic", "3 Soft-NS · dynamic", "4 Insertion",
    ]  # fmt: skip
    first, _, _, last = table.blocks[0].rows
    assert [entry.text for entry in first.entries] == ["", "1.00", NOTHING, "−1.00"]
    assert [entry.text for entry in last.entries] == ["−1.00", "−1.00", NOTHING, ""]
    (left_out,) = (note for note in table.notes if note.startswith("Left out, no value: "))
    assert left_out.endswith("; Infidelity · dynamic; Deletion.")
    assert any("Methods in an order: 3." in note for note in table.notes)


def test_the_script_reads_one_model_of_the_file(tmp_path):
    files = write_metrics(tmp_path / "statistics.parquet")
    made = tabulate("metric_agreement", METRIC_SETTINGS, files, tmp_path, model="llama")
    found = pd.read_csv(made["csv"])
    assert len(found) == 3 * 6  # average and two datasets, pairs of four metrics
    average = found[found["dataset"] == "average"].set_index(["metric", "other"])["kendall_tau"]
    assert average[NS, NC] == 1
    assert average[NS, INSERTION] == -1
    assert all(path.stat().st_size for path in made.values())


@needs_latex
def test_the_latex_table_fits_a_column_or_both(tmp_path):
    assert_latex_fits(
        metric_agreement_table(frame(METRIC_ROWS), where="Llama", datasets=DATASETS), tmp_path
    )
