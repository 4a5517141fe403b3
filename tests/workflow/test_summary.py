"""A finished run's summary, with the values of its samples, has no defect."""

from __future__ import annotations

import pytest

import keep_summary
from check_summary import problems
from helpers.shared_runs import SAMPLES
from leaderboard import entries, leaderboard
from pisoft.store import parquet

pytestmark = pytest.mark.workflow


def test_the_summary_of_a_finished_run_has_no_defect(finished_once, tmp_path, monkeypatch):
    monkeypatch.chdir(finished_once.folder)
    _, load_method = keep_summary.CATALOGUE
    monkeypatch.setattr(keep_summary, "CATALOGUE", (finished_once.folder / "config", load_method))
    read = parquet._provenance_of_file
    elsewhere = {"device": "GPU"}  # where scores of one method were evaluated
    monkeypatch.setattr(
        parquet,
        "_provenance_of_file",
        lambda path: read(path) | (elsewhere if "random" in path.parts else {}),
    )
    line = ["--configfile", "config/tiny.yaml", "--folder", str(tmp_path), "--samples"]
    keep_summary.main(keep_summary.parser().parse_args(line))
    folder = tmp_path / keep_summary.BOARD
    assert problems(folder / "tiny.json") == []
    (summary,) = entries(folder).values()
    assert summary.settings["toy.source"] == {"kind": "local", "path": ["toy-model"]}
    assert sorted(summary.devices["toy"].split(" and ")) == ["GPU", "cpu"]
    assert len(summary.samples.rows) == SAMPLES * 3 * 2, "by method and metric"
    assert leaderboard({"tiny": summary}).count("<h3>") == 2 * 2, "average, dataset and metrics"
