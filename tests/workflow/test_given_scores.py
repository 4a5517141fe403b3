"""External scores: filled into the export, checked, imported, and evaluated like any other."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from check_summary import problems
from helpers.kept_summaries import keep_summary_of
from helpers.shared_runs import SAMPLES
from pisoft.config.shards import Shards
from pisoft.store.parquet import read_rows
from pisoft.store.shards import cell_path, shards_of
from summary import kept

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

PAGE = Path(__file__).parents[2] / "docs/how-to/bring-your-own-scores.md"
CELL = "data/{}/toy/mine/toy-sentiment.parquet"
MINE = {CELL.format(kind) for kind in ("attributions", "soft/dynamic", "ranking")}
TO_SCORE = "results/tiny/data/to_score.parquet"


def add_method(project, entry):
    """Add an entry to the run file."""
    path = project.folder / "config/tiny.yaml"
    path.write_text(path.read_text() + f"  methods:\n    {entry}\n", encoding="utf-8")


def check(project):
    """Run the check of `make check-scores`, without its export."""
    return project.python("scripts/check_scores.py", "--configfile", "config/tiny.yaml")


def cells(pending):
    """Return the pending attributions and evaluations."""
    kinds = ("data/attributions/", "data/soft/", "data/ranking/")
    return {name for name in pending if name.startswith(kinds)}


def test_imported_scores_give_identical_numbers_and_re_run_nothing_else(
    finished, tmp_path, monkeypatch
):
    project = finished
    assert project.pending("export_prompts") == {"data/to_score.parquet"}
    add_method(project, "mine: {label: Mine, source: {kind: scores, path: mine.parquet}}")
    refused = project.snakemake("--cores", "1", check=False)
    assert refused.returncode != 0
    assert "method 'mine': source.path: no such file: mine.parquet; `make export" in refused.stdout
    project.snakemake("--cores", "1", "export_prompts")

    data = project.folder / "results/tiny/data"
    theirs = read_rows(data / "attributions/toy/saliency/toy-sentiment.parquet", "attributions")
    scores = {(row["sample_id"], row["step"]): row["raw_scores"] for row in theirs}
    table = pq.read_table(project.folder / TO_SCORE)
    keys = zip(table["sample_id"].to_pylist(), table["step"].to_pylist(), strict=True)
    filled = pa.array([scores[key] for key in keys], pa.list_(pa.float32()))
    table = table.set_column(table.column_names.index("scores"), "scores", filled)
    mine = project.folder / "mine.parquet"

    wrong = table.to_pylist()
    wrong[1]["input_ids"][3] += 1
    pq.write_table(pa.Table.from_pylist(wrong, table.schema), mine)
    target = f"results/tiny/{CELL}"
    soft = target.format("soft/dynamic")
    broken = project.snakemake("--cores", "1", soft, check=False)
    assert broken.returncode != 0
    first = f"sample '{wrong[1]['sample_id']}', step 0: po"
    line = f"wrong input_ids: 1 of {SAMPLES} rows, the first: {first}"
    assert f"error: mine.parquet: toy on toy-sentiment: {line}" in broken.stdout
    assert line in check(project).stdout
    assert not (project.folder / target.format("attributions")).exists()

    pq.write_table(table, mine)
    assert check(project).stdout == f"mine, toy on toy-sentiment: fine: {SAMPLES} rows\n"
    assert cells(project.pending()) == MINE
    project.snakemake("--cores", "1", soft)
    for kind in ("attributions", "soft/dynamic"):
        made = pq.read_table(project.folder / target.format(kind))
        others = project.folder / target.format(kind).replace("/mine/", "/saliency/")
        assert made.num_rows > 0
        assert made.equals(pq.read_table(others)), kind

    os.utime(mine)
    left = {CELL.format("ranking")}
    assert cells(project.pending()) == left, "touching a file re-runs no import"
    pq.write_table(table.append_column("note", pa.nulls(len(table))), mine)
    assert cells(project.pending()) == MINE, "a changed file re-runs only its cells"

    summaries = (data / "summary").rglob("*.parquet")
    project.snakemake("--cores", "2", *(str(one.relative_to(project.folder)) for one in summaries))
    entry = keep_summary_of(project, tmp_path, monkeypatch)
    assert problems(entry) == []
    *cell, method, value = zip(*kept(entry).samples.rows, strict=True)
    lines = [*zip(*cell, value, strict=True)]
    mine, theirs = (
        [line for line, label in zip(lines, method, strict=True) if label == name]
        for name in ("mine", "saliency")
    )
    assert mine == theirs != [], "the leaderboard lists it as another method"


def test_the_documented_script_scores_all_shards(finished):
    """It computes gradient norms of the logit, like `saliency` with an option."""
    project, path = finished, finished.folder / "config/tiny.yaml"
    path.write_text(path.read_text().rstrip() + "\n      shard_size: 4\n", encoding="utf-8")
    add_method(
        project,
        "{my_scores: {source: {kind: scores, path: 'my_{dataset}.parquet'}},"
        " logit: {method: saliency, label: Logit, options: {attributed_function: logit}}}",
    )
    project.snakemake("--cores", "2", "export_prompts")
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.S)
    for theirs, ours in (
        ("results/demo/data/models/demo-llama", "toy-model"),
        ("results/demo/data/to_score.parquet", TO_SCORE),
        ("== 'demo-llama'", "== 'toy'"),
        ("my_scores.parquet", "my_toy-sentiment.parquet"),
    ):
        assert theirs in code
        code = code.replace(theirs, ours)
    project.write("score.py", code)
    scored = project.python("score.py")
    assert scored.returncode == 0, scored.stdout
    checked = check(project)
    assert checked.stdout == f"my_scores, toy on toy-sentiment: fine: {SAMPLES} rows\n"
    assert checked.returncode == 0
    cells, shards = "results/tiny/data/attributions/toy", Shards(SAMPLES, 4)
    made = [
        Path(cell_path(f"{cells}/{name}", "toy-sentiment", shards))
        for name in ("my_scores", "logit")
    ]
    project.snakemake("--cores", "2", *(str(file) for path in made for file in shards_of(path)))
    imported, attributed = (
        pd.DataFrame(read_rows(project.folder / name, "attributions")) for name in made
    )
    assert list(imported["sample_id"]) == list(attributed["sample_id"])
    for row, other in zip(imported["raw_scores"], attributed["raw_scores"], strict=True):
        np.testing.assert_allclose(row, other, rtol=1e-4)
