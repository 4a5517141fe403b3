"""A cell in shards: the bits of the whole, and new samples are all that is computed for more."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from helpers.shared_runs import SAMPLES

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

CELLS = (
    "generations/toy/toy-sentiment",
    "attributions/toy/saliency/toy-sentiment",
    "soft/dynamic/toy/saliency/toy-sentiment",
    "ranking/toy/saliency/toy-sentiment",
)
DATASET = "toy-sentiment"
PLACES = ("0-4", f"4-{SAMPLES}")
SUMMARIES = ("accuracy", "soft_samples", "ranking_samples", "evidence_samples")


def of_saliency(file):
    """Return the rows of a summary that other methods do not change."""
    table = pq.read_table(file)
    return table.filter(pc.is_in(table["method"], pa.array(["saliency", ""])))


def test_shards_give_the_bits_of_the_whole_and_more_samples_compute_only_theirs(finished):
    alone = ("--config", "methods=[saliency]")
    results, path = finished.folder / "results/tiny", finished.folder / "config/tiny.yaml"
    summaries = [results / f"data/summary/{name}.parquet" for name in SUMMARIES]
    whole = [of_saliency(file) for file in summaries]
    path.write_text(path.read_text().rstrip() + "\n      shard_size: 4\n")
    files = [results / f"data/{cell}/{places}.parquet" for cell in CELLS for places in PLACES]
    files += [*summaries, results / "explorer.html"]
    targets = [str(file.relative_to(finished.folder)) for file in files]
    finished.snakemake("--cores", "2", *alone, "--", *targets)
    for cell in CELLS:
        files = [results / f"data/{cell}/{places}.parquet" for places in PLACES]
        assert sorted(files) == sorted((results / "data" / cell).glob("[0-9]*"))
        made = pa.concat_tables([pq.read_table(file) for file in files])
        assert made.equals(pq.read_table(results / f"data/{cell}.parquet")), cell
    for file, table in zip(summaries, whole, strict=True):
        assert of_saliency(file).equals(table), file

    path.write_text(path.read_text().replace(f"max_samples: {SAMPLES}", "max_samples: 9"))
    pending = {Path(name) for name in finished.pending(*alone)}
    added = {name for name in pending if name.parts[0] == "data" and name.parent.name == DATASET}
    assert {name.name for name in added} == {"4-8.parquet", "8-9.parquet"}
    assert Path("data/soft/dynamic/toy/saliency/toy-sentiment/4-8.parquet") in added
