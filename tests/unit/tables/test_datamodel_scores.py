"""The table of datamodel scores: directions, failures, protocols."""

from helpers.soft_tables import CELL, DATASETS, table_of
from pisoft.statistics.metrics import DATAMODEL_METRICS
from pisoft.tables import datamodel_scores

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
    assert table.columns == ("Rank", "SST2", "IMDb", "Average")
    for block in table.blocks[:-1]:
        assert [row.label for row in block.rows] == ["Mine", "Attention", "Random"]
    assert table.blocks[-1].title == "Infidelity ↓"
    assert [row.label for row in table.blocks[-1].rows] == ["Random", "Attention", "Mine"]
    for block in table.blocks:
        assert block.rows[0].entries[-1].strong
        assert block.rows[0].entries[-1].interval is not None
