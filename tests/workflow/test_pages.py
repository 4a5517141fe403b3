"""Pages of a run with as little as can be."""

from __future__ import annotations

import shutil

import pytest

pytestmark = [pytest.mark.workflow, pytest.mark.slow]


def test_a_run_of_one_method_ends(finished):
    results = finished.folder / "results/tiny"
    for name in ("tables", "figures"):
        shutil.rmtree(results / name)
    (results / "index.html").unlink()
    finished.snakemake("--cores", "2", "--config", "methods=[saliency]")
    assert (results / "index.html").is_file()
    assert not (results / "figures/method_agreement").exists(), "there is nothing to compare"
