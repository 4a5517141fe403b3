"""The table of datamodel scores: directions, failures, protocols."""

import pytest

from pisoft.statistics.metrics import DATAMODEL_METRICS
from pisoft.tables import datamodel_scores
from soft_tables import CELL, DATASETS, table_of, value_of

MEANS = {"random": 0.1, "attention": 0.4, "mine": 0.9}


def rows_of(failed=(), protocol="dynamic"):
    """Rows of `datamodel_samples` of three samples of each dataset."""
    return [
        {
            "protocol": protocol, "model": "llama", "method": method, "dataset": dataset,
            "sample_id": f"s{number}", "metric": metric,
            "value": None if (method, number, metric) in failed else mean,
            "status": "constant_scores" if (method, number, metric) in failed else "ok",
        }
        for method, mean in MEANS.items()
        for dataset in DATASETS
        for number in range(3)
        for metric in DATAMODEL_METRICS
    ]  # fmt: skip


def datamodel_of(rows, cell=CELL):
    return table_of(datamodel_scores, rows, "datamodel_samples", cell)


def test_the_highest_is_best_but_for_infidelity():
    table = datamodel_of(rows_of())
    assert table.columns == ("Rank", "SST2", "IMDb", "Avg")
    for block in table.blocks[:-1]:
        assert [row.label for row in block.rows] == ["Mine", "Attention", "Random"]
    assert table.blocks[-1].title == "Infidelity ↓"
    assert [row.label for row in table.blocks[-1].rows] == ["Random", "Attention", "Mine"]
    for block in table.blocks:
        assert block.rows[0].entries[-1].strong
        assert block.rows[0].entries[-1].interval is not None


def test_a_number_that_is_undefined_is_counted_and_the_others_are_kept():
    table = datamodel_of(rows_of(failed={("mine", 0, "lds_given_count")}))
    cell = value_of(table, "lds_given_count", "sst2", "mine")
    assert (cell["value"], cell["n"], cell["n_failed"]) == (pytest.approx(0.9), 2, 1)
    other = value_of(table, "lds", "sst2", "mine")
    assert (other["n"], other["n_failed"]) == (3, 0)
    assert "SST2 (Mine): 1 constant_scores" in " ".join(table.notes)


def test_a_table_is_of_one_protocol():
    fixed = [{**row, "value": row["value"] / 2} for row in rows_of(protocol="fixed")]
    table = datamodel_of(rows_of() + fixed, {**CELL, "protocol": "fixed"})
    assert value_of(table, "lds", "average", "mine")["value"] == pytest.approx(0.45)
    assert len(table.values) == len(DATAMODEL_METRICS) * (len(DATASETS) + 1) * len(MEANS)
