"""A cell in shards: the bits of the whole, and new samples are all that is computed for more."""

from __future__ import annotations

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
    pages = ["explorer.html", "tables/density/dynamic/toy.html", "tables/timings.html"]
    project.snakemake("--cores", "2", *(f"results/tiny/{name}" for name in (*wanted, *pages)))
    for name in wanted:
        whole = pq.read_table(finished.folder / "results/tiny" / name)
        assert pq.read_table(project.folder / "results/tiny" / name).equals(whole), name
        shards = project.folder / "results/tiny" / name.removesuffix(".parquet")
        assert sorted(shard.name for shard in shards.iterdir()) == ["0-2.parquet", "2-3.parquet"]

    more = project.snakemake("--dry-run", "--config", "max_samples=5").stdout
    assert "/toy-sentiment/0-2.parquet" not in outputs(more)
    for part in ("2-4", "4-5"):
        assert f"results/tiny/data/soft/dynamic/toy/saliency/toy-sentiment/{part}.parquet" in more


def outputs(listed: str) -> str:
    """Return the lines of a dry run that name what is made."""
    return "".join(line for line in listed.splitlines() if line.strip().startswith("output:"))
