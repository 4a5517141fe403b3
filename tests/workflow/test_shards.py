"""A cell in shards: the bits of the whole, and new samples are all that is computed for more."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

CELLS = (
    "generations/toy/toy-sentiment",
    "attributions/toy/saliency/toy-sentiment",
    "soft/dynamic/toy/saliency/toy-sentiment",
    "ranking/toy/saliency/toy-sentiment",
)


def test_shards_give_the_bits_of_the_whole_and_more_samples_compute_only_theirs(project, finished):
    path = project.folder / "config/tiny.yaml"
    path.write_text(path.read_text().rstrip() + "\n      shard_size: 2\n")
    wanted = [f"data/{cell}.parquet" for cell in CELLS]
    pages = [
        "index.html",
        "explorer.html",
        "tables/density/dynamic/toy.html",
        "tables/timings.html",
    ]
    project.snakemake("--cores", "2", *(f"results/tiny/{name}" for name in (*wanted, *pages)))
    for name in wanted:
        whole = pq.read_table(finished.folder / "results/tiny" / name)
        assert pq.read_table(project.folder / "results/tiny" / name).equals(whole), name
        shards = project.folder / "results/tiny" / name.removesuffix(".parquet")
        assert sorted(shard.name for shard in shards.iterdir()) == ["0-2.parquet", "2-3.parquet"]

    path.write_text(path.read_text().replace("max_samples: 3", "max_samples: 5"))
    pending = {Path(name) for name in project.pending()}
    made = ("samples", "prompts", "generations", "attributions", "soft")  # for all methods
    shards = {
        name for name in pending if name.parent.name == "toy-sentiment" and name.parts[1] in made
    }
    assert {name.name for name in shards} == {"2-4.parquet", "4-5.parquet"}
    assert Path("data/soft/dynamic/toy/saliency/toy-sentiment/2-4.parquet") in shards
