"""The table of stored draws: directions, failures, protocols, and what its notes say."""

import csv

import pandas as pd
import pytest

from estimating import estimated
from pisoft.contracts import write_rows
from pisoft.tables.datamodel_scores import SHOWN, STRICTEST, stored_draws_table
from rooms import display_settings, tabulate, write_frame
from soft_tables import DATASETS, FAMILIES, METHODS, value_of

MEANS = {"random": 0.1, "attention": 0.4, "mine": 0.9}


def stored_rows(means=MEANS, failed=(), protocol="dynamic"):
    """Rows of `datamodel_samples` of three samples of each dataset."""
    return [
        {
            "protocol": protocol, "model": "llama", "method": method, "dataset": dataset,
            "sample_id": f"s{number}", "metric": metric,
            "value": None if (method, number, metric) in failed else means[method],
            "status": "constant_scores" if (method, number, metric) in failed else "ok",
        }
        for method in means
        for dataset in DATASETS
        for number in range(3)
        for metric in SHOWN
    ]  # fmt: skip


def table_of(rows):
    frame = pd.DataFrame(rows)
    names = {"methods": METHODS, "families": FAMILIES, "datasets": DATASETS}
    samples = frame[frame["metric"] == STRICTEST]
    statistics = estimated(rows, "datamodel_samples").statistics
    return stored_draws_table(statistics, samples, where="Llama", **names)


def test_the_highest_is_best_but_for_infidelity():
    table = table_of(stored_rows())
    assert table.columns == ("Rank", "SST2", "IMDb", "Avg")
    assert [block.title for block in table.blocks] == [
        "LDS given count ↑", "LDS ↑", "Faithfulness correlation ↑", "Infidelity ↓",
    ]  # fmt: skip
    for block in table.blocks[:-1]:
        assert [row.label for row in block.rows] == ["Mine", "Attention", "Random"]
    assert [row.label for row in table.blocks[-1].rows] == ["Random", "Attention", "Mine"]
    for block in table.blocks:
        assert block.rows[0].entries[-1].strong
        assert block.rows[0].entries[-1].interval is not None


def test_a_number_that_is_undefined_is_counted_and_the_others_are_kept():
    table = table_of(stored_rows(failed={("mine", 0, STRICTEST)}))
    cell = value_of(table, STRICTEST, "sst2", "mine")
    assert (cell["value"], cell["n"], cell["n_failed"]) == (pytest.approx(0.9), 2, 1)
    other = value_of(table, "lds", "sst2", "mine")
    assert (other["n"], other["n_failed"]) == (3, 0)
    assert "SST2 (Mine): 1 constant_scores" in " ".join(table.notes)


def test_methods_are_compared_as_by_any_metric():
    statistics = estimated(stored_rows(), "datamodel_samples").statistics
    found = statistics.set_index(["metric", "dataset", "method"])
    assert found.loc["infidelity"].loc["average"].loc["random"]["rank"] == 1
    assert found.loc[STRICTEST].loc["average"].loc["mine"]["rank"] == 1
    assert found.loc[STRICTEST].loc["average"].loc["random"]["p_value"] > 0


def test_the_script_writes_the_table_of_a_protocol_and_model(tmp_path):
    other = {name: value / 2 for name, value in MEANS.items()}
    rows = stored_rows() + stored_rows(other, protocol="fixed")
    files = {kind: tmp_path / f"{kind}.parquet" for kind in ("datamodel_samples", "statistics")}
    write_rows(files["datamodel_samples"], "datamodel_samples", rows, {})
    write_frame(files["statistics"], "statistics", estimated(rows, "datamodel_samples").statistics)
    settings = display_settings(
        families=FAMILIES, models={"llama": "Llama"}, datasets=DATASETS, methods=METHODS
    )
    cell = {"protocol": "fixed", "model": "llama"}
    made = tabulate("datamodel_scores", settings, files, tmp_path, **cell)
    lines = list(csv.DictReader(made["csv"].open(encoding="utf-8")))
    found = {(line["metric"], line["dataset"], line["method"]): line for line in lines}
    assert len(found) == len(SHOWN) * (len(DATASETS) + 1) * len(MEANS)
    for (_, _, method), line in found.items():
        assert float(line["value"]) == pytest.approx(other[method])
    assert "they favour no other method" in made["html"].read_text(encoding="utf-8")
