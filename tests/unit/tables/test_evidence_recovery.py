"""The table of evidence: directions, chance, failures, datasets without evidence."""

import csv

import numpy as np
import pandas as pd
import pytest

from estimating import estimated
from pisoft.contracts import write_rows
from pisoft.tables.evidence_recovery import CHANCE, FOUND, evidence_table
from rooms import display_settings, tabulate, write_frame
from soft_tables import DATASETS, FAMILIES, METHODS, value_of

MEANS = {"random": 0.1, "attention": 0.4, "mine": 1.0}
SHARES = [0.1, 0.2, 0.3]  # of evidence among the tokens of each sample


def evidence_rows(means=MEANS, failed=(), datasets=("sst2",)):
    """Rows of `evidence_samples` of three samples of each dataset."""
    return [
        {
            "model": "llama", "method": method, "dataset": dataset, "sample_id": f"s{number}",
            "metric": metric,
            "value": None if (method, number) in failed
            else SHARES[number] if metric in CHANCE else means[method],
            "status": "no_evidence" if (method, number) in failed else "ok",
        }
        for method in means
        for dataset in datasets
        for number in range(3)
        for metric in (*FOUND, *CHANCE)
    ]  # fmt: skip


def evidence_of(rows):
    statistics = estimated(rows, "evidence_samples").statistics
    names = {"methods": METHODS, "families": FAMILIES, "datasets": DATASETS}
    return evidence_table(statistics, pd.DataFrame(rows), where="Llama", **names)


def test_the_highest_is_best_and_chance_stands_below():
    table = evidence_of(evidence_rows())
    assert table.columns == ("Rank", "SST2"), "IMDb has no evidence, and one dataset no average"
    *found, chance = table.blocks
    assert [block.title for block in found] == [
        "Top-1 in evidence ↑", "Recovery@k ↑", "Mass on evidence ↑",
        "AUPRC of evidence ↑",
    ]  # fmt: skip
    for block in found:
        assert [row.label for row in block.rows] == ["Mine", "Attention", "Random"]
        assert block.rows[0].entries[1].strong
    assert [row.label for row in chance.rows] == [
        "Scores that know nothing: the first three", "Scores that know nothing: AUPRC",
    ]  # fmt: skip
    assert [[entry.text for entry in row.entries] for row in chance.rows] == [["–", "0.200"]] * 2


def test_failed_samples_are_counted_and_chance_is_of_the_method_with_most_samples():
    table = evidence_of(evidence_rows(failed={("random", 0)}))
    cell = value_of(table, "recovery_at_k", "sst2", "random")
    assert (cell["value"], cell["n"], cell["n_failed"]) == (pytest.approx(0.1), 2, 1)
    assert value_of(table, "evidence_by_chance", "sst2", "random")["value"] == pytest.approx(0.25)
    assert table.blocks[-1].rows[0].entries[1].text == "0.200"
    assert "SST2 (Random): 1 no_evidence" in " ".join(table.notes)


def test_the_average_is_over_datasets_with_evidence():
    table = evidence_of(evidence_rows(datasets=("sst2", "imdb")))
    assert table.columns == ("Rank", "SST2", "IMDb", "Avg")
    assert value_of(table, "recovery_at_k", "average", "mine")["value"] == pytest.approx(1.0)


def test_the_script_writes_the_table_of_a_model(tmp_path):
    rows = evidence_rows()
    rows += [{**row, "model": "mistral", "value": 0.0} for row in rows]
    files = {kind: tmp_path / f"{kind}.parquet" for kind in ("evidence_samples", "statistics")}
    write_rows(files["evidence_samples"], "evidence_samples", rows, {})
    write_frame(files["statistics"], "statistics", estimated(rows, "evidence_samples").statistics)
    settings = display_settings(
        families=FAMILIES, models={"llama": "Llama"}, datasets=DATASETS, methods=METHODS
    )
    made = tabulate("evidence", settings, files, tmp_path, model="llama")
    lines = list(csv.DictReader(made["csv"].open(encoding="utf-8")))
    found = {(line["metric"], line["method"]): float(line["value"]) for line in lines}
    for metric in FOUND:
        assert np.array([found[metric, m] for m in MEANS]) == pytest.approx(list(MEANS.values()))
    assert "By chance" in made["html"].read_text(encoding="utf-8")
