"""A cell in shards: the bits of the whole, and new samples are all that is computed for more."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

CELLS = (
    "generations/toy/toy-sentiment",
    "attributions/toy/saliency/toy-sentiment",
    "soft/dynamic/toy/saliency/toy-sentiment",
    "ranking/toy/saliency/toy-sentiment",
)
PLACES = ("0-2", "2-3")
MEASURED = ("timings",)  # what a computation took


def test_shards_give_the_bits_of_the_whole_and_more_samples_compute_only_theirs(
    finished, finished_once
):
    project, path = finished, finished.folder / "config/tiny.yaml"
    shutil.rmtree(project.folder / "results/tiny/data/summary")
    path.write_text(path.read_text().rstrip() + "\n      shard_size: 2\n")
    shards = [f"data/{cell}/{places}.parquet" for cell in CELLS for places in PLACES]
    pages = [
        "index.html",
        "explorer.html",
        "tables/density/dynamic/toy.html",
        "tables/timings.html",
    ]
    project.snakemake("--cores", "2", *(f"results/tiny/{name}" for name in (*shards, *pages)))
    here, there = project.folder / "results/tiny", finished_once.folder / "results/tiny"
    for cell in CELLS:
        files = [here / f"data/{cell}/{places}.parquet" for places in PLACES]
        assert sorted(files) == sorted((here / "data" / cell).glob("[0-9]*"))
        made = pa.concat_tables([pq.read_table(file) for file in files])
        assert made.equals(pq.read_table(there / f"data/{cell}.parquet")), cell
    summaries = [*(here / "data/summary").rglob("*.parquet")]
    for summary in summaries:
        if summary.stem not in MEASURED:
            whole = pq.read_table(there / summary.relative_to(here))
            assert pq.read_table(summary).equals(whole), summary.stem
    assert {"soft_samples", "ranking_samples", "statistics"} <= {path.stem for path in summaries}

    path.write_text(path.read_text().replace("max_samples: 3", "max_samples: 5"))
    pending = {Path(name) for name in project.pending()}
    made = ("samples", "prompts", "generations", "attributions", "soft")  # for all methods
    added = {
        name for name in pending if name.parent.name == "toy-sentiment" and name.parts[1] in made
    }
    assert {name.name for name in added} == {"2-4.parquet", "4-5.parquet"}
    assert Path("data/soft/dynamic/toy/saliency/toy-sentiment/2-4.parquet") in added
