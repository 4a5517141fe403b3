"""The summary of insertion and deletion, recomputed from the written rows."""

import itertools

import numpy as np
import pandas as pd
import pytest

from helpers.script_runs import summary_rows
from pisoft.config.jobs.summaries import SummariseRankingJob
from pisoft.errors import BenchmarkError
from pisoft.statistics.insertion_deletion import summaries
from pisoft.statistics.reading import Files
from pisoft.store.parquet import write_rows

NOT_APPLICABLE = {"wikibio": "no label words"}


def cell_rows(failed=()):
    """Rows of `ranking` of three samples."""
    rows = []
    for number, curve in itertools.product(range(3), ("deletion", "insertion")):
        flips = [(number + step + (curve == "deletion")) % 3 == 0 for step in range(4)]
        row = {"sample_id": f"s{number}", "curve": curve, "perturbable": 9, "status": "ok"}
        row |= {"flips": flips, "log_probabilities": None, "auc": sum(flips) / 4}
        bad = {"flips": None, "auc": None, "status": "nonfinite_attribution"}
        rows.append(row | (bad if number in failed else {}))
    return rows


def samples_of(folder, paths, reasons):
    settings, files = {"not_applicable": reasons}, {"ranking": paths}
    return summary_rows("insertion_deletion", settings, files, folder, "ranking_samples")


def test_methods_not_run_on_a_model_have_no_rows(tmp_path):
    cells = [("llama", "random"), ("mistral", "mine")]
    paths = [tmp_path / model / method / "imdb.parquet" for model, method in cells]
    for path in paths:
        write_rows(path, "ranking", cell_rows(), {})
    rows = samples_of(tmp_path, paths, NOT_APPLICABLE)
    assert {(row["model"], row["method"]) for row in rows} == {*cells}


def test_counterfactuals_report_changed_tokens_and_missing_flips(tmp_path):
    rows = cell_rows({2})
    for number, (flips, share) in enumerate((([False] * 4, 1.0), ([False, True] * 2, 0.5))):
        row = rows[0] | {"sample_id": f"s{number}", "curve": "counterfactual"}
        rows.append(row | {"flips": flips, "auc": share})
    rows.append(rows[-3] | {"curve": "counterfactual"})  # the failed sample
    path = tmp_path / "llama" / "mine" / "sst2.parquet"
    write_rows(path, "ranking", rows, {})
    samples = pd.DataFrame(samples_of(tmp_path, [path], {}))
    values = samples.pivot(index="metric", columns="sample_id", values="value")
    for curve in ("deletion", "insertion"):
        areas = [row["auc"] or np.nan for row in rows if row["curve"] == curve]
        assert values.loc[f"{curve}_auc"].tolist() == pytest.approx(areas, nan_ok=True)
    assert values.loc["tokens_changed"].tolist() == pytest.approx([1, 0.5, np.nan], nan_ok=True)
    assert values.loc["not_flipped"].tolist() == pytest.approx([1, 0, np.nan], nan_ok=True)
    assert set(samples["status"][samples["sample_id"] == "s2"]) == {"nonfinite_attribution"}


def test_generated_answers_have_areas_and_inapplicable_metrics(tmp_path):
    template = cell_rows()[0] | {"flips": None, "log_probabilities": [-1.0, -3.5]}
    areas = {"answer_deletion": -2.5, "rise": 0.25, "mas": 0.75}
    path = tmp_path / "llama" / "mine" / "wikibio.parquet"
    write_rows(path, "ranking", [template | {"curve": c, "auc": a} for c, a in areas.items()], {})
    samples = samples_of(tmp_path, [path], NOT_APPLICABLE)
    assert {row["metric"]: row["value"] for row in samples if row["status"] == "ok"} == areas
    others = {row["metric"]: row["reason"] for row in samples if row["status"] != "ok"}
    assert others == dict.fromkeys(("deletion_auc", "insertion_auc"), "no label words")


RANGE = "is ok, but its AUC is not finite, or not between 0 and 1"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"curve": "other"}, "its curve is none of: deletion, insertion, .*, rise, mas"),
        ({"curve": "insertion"}, "has a curve twice"),
        ({"auc": 1.5}, RANGE),
        ({"auc": None}, RANGE),
        ({"curve": "mas", "auc": -0.1}, RANGE),
        ({"curve": "answer_deletion", "auc": None}, RANGE),
    ],
)
def test_an_invalid_row_is_an_error(tmp_path, changes, problem):
    path = tmp_path / "llama" / "mine" / "sst2.parquet"
    first, *rest = cell_rows()
    write_rows(path, "ranking", [first | changes, *rest], {})
    with pytest.raises(BenchmarkError, match=rf"sst2\.parquet: sample 's0': {problem}; delete"):
        summaries(Files(ranking=[path]), SummariseRankingJob(not_applicable={}))
