"""The summary of insertion and deletion, recomputed from the written rows."""

import pytest

from pisoft.config.slices import SummariseRankingSlice
from pisoft.contracts import read_provenance, read_rows, write_rows
from pisoft.statistics.insertion_deletion import ranking_samples
from rooms import summarise

METHODS = ("random", "mine")
CELLS = [("llama", method, dataset) for method in METHODS for dataset in ("sst2", "imdb")]
NOT_APPLICABLE = {"wikibio": "no label words"}


def cell_rows(shift, failed=()):
    """Rows of `ranking` of three samples."""
    rows = []
    for number in range(3):
        for curve in ("deletion", "insertion"):
            flips = [(number + shift + step + (curve == "deletion")) % 3 == 0 for step in range(4)]
            ok = number not in failed
            rows.append(
                {
                    "sample_id": f"s{number}",
                    "curve": curve,
                    "perturbable": 9,
                    "flips": flips if ok else None,
                    "auc": sum(flips) / 4 if ok else None,
                    "status": "ok" if ok else "nonfinite_attribution",
                }
            )
    return rows


@pytest.fixture
def written(tmp_path):
    """Rows and file of every cell; one sample of the last cell failed."""
    found = []
    for shift, cell in enumerate(CELLS):
        rows = cell_rows(shift, failed={1} if cell == CELLS[-1] else ())
        path = tmp_path / "ranking" / "/".join(cell[:2]) / f"{cell[2]}.parquet"
        write_rows(path, "ranking", rows, {})
        found.append((rows, path))
    return found


def test_every_sample_has_its_auc_by_metric_and_keeps_its_status(written):
    found = ranking_samples([path for _, path in written], NOT_APPLICABLE).to_pylist()
    expected = [
        {
            "model": model,
            "method": method,
            "dataset": dataset,
            "sample_id": row["sample_id"],
            "metric": f"{row['curve']}_auc",
            "value": None if row["flips"] is None else sum(row["flips"]) / len(row["flips"]),
            "status": row["status"],
            "reason": None,
        }
        for (model, method, dataset), (rows, _) in zip(CELLS, written, strict=True)
        for row in rows
    ]
    assert found[: len(expected)] == expected
    assert found[len(expected) :] == [
        {
            "model": "llama",
            "method": method,
            "dataset": "wikibio",
            "sample_id": None,
            "metric": metric,
            "value": None,
            "status": "not_applicable",
            "reason": "no label words",
        }
        for method in METHODS
        for metric in ("deletion_auc", "insertion_auc")
    ]


def test_a_run_whose_datasets_can_all_be_ranked_has_no_row_without_a_sample(written):
    found = ranking_samples([path for _, path in written], {})
    assert None not in found.column("sample_id").to_pylist()


def test_a_model_that_some_methods_do_not_explain_has_no_row_for_them(written):
    (_, first), *_, (_, last) = written
    other = last.parents[2] / "mistral" / "mine" / "imdb.parquet"
    write_rows(other, "ranking", written[-1][0], {})
    rows = ranking_samples([first, other], NOT_APPLICABLE).to_pylist()
    assert {(row["model"], row["method"]) for row in rows} == {
        ("llama", "random"), ("mistral", "mine"),
    }  # fmt: skip


def test_the_script_writes_the_samples_with_the_reasons(written, tmp_path):
    output = tmp_path / "samples.parquet"
    settings = SummariseRankingSlice(not_applicable=NOT_APPLICABLE)
    files = {"ranking": [path for _, path in written]}
    summarise("insertion_deletion", settings, files, {"ranking_samples": output})
    assert len(read_rows(output, "ranking_samples")) == 4 * 6 + 4
    assert read_provenance(output)["settings"] == {"not_applicable": NOT_APPLICABLE}
