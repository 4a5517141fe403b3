"""The table of the layer study."""

import pytest

from helpers.layer_study_samples import (
    DISAGREEING,
    TOO_SMALL,
    study_rows,
    study_view,
    with_small_part,
    without_number_of_layers,
)
from pisoft.formatting import NOTHING
from pisoft.tables.layer_study import table


def table_of(rows):
    return table(study_view(rows))


def test_the_table_has_a_line_per_dataset_and_weighting_in_each_metric_s_block():
    names = [(weights, d) for d in ("imdb", "sst2") for weights in ("loosened", "original")]
    rows = [
        row for weights, d in names for row in study_rows(DISAGREEING, weights=weights, dataset=d)
    ]
    made = table_of(rows)
    assert [block.title for block in made.blocks] == ["AUC π-Soft-NS ↑", "AUC π-Soft-NC ↑"]
    lines = dict(zip(made.columns, made.blocks[0].rows[0].entries, strict=True))
    for block in made.blocks:
        assert [row.label for row in block.rows] == [
            f"{dataset}, Grad-ELLM{weights}"
            for dataset in ("SST2", "IMDb")
            for weights in ("", " (original)")
        ]
    assert {column: entry.text for column, entry in lines.items()} == {
        "Depth 1": "0.200",
        "Depth 2": "0.600",
        "Depth 4": "0.900",
        "Selected depth": "1",
        "Selected": "0.200 ± 0.058",
        "Fixed depth 2": "0.600 ± 0.058",
        "Leaky depth": "4",
        "Leaky": "0.580",
    }
    assert made.notes[-2:] == (
        "Samples, development + rest: SST2 2 + 3, IMDb 2 + 3.",
        "No sample failed.",
    )


def test_all_layers_of_an_unknown_number_stand_in_the_heading():
    made = table_of(without_number_of_layers())
    assert made.columns[:5] == ("Depth 1", "Depth 2", "Selected depth", "Selected",
                                "Fixed depth all")  # fmt: skip
    assert made.blocks[0].rows[0].entries[4].text == "0.900 ± 0.058"


@pytest.mark.parametrize(("part", "kept"), TOO_SMALL)
def test_too_small_a_part_has_no_value_and_a_reason(part, kept):
    made = table_of(with_small_part(part, kept))
    lines = [row for block in made.blocks for row in block.rows]
    assert {entry.text for line in lines for entry in line.entries} == {NOTHING}
    sizes = {"development": 2, "rest": 3, part: kept}
    note = f"No value for SST2, Grad-ELLM: {sizes['development']} development samples and "
    assert made.notes[-1].startswith(note + f"{sizes['rest']} others could be evaluated")


def test_failures_are_counted_by_reason():
    parts = {"development": [1.0] * 3, "rest": [1.0, 1.0, None]}
    made = table_of(study_rows({1: parts, 2: parts}))
    assert made.notes[-2:] == (
        "Samples, development + rest: SST2 3 + 3.",
        "Samples that failed at some depth, left out at every depth: "
        "SST2, Grad-ELLM: 1 nonfinite_attribution.",
    )
