"""Pages of a run with as little as can be."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.workflow, pytest.mark.slow]


def test_a_run_of_one_method_ends(project):
    project.snakemake("--cores", "2", "--config", "methods=[saliency]")
    results = project.folder / "results/tiny"
    assert (results / "index.html").is_file()
    assert not (results / "figures/method_agreement").exists(), "there is nothing to compare"
