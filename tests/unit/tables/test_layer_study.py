"""The table of the layer study."""

import pandas as pd
import pytest

from pisoft.statistics.layer_study import METRICS
from pisoft.tables.layer_study import layer_study_table
from pisoft.units import NOTHING
from studying import (
    DATASETS,
    DISAGREEING,
    TOO_SMALL,
    WHERE,
    study_rows,
    with_small_part,
    without_number_of_layers,
)
from typesetting import assert_latex_fits, needs_latex


def table_of(rows):
    return layer_study_table(pd.DataFrame(rows), where=WHERE, datasets=DATASETS)


def test_the_table_has_a_row_per_dataset_and_weighting_in_each_metric_s_block():
    rows = study_rows(DISAGREEING, weights="original") + study_rows(DISAGREEING)
    rows += study_rows(DISAGREEING, dataset="imdb") + study_rows(
        DISAGREEING, dataset="imdb", weights="original"
    )
    datasets = {"imdb": "IMDb", "sst2": "SST2"}
    table = layer_study_table(pd.DataFrame(rows), where=WHERE, datasets=datasets)
    assert [block.title for block in table.blocks] == list(METRICS.values())
    for block in table.blocks:
        assert [row.label for row in block.rows] == [
            "IMDb, Grad-ELLM",
            "IMDb, Grad-ELLM (original)",
            "SST2, Grad-ELLM (original)",
            "SST2, Grad-ELLM",
        ]
        assert [entry.text for entry in block.rows[0].entries] == [
            "0.200",
            "0.600",
            "0.900",
            "1",
            "0.200 ± 0.058",
            "0.600 ± 0.058",
            "4",
            "0.580",
        ]
    assert table.columns == (
        "Depth 1",
        "Depth 2",
        "Depth 4",
        "Selected depth",
        "Selected",
        "Fixed depth 2",
        "Leaky depth",
        "Leaky",
    )
    assert "Samples, development + rest: IMDb 2 + 3, SST2 2 + 3." in table.notes
    assert "No sample failed." in table.notes


def test_all_layers_of_an_unknown_number_stand_in_the_heading():
    table = table_of(without_number_of_layers())
    assert table.columns[:5] == ("Depth 1", "Depth 2", "Selected depth", "Selected",
                                 "Fixed depth all")  # fmt: skip


@pytest.mark.parametrize(("part", "kept"), TOO_SMALL)
def test_too_small_a_part_has_no_value_and_a_reason(part, kept):
    table = table_of(with_small_part(part, kept))
    lines = [row for block in table.blocks for row in block.rows]
    assert {entry.text for line in lines for entry in line.entries} == {NOTHING}
    sizes = {"development": 2, "rest": 3, part: kept}
    note = f"No value for SST2, Grad-ELLM: {sizes['development']} development samples and "
    assert table.notes[-1].startswith(note + f"{sizes['rest']} others could be evaluated")


def test_failures_are_counted_by_reason():
    values = {1: {"development": [1.0] * 3, "rest": [1.0, 1.0, None]},
              2: {"development": [1.0] * 3, "rest": [1.0, 1.0, None]}}  # fmt: skip
    table = table_of(study_rows(values))
    assert (
        "Samples that failed at some depth, left out at every depth: "
        "SST2, Grad-ELLM: 1 nonfinite_attribution."
    ) in table.notes


@needs_latex
def test_the_latex_table_fits_a_column_or_both(tmp_path):
    assert_latex_fits(table_of(study_rows(DISAGREEING)), tmp_path)
