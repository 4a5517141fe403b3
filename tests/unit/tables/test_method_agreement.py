"""The table of how far methods agree."""

import pandas as pd

from agreeing import DATASETS, METHODS, SETTINGS, VALUES, agreement_files, agreement_of
from pisoft.tables.method_agreement import method_agreement_table
from pisoft.units import NOTHING
from rooms import tabulate
from typesetting import assert_latex_fits, needs_latex


def table_of(values=VALUES, methods=METHODS):
    rows = agreement_of(values)
    return method_agreement_table(rows, where="Llama", methods=methods, datasets=DATASETS)


def test_table_is_symmetric_and_says_what_was_left_out():
    table = table_of()
    texts = [[entry.text for entry in row.entries] for row in table.blocks[0].rows]
    assert texts == [["", ".40", NOTHING], [".40", "", ".75"], [NOTHING, ".75", ""]]
    texts = [[entry.text for entry in row.entries] for row in table.blocks[1].rows]
    assert texts == [["", ".15", NOTHING], [".15", "", ".85"], [NOTHING, ".85", ""]]
    assert table.columns == ("1", "2", "3")
    labels = [row.label for row in table.blocks[0].rows]
    assert labels == ["1 Random", "2 Attention", "3 $ Mine_{ <b>"]
    assert "Samples per dataset: SST2 10, IMDb 10." in table.notes
    assert "Samples without such a step, of the pair with most: IMDb 10." in table.notes
    assert len(table.values) == 3 * 2 * 3


def test_a_single_method_makes_a_table():
    table = table_of({}, {"random": "Random"})
    assert [entry.text for entry in table.blocks[0].rows[0].entries] == [""]
    assert "No two methods to compare." in table.notes


def test_the_table_script_writes_the_csv_of_all_datasets(tmp_path):
    files = {"agreement": agreement_files(tmp_path)}
    made = tabulate("method_agreement", SETTINGS, files, tmp_path, model="llama")
    found = pd.read_csv(made["csv"]).set_index(["dataset", "method", "other"])
    tau = found[found["statistic"] == "kendall_tau"]["value"]
    assert tau["imdb", "attention", "mine"] == 0.5
    assert tau["average", "attention", "mine"] == 0.75
    assert "&lt;b&gt;" in made["html"].read_text()
    assert r"\$ Mine\_\{" in made["tex"].read_text()


@needs_latex
def test_the_latex_table_fits_a_column_or_both(tmp_path):
    assert_latex_fits(table_of(), tmp_path)


def test_a_model_whose_samples_all_failed_makes_a_table():
    table = table_of(dict.fromkeys(VALUES, (None, None)))
    assert {entry.text for row in table.blocks[0].rows for entry in row.entries} == {"", NOTHING}
