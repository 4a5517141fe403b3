"""Stored draws are summarised where there are any that say something of whole tokens."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.workflow

JOBS = {"data/summary/datamodel_samples.parquet", "tables/datamodel_scores/dynamic/toy.html"}


@pytest.mark.parametrize(
    "change", [("draws: 2", "draws: 2, mask: element"), ("all", "[attention]")]
)
def test_masks_of_elements_and_runs_without_random_scores_make_no_file(project, change):
    assert project.pending() > JOBS
    run_file = project.folder / "config/tiny.yaml"
    run_file.write_text(run_file.read_text().replace(*change, 1))
    pending = project.pending()
    assert not pending & JOBS
    assert "tables/pi_soft_auc/dynamic/toy.html" in pending
    assert "explorer.html" in pending
