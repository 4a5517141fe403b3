"""The summary of a finished run, with sample values, has no defects."""

from __future__ import annotations

import pytest

from check_summary import problems
from helpers.kept_summaries import keep_summary_of
from helpers.shared_runs import SAMPLES
from leaderboard import entries, leaderboard
from pisoft.store import parquet

pytestmark = pytest.mark.workflow


def test_the_summary_of_a_finished_run_has_no_defects(finished_once, tmp_path, monkeypatch):
    read = parquet._provenance_of_file
    other_device = {"device": "GPU"}  # on which the scores of one method were evaluated
    monkeypatch.setattr(
        parquet,
        "_provenance_of_file",
        lambda path: read(path) | (other_device if "random" in path.parts else {}),
    )
    entry = keep_summary_of(finished_once, tmp_path, monkeypatch)
    assert problems(entry) == []
    (summary,) = entries(entry.parent).values()
    assert summary.settings["toy.source"] == {"kind": "local", "path": ["toy-model"]}
    assert sorted(summary.devices["toy"].split(" and ")) == ["GPU", "cpu"]
    assert len(summary.samples.rows) == SAMPLES * 3 * 2, "by method and metric"
    assert leaderboard({"tiny": summary}).count("<h3>") == 2 * 2, "average, dataset and metrics"
