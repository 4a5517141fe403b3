"""Bad input ends in one clear line and a non-zero exit; nothing computed is lost."""

from __future__ import annotations

import csv
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pisoft.store.parquet import read_rows

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

FILE = "results/tiny/data/datasets/toy-sentiment.parquet"
REFUSED = {
    "method 'g': options: layers: must be greater than 0": (
        *("--config", "catalogue={methods: {g: {method: grad_ellm, options: {layers: -1}}}}"),
    ),
    # Cluster jobs read the run file when they start; it may have been edited by then.
    "results/tiny: the run file or a catalogue has changed since": ("--mode", "remote", "--", FILE),
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_settings_are_refused_before_any_job(project, message):
    result = project.snakemake("--cores", "1", *REFUSED[message], check=False)
    assert result.returncode != 0
    assert message in result.stdout
    assert "Traceback" not in result.stdout
    assert not (project.folder / FILE).exists()


@pytest.mark.follows("run the workflow again")
def test_a_corrupt_file_is_named_and_finished_cells_are_kept(finished):
    project = finished
    results = project.folder / "results/tiny"
    broken = results / "data/attributions/toy/random/toy-sentiment.parquet"
    times = broken.stat()
    broken.write_bytes(bytes(times.st_size))
    os.utime(broken, ns=(times.st_atime_ns, times.st_mtime_ns))  # or the next call recomputes it
    (results / "data/soft/dynamic/toy/random/toy-sentiment.parquet").unlink()
    (results / "data/soft/dynamic/toy/saliency/toy-sentiment.parquet").unlink()
    soft = [
        f"results/tiny/data/soft/dynamic/toy/{name}/toy-sentiment.parquet"
        for name in ("random", "saliency")
    ]
    result = project.snakemake("--cores", "1", *soft, check=False)
    assert result.returncode != 0
    assert "random/toy-sentiment.parquet: is not a readable Parquet file" in result.stdout
    assert "delete the file and run the workflow again" in result.stdout
    assert (results / "data/soft/dynamic/toy/saliency/toy-sentiment.parquet").exists()
    assert not (results / "data/soft/dynamic/toy/random/toy-sentiment.parquet").exists()
    broken.unlink()
    project.snakemake("--cores", "1", str(broken.relative_to(project.folder)))
    assert broken.exists()


def test_a_token_outside_the_vocabulary_names_file_and_sample(finished):
    project = finished
    path = project.folder / "results/tiny/data/prompts/toy/toy-sentiment.parquet"
    path.with_name(f".{path.name}.seal").unlink()
    table = pq.read_table(path)
    rows = table.to_pylist()
    rows[1]["input_ids"][4] = 99999
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    prompts = str(path.relative_to(project.folder))
    project.snakemake("--touch", "--cores", "1", "--", prompts)
    generations = prompts.replace("/prompts/", "/generations/")
    result = project.snakemake("--cores", "1", generations, check=False)
    assert result.returncode != 0
    assert f"toy-sentiment.parquet: sample {rows[1]['sample_id']}: token id 99999" in result.stdout


def test_one_method_and_one_usable_record_suffice_for_tables(project):
    """An empty record is not sampled; a record with a template token fails visibly."""
    run_file = project.folder / "config/tiny.yaml"
    source = "source: {kind: file, path: records.csv, format: csv}"
    run_file.write_text(
        run_file.read_text()
        .replace("label: Toy sentiment", f"label: Toy\n      {source}")
        .replace("methods: all", "methods: [saliency]")
    )
    project.write(
        "records.csv",
        "text,label\nA fine film.,positive\n,negative\n<|eot_id|> Dull.,negative\nOdd.,neither\n",
    )
    results = project.folder / "results/tiny"
    table = "results/tiny/tables/pi_soft_auc/dynamic/toy.html"  # one job writes all tables
    project.snakemake("--cores", "2", table, "results/tiny/explorer.html")
    fetched = read_rows(results / "data/datasets/toy-sentiment.parquet", "datasets")
    assert [row["status"] for row in fetched] == ["ok", "empty_record", "ok", "unknown_label"]
    for kind, place in (
        *(("prompts", "toy"), ("generations", "toy"), ("attributions", "toy/saliency")),
        *(("soft", "dynamic/toy/saliency"), ("ranking", "toy/saliency")),
    ):
        rows = read_rows(results / f"data/{kind}/{place}/toy-sentiment.parquet", kind)
        assert {row["status"] for row in rows} == {"ok", "control_token"}, kind
    for table in ("pi_soft_auc/dynamic", "insertion_deletion"):
        assert "1 control_token" in (results / f"tables/{table}/toy.html").read_text()
    with (results / "tables/pi_soft_auc/dynamic/toy.csv").open(encoding="utf-8") as file:
        lines = [line for line in csv.DictReader(file) if line["n"] == "1"]
    assert lines
    assert not [line for line in lines if line["low"]], "a single sample has no interval"
