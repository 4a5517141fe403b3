"""The table of evidence: chance, failures, datasets without evidence."""

import pytest

from helpers.soft_tables import table_of, value_of
from pisoft.statistics.metrics import EVIDENCE_METRICS
from pisoft.tables import evidence_recovery
from pisoft.tables.evidence_recovery import CHANCE

MEANS = {"random": 0.1, "attention": 0.4, "mine": 1.0}
SHARES = [0.1, 0.2, 0.3]  # of evidence among the tokens of each sample


def evidence_of(failed=(), datasets=("sst2",)):
    """The table of three samples of each dataset."""
    rows = [
        {
            "model": "llama", "method": method, "dataset": dataset, "sample_id": f"s{number}",
            "metric": metric,
            "value": None if (method, number) in failed
            else SHARES[number] if metric in CHANCE else mean,
            "status": "no_evidence" if (method, number) in failed else "ok",
        }
        for method, mean in MEANS.items()
        for dataset in datasets
        for number in range(3)
        for metric in (*EVIDENCE_METRICS, *CHANCE)
    ]  # fmt: skip
    return table_of(evidence_recovery, rows, "evidence_samples", {"model": "llama"})


def test_the_highest_is_best_and_chance_stands_below():
    table = evidence_of()
    assert table.columns == ("Rank", "SST2"), "IMDb has no evidence, and one dataset no average"
    *metrics, chance = table.blocks
    assert len(metrics) == len(EVIDENCE_METRICS)
    for block in metrics:
        assert [row.label for row in block.rows] == ["Mine", "Attention", "Random"]
        assert block.rows[0].entries[1].strong
    assert [row.label for row in chance.rows] == [
        "Uninformative scores: the first three", "Uninformative scores: AUPRC",
    ]  # fmt: skip
    assert [[entry.text for entry in row.entries] for row in chance.rows] == [["–", "0.20"]] * 2


def test_failed_samples_are_counted_and_chance_is_of_the_method_with_most_samples():
    table = evidence_of(failed={("random", 0)})
    cell = value_of(table, "recovery_at_k", "sst2", "random")
    assert (cell["value"], cell["n"], cell["n_failed"]) == (pytest.approx(0.1), 2, 1)
    assert table.blocks[-1].rows[0].entries[1].text == "0.20"
    assert "SST2 (Random): 1 no_evidence" in " ".join(table.notes)
