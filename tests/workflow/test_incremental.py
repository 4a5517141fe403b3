"""Re-runs compute only what has changed."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from helpers import random_masked_models
from helpers.shared_runs import SAMPLES
from pisoft.store.parquet import read_provenance, read_rows

pytestmark = pytest.mark.workflow

PAGE = Path(__file__).parents[2] / "docs/how-to/add-a-method.md"


def files_of(name):
    """Return the outputs of the jobs of one method."""
    return {
        f"data/attributions/toy/{name}/toy-sentiment.parquet",
        f"data/soft/dynamic/toy/{name}/toy-sentiment.parquet",
        f"data/ranking/toy/{name}/toy-sentiment.parquet",
    }


@pytest.mark.slow
def test_only_changed_results_are_recomputed(finished, tmp_path):
    project = type(finished)(tmp_path / "clone")
    project.folder.mkdir()
    finished.copy_sources_to(project.folder)
    for name in ("results", ".snakemake", "toy-model"):
        subprocess.run(["cp", "-a", finished.folder / name, project.folder / name], check=True)
    for path in (project.folder / "toy-model").iterdir():
        os.utime(path)
    run_file = project.folder / "config/tiny.yaml"
    run_file.write_text(run_file.read_text().replace("runtime: 5", "gpu: 1"))
    stated = ("--default-resources", "throughput=400")  # for the plan of GPU jobs
    assert project.pending(*stated) == set(), "new time stamps and resources re-run no job"

    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    (example,) = (block for block in blocks if "AttributionMethod" in block)
    project.write("scripts/pisoft/attribution/my_method.py", example)
    catalogue = project.folder / "config/catalogue/methods.yaml"
    catalogue.write_text(catalogue.read_text() + "my_method: {}\n")
    pending = {name for name in project.pending() if "summary" not in name}
    cells = {name for name in pending if name.startswith("data/")}
    assert cells == files_of("my_method"), "one file and one line add exactly one method's cells"
    soft = "results/tiny/data/soft/dynamic/toy/my_method/toy-sentiment.parquet"
    project.snakemake("--cores", "1", soft)
    assert project.pending(soft) == set()
    assert {row["status"] for row in read_rows(project.folder / soft, "soft")} == {"ok"}


TABLE = '''\
"""How many samples each model answered."""

from pisoft.tables import grid
from pisoft.views.view import View, display

@display(title="Answered samples", by=("model",), reads=("accuracy",))
def table(view: View) -> grid.Table:
    """Build the table of one model."""
    results = view.results("accuracy")
    columns = [grid.Column("n", {"metric": "truncated"}, grid.plain(0, "n"))]
    lines = grid.each("dataset", results.datasets)
    made = grid.blocks(results, {"": {}}, lines, columns)
    return grid.table(view, results, columns, made, [], "Dataset")
'''


@pytest.mark.slow
def test_one_file_adds_a_table(finished):
    before = finished.pending("--forceall")
    finished.write("scripts/pisoft/tables/answered.py", TABLE)
    tables = {name for name in before if name.startswith("tables/") and "published" not in name}
    expected = tables | {"tables/answered/toy.html", "index.html", "docs.html", "report.html"}
    assert finished.pending() == expected, "one job writes all tables; the front page links"
    finished.run()
    assert finished.pending() == set()
    made = finished.folder / "results/tiny/tables/answered/toy"
    assert f"<td>{SAMPLES}</td>" in made.with_suffix(".html").read_text()
    assert made.with_suffix(".csv").is_file()


@pytest.mark.slow
def test_only_scores_with_a_masked_model_record_its_commit(finished):
    project = finished
    masked = random_masked_models.roberta(context=256)
    masked.network.save_pretrained(project.folder / "toy-masked")
    masked.tokenizer.save_pretrained(project.folder / "toy-masked")
    project.write("config/catalogue/methods.yaml", "random: {}\nreagent: {}\n")
    entry = """\
  masked_models:
    toy-masked: {label: Toy, source: {kind: local, path: toy-masked}}
masked_model: toy-masked
"""
    project.write("config/tiny.yaml", (project.folder / "config/tiny.yaml").read_text() + entry)
    target = "results/tiny/data/attributions/toy/{}/toy-sentiment.parquet"
    random, reagent = (project.folder / target.format(name) for name in ("random", "reagent"))
    random.unlink()
    project.snakemake("--cores", "2", target.format("random"), target.format("reagent"))
    assert set(pq.read_table(reagent)["status"].to_pylist()) == {"ok"}
    assert "masked_model_commit" in read_provenance(reagent)
    assert "masked_model_commit" not in read_provenance(random)


@pytest.mark.slow
def test_recomputed_scores_are_identical_and_re_run_no_evaluation(finished):
    """Regression: they held their computation time, so every evaluation was re-run."""
    scores = "results/tiny/data/attributions/toy/saliency/toy-sentiment.parquet"
    before = (finished.folder / scores).read_bytes()
    (finished.folder / scores).unlink()
    finished.snakemake("--cores", "1", scores)
    assert (finished.folder / scores).read_bytes() == before
    pending = finished.pending()
    assert not {name for name in pending if name.startswith(("data/soft/", "data/ranking/"))}
    assert "data/summary/timings.parquet" in pending
