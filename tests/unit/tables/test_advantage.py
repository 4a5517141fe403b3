"""The table of advantages: numbers, verdicts, spans of π, and the lack of random scores."""

import itertools

import pandas as pd
import pytest

from helpers.views import view_of
from pisoft.formatting import NOTHING
from pisoft.statistics.metrics import CURVE_METRICS, NO_CONTROL
from pisoft.tables.advantage import HALVES, spans_above_zero, table

METHODS = {"random": "Random", "late": "Late", "both": "Both", "none": "None", "mine": "$ M_{"}
DATASETS = {"sst2": "SST2", "imdb": "IMDb"}
CELL = {"protocol": "dynamic", "model": "llama"}
VALUES = {  # lower, upper and their difference, with their p-values
    "late": ((0.01, 0.6), (0.2, 0.01), (0.19, 0.02)),
    "both": ((0.3, 0.01), (0.1, 0.04), (-0.2, 0.04)),
    "none": ((-0.3, 0.001), (0.1, 0.05), (0.4, 0.3)),
    "mine": ((None, None),) * 3,
}
LOWS = {"late": (-0.1, 0.1, 0.2), "both": (0.1, 0.1, 0.0), "none": (0.1, -0.1, 0.1)}


def rows_of():
    rows = []
    for metric, method, dataset in itertools.product(CURVE_METRICS, VALUES, ("average", *DATASETS)):
        keys = {**CELL, "metric": metric, "method": method, "dataset": dataset}
        keys |= {"n": 20 * (method != "mine"), "n_failed": 20 * (method == "mine")}
        for part, (value, p_value) in zip(HALVES, VALUES[method], strict=True):
            ends = {"low": value and value - 0.05, "high": value and value + 0.05}
            rows.append({**keys, "part": part, "value": value, **ends, "p_adjusted": p_value})
        for pi, low in zip((0.1, 0.5, 0.9), LOWS.get(method, (None,) * 3), strict=True):
            at = {"part": "at", "position": pi}
            rows.append({**keys, **at, "value": low, "low": low, "high": low})
    return rows


def table_of(rows, clamp="draw"):
    settings = {"models": {"llama": "Llama"}, "datasets": DATASETS, "methods": METHODS}
    return table(view_of({**settings, "clamp": clamp}, CELL, advantage=rows))


def test_numbers_p_values_spans_and_verdicts():
    block = table_of(rows_of()).blocks[1]
    texts = {row.label: [entry.text for entry in row.entries] for row in block.rows}
    assert texts == {
        "Late": ["0.010", "0.600", "0.200", "0.010", "0.190", "0.020", "0.5 to 0.9",
                 "for π > 0.5"],
        "Both": ["0.300", "0.010", "0.100", "0.040", "−0.200", "0.040", "0.1 to 0.5",
                 "in both halves"],
        "None": ["−0.300", "0.001", "0.100", "0.050", "0.400", "0.300", "0.1, 0.9",
                 "in neither half"],
        "$ M_{": [*[NOTHING] * 7, "no value"],
    }  # fmt: skip
    assert [row.label for row in block.rows] == ["Both", "Late", "None", "$ M_{"]
    assert block.rows[0].entries[2].interval == "[.050, .150]"


def test_notes_say_for_how_many_methods_the_claim_holds_and_whether_the_clamp_applies():
    notes = table_of(rows_of()).notes
    assert notes[0] == (
        "π-Soft-NS ↑: methods better than random scores in both halves: 1; for π > 0.5: 1; in "
        "neither half: 1; no value: 1. The advantage is larger for π > 0.5: 1; smaller "
        "for π > 0.5: 1."
    )
    assert "Samples per dataset: SST2 0 to 20, by method (at most 20 failed)" in notes[-1]
    assert any(note.startswith("Soft-NS is clamped at 0") for note in notes)
    free = table_of(rows_of(), clamp="none").notes
    assert any(note.startswith("Soft-NS is not clamped at 0") for note in free)


@pytest.mark.parametrize(
    ("lows", "text"),
    [((1, 1, 1), "0.1 to 0.9"), ((0, 0, 0), NOTHING), ((1, 0, 1), "0.1, 0.9"), ((0, 1, 0), "0.5")],
)
def test_spans_of_intervals_above_zero(lows, text):
    assert spans_above_zero(pd.DataFrame({"position": [0.1, 0.5, 0.9], "low": lows})) == text


def test_a_grid_on_one_side_of_the_middle_has_no_halves():
    rows = [row for row in rows_of() if row["part"] == "at"]
    late = table_of(rows).blocks[0].rows[0]
    assert [entry.text for entry in late.entries] == [*[NOTHING] * 6, "0.5 to 0.9", "no value"]


def test_without_random_scores_the_table_says_so_in_one_line():
    made = table_of([])
    assert made.notes == (NO_CONTROL,)
    assert not made.blocks
    assert made.values.empty
