"""A cell in shards equals the whole cell to the bit, and more samples compute only new ones."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from helpers.shared_runs import SAMPLES

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

DATASET = "toy-sentiment"
LARGE, SMALL = ("0-4", f"4-{SAMPLES}"), ("0-2", "2-4", f"4-{SAMPLES}")
CELLS = {
    f"generations/toy/{DATASET}": LARGE,
    f"attributions/toy/saliency/{DATASET}": LARGE,
    f"attributions/toy/occlusion/{DATASET}": SMALL,  # a slow method
    f"ranking/toy/saliency/{DATASET}": LARGE,
    f"ranking/toy/occlusion/{DATASET}": SMALL,
    f"soft/dynamic/toy/saliency/{DATASET}": SMALL,
    f"soft/dynamic/toy/occlusion/{DATASET}": SMALL,
}
SUMMARIES = ("accuracy", "soft_samples", "ranking_samples", "evidence_samples")


def saliency_rows(file):
    """Return the rows of a summary that do not depend on other methods."""
    table = pq.read_table(file)
    return table.filter(pc.is_in(table["method"], pa.array(["saliency", ""])))


def test_shards_equal_the_whole_and_more_samples_add_only_theirs(finished):
    chosen = ("--config", "methods=[saliency, occlusion]")
    results, path = finished.folder / "results/tiny", finished.folder / "config/tiny.yaml"
    path.write_text(
        path.read_text().replace("  datasets:", "  methods: {occlusion: {}}\n  datasets:")
    )
    finished.snakemake(
        "--cores", "2", *chosen, "--",
        *(f"results/tiny/data/{cell}.parquet" for cell in CELLS if "occlusion" in cell),
    )  # fmt: skip
    summaries = [results / f"data/summary/{name}.parquet" for name in SUMMARIES]
    whole = [saliency_rows(file) for file in summaries]
    sizes = "\n      shard_size: 4\n      evaluation_shard_size: 2\n"
    path.write_text(path.read_text().rstrip() + sizes)
    files = [results / f"data/{cell}/{part}.parquet" for cell in CELLS for part in CELLS[cell]]
    files += [*summaries, results / "explorer.html"]
    targets = [str(file.relative_to(finished.folder)) for file in files]
    finished.snakemake("--cores", "2", *chosen, "--", *targets)
    for cell, places in CELLS.items():
        files = [results / f"data/{cell}/{part}.parquet" for part in places]
        assert sorted(files) == sorted((results / "data" / cell).glob("[0-9]*"))
        made = pa.concat_tables([pq.read_table(file) for file in files])
        assert made.equals(pq.read_table(results / f"data/{cell}.parquet")), cell
    for file, table in zip(summaries, whole, strict=True):
        assert saliency_rows(file).equals(table), file

    path.write_text(path.read_text().replace(f"max_samples: {SAMPLES}", "max_samples: 9"))
    pending = {Path(name) for name in finished.pending(*chosen)}
    added = {name for name in pending if name.parts[0] == "data" and name.parent.name == DATASET}
    assert {name.name for name in added} == {
        f"{places}.parquet" for places in ("4-8", "8-9", "4-6", "6-8")
    }
    for cell, first in {"generations/toy": "4-8", "attributions/toy/occlusion": "4-6"}.items():
        assert Path(f"data/{cell}/{DATASET}/{first}.parquet") in added
