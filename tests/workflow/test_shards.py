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
DATASET = "toy-sentiment"
PLACES = ("0-2", "2-3")
MEASURED = ("timings",)  # what a computation took


def test_shards_give_the_bits_of_the_whole_and_more_samples_compute_only_theirs(finished):
    alone = ("--config", "methods=[saliency]")
    results, path = finished.folder / "results/tiny", finished.folder / "config/tiny.yaml"
    made = {"data/summary/accuracy.parquet", *finished.pending(*alone)}
    summaries = [f"results/tiny/{name}" for name in made if name.startswith("data/summary/")]
    finished.snakemake("--cores", "2", *alone, "--", *summaries)
    whole = {name: pq.read_table(finished.folder / name) for name in summaries}
    shutil.rmtree(results / "data/summary")
    path.write_text(path.read_text().rstrip() + "\n      shard_size: 2\n")
    shards = [f"results/tiny/data/{cell}/{places}.parquet" for cell in CELLS for places in PLACES]
    targets = (*shards, *summaries, "results/tiny/explorer.html")
    finished.snakemake("--cores", "2", *alone, "--", *targets)
    for cell in CELLS:
        files = [results / f"data/{cell}/{places}.parquet" for places in PLACES]
        assert sorted(files) == sorted((results / "data" / cell).glob("[0-9]*"))
        made = pa.concat_tables([pq.read_table(file) for file in files])
        assert made.equals(pq.read_table(results / f"data/{cell}.parquet")), cell
    for name, table in whole.items():
        if Path(name).stem not in MEASURED:
            assert pq.read_table(finished.folder / name).equals(table), name
    assert {"soft_samples", "ranking_samples", "statistics"} <= {Path(name).stem for name in whole}

    path.write_text(path.read_text().replace("max_samples: 3", "max_samples: 5"))
    pending = {Path(name) for name in finished.pending(*alone)}
    added = {name for name in pending if name.parts[0] == "data" and name.parent.name == DATASET}
    assert {name.name for name in added} == {"2-4.parquet", "4-5.parquet"}
    assert Path("data/soft/dynamic/toy/saliency/toy-sentiment/2-4.parquet") in added
