"""The table of orders with one choice changed."""

from helpers.sensitivity_results import WHY, view
from pisoft.formatting import MINUS, NOTHING
from pisoft.tables.sensitivity import table


def test_a_row_has_its_tau_by_dataset_and_whether_another_method_is_best(tmp_path):
    made = table(view(tmp_path))
    assert made.columns == ("SST2", "IMDb", "Average", "Another is best", "Largest change of rank")
    (ns, nc) = made.blocks
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


def test_notes_say_what_has_no_number_and_how_many_samples_and_methods_there_are(tmp_path):
    notes = table(view(tmp_path)).notes
    assert f"No number: A single draw ({WHY})." in notes
    assert "The last two columns are of Average. Methods in an order: 3." in notes
    assert "SST2 18 (at most 2 failed)" in notes[-1]
    assert (
        "The last two columns are of Average. Methods in an order: 0."
        in table(view(tmp_path, "none has a value")).notes
    )
