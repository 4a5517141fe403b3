"""Bad input ends in one clear line and a non-zero exit; nothing computed is lost."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pisoft.store.parquet import read_rows

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

KNOWN_BEFORE = {
    "maxsamples=3": r"maxsamples: unknown key; did you mean 'max_samples'?",
    "evaluation={pi_grid: [0.5, 1.5]}": "evaluation.pi_grid.1: must be less than 1 (got 1.5)",
    "catalogue={methods: {g: {method: grad_ellm, options: {layers: -1}}}}": (
        "method 'g': options: layers: must be greater than 0"
    ),
}


def test_what_can_be_known_before_any_job_is_said_before_any_job(project):
    for setting, message in KNOWN_BEFORE.items():
        result = project.snakemake("--cores", "1", "--config", setting, check=False)
        assert result.returncode != 0, setting
        assert message in result.stdout, result.stdout
        assert "Traceback" not in result.stdout, result.stdout
    assert not (project.folder / "results").exists()


def test_a_job_of_a_run_with_another_configuration_is_refused(project):
    """Jobs of a cluster read the run file when they start; it may have been edited by then."""
    file = "results/tiny/data/datasets/toy-sentiment.parquet"
    result = project.snakemake("--mode", "remote", "--cores", "1", "--", file, check=False)
    assert result.returncode != 0
    assert "results/tiny: the run file or a catalogue has changed since" in result.stdout
    assert "Traceback" not in result.stdout
    assert not (project.folder / file).exists()


def test_a_corrupt_file_is_named_and_finished_cells_are_kept(finished):
    project = finished
    results = project.folder / "results/tiny"
    broken = results / "data/attributions/toy/random/toy-sentiment.parquet"
    times = broken.stat()
    broken.write_bytes(bytes(times.st_size))
    os.utime(broken, ns=(times.st_atime_ns, times.st_mtime_ns))  # else the next call recomputes it
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
    again = "results/tiny/data/soft/dynamic/toy/random/toy-sentiment.parquet"
    project.snakemake("--cores", "1", again)
    assert (project.folder / again).exists()


def test_a_token_outside_the_vocabulary_names_file_and_sample(project):
    project.snakemake("--cores", "1", "results/tiny/data/prompts/toy/toy-sentiment.parquet")
    path = project.folder / "results/tiny/data/prompts/toy/toy-sentiment.parquet"
    path.with_name(f".{path.name}.seal").unlink()
    table = pq.read_table(path)
    rows = table.to_pylist()
    rows[1]["input_ids"][4] = 99999
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    prompts = str(path.relative_to(project.folder))
    project.snakemake("--touch", "--cores", "1", "--", prompts)
    result = project.snakemake("--cores", "1", check=False)
    assert result.returncode != 0
    assert f"toy-sentiment.parquet: sample {rows[1]['sample_id']}: token id 99999" in result.stdout


def test_records_that_cannot_be_used_are_rows_with_a_status(project):
    """An empty record is not sampled; one that is too long for the template alone fails visibly."""
    run_file = project.folder / "config/tiny.yaml"
    source = "source: {kind: file, path: records.csv, format: csv}"
    text = run_file.read_text().replace("label: Toy sentiment", f"label: Toy\n      {source}")
    run_file.write_text(text + "prompts: {max_tokens: 40}\n")
    project.write(
        "records.csv",
        "text,label\nA fine film.,positive\n,negative\nA dull film.,negative\nOdd.,neither\n",
    )
    results = project.folder / "results/tiny"
    tables = [f"tables/{name}/toy.html" for name in ("pi_soft_auc/dynamic", "insertion_deletion")]
    made = [f"results/tiny/{table}" for table in tables]
    project.snakemake("--cores", "2", "--config", "methods=[random]", "--", *made)
    fetched = read_rows(results / "data/datasets/toy-sentiment.parquet", "datasets")
    assert [row["status"] for row in fetched] == ["ok", "empty_record", "ok", "unknown_label"]
    prompts = read_rows(results / "data/prompts/toy/toy-sentiment.parquet", "prompts")
    assert {row["status"] for row in prompts} == {"prompt_too_long"}
    soft = read_rows(results / "data/soft/dynamic/toy/random/toy-sentiment.parquet", "soft")
    assert {row["status"] for row in soft} == {"prompt_too_long"}
    ranking = read_rows(results / "data/ranking/toy/random/toy-sentiment.parquet", "ranking")
    assert {row["status"] for row in ranking} == {"prompt_too_long"}
    for table in tables:
        assert "prompt_too_long" in (results / table).read_text()
