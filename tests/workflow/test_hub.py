"""Runs with a hub: all jobs read one commit, fetched in advance, and then need no network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.loopback_hub import loopback_hub
from pisoft.datasets.embedded import make_records
from pisoft.store.parquet import read_provenance, read_rows

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

RUN_FILE = """\
run: hub
seed: 3
models: [remote]
datasets: [reviews]
methods: all
protocols: [dynamic]
masked_model: demo-masked
catalogue:
  models:
    remote:
      label: Remote
      quantization: nf4  # weights are converted once
      source: {kind: hub, repository: o/model}
  datasets:
    reviews:
      label: Reviews
      task: classification
      source: {kind: hub, repository: o/reviews, split: train}
      fields: {text: text}
      labels: {column: label, words: {positive: Positive, negative: Negative}}
      messages:
        - {role: user, content: "Text: {text}"}
      samples: 4
"""
PROMPTS, GENERATIONS = (
    Path("results/hub/data", kind, "remote/reviews.parquet") for kind in ("prompts", "generations")
)


def table(word):
    rows = [{**one["fields"], "label": one["label"]} for one in make_records("sentiment", 12, 5)]
    lines = [json.dumps({**row, "text": f"{word} {row['text']}"}) for row in rows]
    return {"train.jsonl": "\n".join(lines).encode()}


@pytest.fixture
def hub():
    with loopback_hub() as hub:
        yield hub


def snakemake(project, hub, *arguments, offline=False):
    """Run Snakemake in the project; offline, nothing responds at the hub's address."""
    return project.snakemake(
        "--cores", "1", *arguments, check=False, HF_HOME=str(project.folder / "cache"),
        HF_ENDPOINT="http://127.0.0.1:9" if offline else hub.address,
        HF_HUB_OFFLINE=str(int(offline)),
    )  # fmt: skip


def fetch(project, hub):
    """Run the command of `make fetch`."""
    return snakemake(project, hub, "fetch_hub", "--forcerun", "fetch_hub")


@pytest.mark.follows(
    "run `make fetch` where there is a network, or set HF_HOME to a cache that holds it"
)
def test_all_jobs_read_the_fetched_commits(project, hub):
    project.write("config/tiny.yaml", RUN_FILE)
    weights = {path.name: path.read_bytes() for path in (project.folder / "toy-model").iterdir()}
    model = hub.add("o/model", weights, cut=1000)
    reviews = hub.add("o/reviews", table("first"), "datasets")
    commit, dataset_commit = model.refs["main"], reviews.refs["main"]

    broken = fetch(project, hub)
    assert broken.returncode == 1
    assert "error: the download of 'o/model' broke off" in broken.stdout
    model.cut = None
    for repository, files in ((model, {**weights, "new.json": b"{}"}), (reviews, table("second"))):
        repository.commit(files)  # the branch moves on
    fetched = fetch(project, hub)
    assert f"o/model, commit {commit}\no/model: 7 files, 2.18 MB\n" in fetched.stdout

    until = ("--until", "generate")
    finished = snakemake(project, hub, *until, offline=True)
    assert finished.returncode == 0, finished.stdout
    assert read_provenance(project.folder / GENERATIONS)["model_commit"] == commit
    records = project.folder / "results/hub/data/datasets/reviews.parquet"
    assert read_provenance(records)["dataset_commit"] == dataset_commit
    assert all(row["fields"]["text"].startswith("first ") for row in read_rows(records, "datasets"))
    kept = json.loads((project.folder / "results/hub/data/models/remote/config.json").read_text())
    assert kept["quantization_config"]["load_in_4bit"]
    assert "Job stats" not in snakemake(project, hub, *until, offline=True).stdout

    def planned_after_resolving():
        forced = ("--until", "resolve_commit", "--forcerun", "resolve_commit")
        assert "Resolving o/model at main" in snakemake(project, hub, *forced).stdout
        return {*snakemake(project, hub, *until, "--dry-run").stdout.split()}

    moved = model.refs["main"], reviews.refs["main"]
    model.refs["main"], reviews.refs["main"] = commit, dataset_commit
    jobs = {"fetch_dataset", "generate"}
    assert not jobs & planned_after_resolving(), "an unmoved branch must re-run no job"
    model.refs["main"], reviews.refs["main"] = moved
    assert jobs <= planned_after_resolving()


def test_hub_errors_are_reported_before_any_computation(project, hub):
    project.write("config/tiny.yaml", RUN_FILE)
    hub.add("o/model", {"config.json": b"{}", "pytorch_model.bin": b""})
    hub.add("o/reviews", table("closed"), "datasets", gated=True)
    refused = snakemake(project, hub)
    assert refused.returncode == 1
    assert "error: 'o/model' has no weights as safetensors, only pickled ones" in refused.stdout
    assert "error: 'o/reviews' is gated: ask for access at" in refused.stdout
    assert not list((project.folder / "results/hub/data").rglob("*.*"))
