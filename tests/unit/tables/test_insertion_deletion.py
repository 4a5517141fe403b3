"""The table of insertion and deletion: directions, what is left out, failures."""

import csv

import pandas as pd
import pytest

from estimating import estimated
from pisoft.contracts import write_rows
from pisoft.tables.insertion_deletion import insertion_deletion_table
from rooms import display_settings, tabulate, write_frame
from soft_tables import DATASETS, FAMILIES, METHODS, value_of


def ranking_rows(means, failed=()):
    """Rows of `ranking_samples`; `means` = {(method, dataset): (deletion, insertion)}."""
    rows = []
    for (method, dataset), pair in means.items():
        for number in range(3):
            status = "nonfinite_logits" if (method, dataset, number) in failed else "ok"
            for metric, mean in zip(("deletion_auc", "insertion_auc"), pair, strict=True):
                rows.append(
                    {
                        "model": "llama",
                        "method": method,
                        "dataset": dataset,
                        "sample_id": f"s{number}",
                        "metric": metric,
                        "value": mean + (number - 1) / 100 if status == "ok" else None,
                        "status": status,
                        "reason": None,
                    }
                )
    return rows


def left_out_rows():
    """Rows of `ranking_samples` for a dataset that cannot be ranked."""
    cell = {"model": "llama", "dataset": "wikibio", "sample_id": None, "value": None}
    return [
        {**cell, "method": method, "metric": metric, "status": "not_applicable", "reason": "none"}
        for method in METHODS
        for metric in ("deletion_auc", "insertion_auc")
    ]


RANKING = {
    ("random", "sst2"): (0.2, 0.3),
    ("attention", "sst2"): (0.4, 0.1),
    ("mine", "sst2"): (0.6, 0.2),
    ("random", "imdb"): (0.1, 0.4),
    ("attention", "imdb"): (0.4, 0.3),
    ("mine", "imdb"): (0.5, 0.1),
}


def insertion_deletion_of(rows):
    datasets = {"wikibio": "WikiBio", **DATASETS}
    statistics = estimated([*rows, *left_out_rows()], "ranking_samples").statistics
    frame = pd.DataFrame([*rows, *left_out_rows()])
    names = {"methods": METHODS, "families": FAMILIES, "datasets": datasets}
    return insertion_deletion_table(statistics, frame, where="Llama", **names)


def averages_of(block):
    """Methods, best first, with their averages."""
    return [(row.label, row.entries[-1].text) for row in block.rows]


def test_deletion_is_best_where_highest_and_insertion_where_lowest():
    table = insertion_deletion_of(ranking_rows(RANKING))
    assert [block.title for block in table.blocks] == ["Deletion ↑", "Insertion ↓"]
    assert table.columns == ("Rank", "SST2", "IMDb", "Avg")
    deletion, insertion = (averages_of(block) for block in table.blocks)
    assert deletion == [("Mine", "0.5500"), ("Attention", "0.4000"), ("Random", "0.1500")]
    assert insertion == [("Mine", "0.1500"), ("Attention", "0.2000"), ("Random", "0.3500")]
    best_deletion_only = {**RANKING, ("mine", "imdb"): (0.5, 0.9)}
    table = insertion_deletion_of(ranking_rows(best_deletion_only))
    assert [name for name, _ in averages_of(table.blocks[1])] == ["Attention", "Random", "Mine"]


def test_a_dataset_that_cannot_be_ranked_is_named_and_in_no_mean():
    table = insertion_deletion_of(ranking_rows(RANKING))
    assert table.columns == ("Rank", "SST2", "IMDb", "Avg")
    assert set(table.values["dataset"]) == {"sst2", "imdb", "average"}
    assert "Left out: WikiBio, because none." in table.notes
    assert "No sample failed." in table.notes
    assert "Samples per dataset: SST2 3, IMDb 3." in table.notes


def test_failed_samples_of_a_ranking_are_counted_and_left_out():
    failed = {("mine", "imdb", 0), *((method, "sst2", 2) for method in METHODS)}
    table = insertion_deletion_of(ranking_rows(RANKING, failed))
    cell = value_of(table, "insertion_auc", "imdb", "mine")
    assert (cell["value"], cell["n"], cell["n_failed"]) == (pytest.approx(0.105), 2, 1)
    assert value_of(table, "deletion_auc", "average", "mine")["n"] == 4
    notes = " ".join(table.notes)
    assert "SST2 (all methods): 1 nonfinite_logits" in notes
    assert "IMDb (Mine): 1 nonfinite_logits" in notes


def test_the_script_writes_insertion_and_deletion(tmp_path):
    rows = [*ranking_rows(RANKING), *left_out_rows()]
    rows += [{**row, "model": "mistral", "value": 0.0} for row in ranking_rows(RANKING)]
    files = {kind: tmp_path / f"{kind}.parquet" for kind in ("ranking_samples", "statistics")}
    write_rows(files["ranking_samples"], "ranking_samples", rows, {})
    write_frame(files["statistics"], "statistics", estimated(rows, "ranking_samples").statistics)
    datasets = {**DATASETS, "wikibio": "WikiBio"}
    settings = display_settings(
        models={"llama": "Llama"}, datasets=datasets, methods=METHODS, families=FAMILIES
    )
    made = tabulate("insertion_deletion", settings, files, tmp_path, model="llama")
    lines = list(csv.DictReader(made["csv"].open(encoding="utf-8")))
    values = {(line["metric"], line["dataset"], line["method"]): line["value"] for line in lines}
    assert float(values["insertion_auc", "average", "mine"]) == pytest.approx(0.15)
    assert "Left out: WikiBio, because none." in made["html"].read_text(encoding="utf-8")
