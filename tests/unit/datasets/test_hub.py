"""Reading from a local hub server and from its cache: commits, files, refusals."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch

from helpers.fetch_jobs import fetch_job
from helpers.loaded_models import local_model
from helpers.loopback_hub import GOOD_TOKEN, STRANGER, loopback_hub
from helpers.preloaded_python import interpreter
from helpers.random_masked_models import roberta
from helpers.random_models import model_and_network
from helpers.tiny_tokenizers import numbered_tokenizer
from pisoft.config.datasets import HubDataset
from pisoft.datasets import sources
from pisoft.datasets.hub import hub_advice, read_commit
from pisoft.errors import BenchmarkError
from pisoft.models import repository
from pisoft.workflow.code_hash import _imported_modules, _with_imports

ROOT = Path(__file__).parents[3]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
# Performs the actions on the command line in a separate process: address and cache of the hub are
# read when its library is imported.
PROBE = """
import json, os, sys, time
sys.path[:0] = sys.argv[2:]
time.sleep = lambda seconds: None  # between two attempts
import torch
from helpers.fetch_jobs import fetch_job
from helpers.loaded_models import local_model
from pisoft.datasets.sources import fetch
from pisoft.errors import BenchmarkError
from pisoft.datasets.hub import resolve_commit
from pisoft.models.loading import load_model
from pisoft.models.masked import load_masked_model
from pisoft.models.tokenizer import load_tokenizer, model_context

def read(what, name, revision):
    if what == "token":  # of all that is read from here on
        return os.environ.update(HF_TOKEN=name)
    model = local_model(repository=name, revision=revision)
    source = {"kind": "hub", "repository": name, "split": "train", "revision": revision}
    dataset = fetch_job(source)
    def weights(loaded):
        return [loaded.commit, float(next(loaded.network.parameters()).sum())]
    return {
        "models": lambda: resolve_commit(name, revision, "models"),
        "datasets": lambda: resolve_commit(name, revision, "datasets"),
        "tokenizer": lambda: len(load_tokenizer(model, None)),
        "context": lambda: model_context(model, None),
        "model": lambda: weights(load_model(model, None)),
        "masked": lambda: weights(load_masked_model(model, None, torch.device("cpu"))),
        "dataset": lambda: [row["fields"]["text"] for row in fetch(dataset)],
    }[what]()

outcomes = []
for asked in json.loads(sys.argv[1]):
    try:
        outcomes.append(read(*asked))
    except BenchmarkError as error:
        outcomes.append(f"error: {error}")
print(json.dumps(outcomes))
"""
MODEL_READERS = ("models", "tokenizer", "context", "model", "masked")
DATASET_READERS = ("datasets", "dataset")
TABLE = {"README.md": b"---\nlicense: mit\n---\n", "train.csv": b"text,label\ngood film,1\n"}


def files_of(network, tokenizer, folder) -> dict[str, bytes]:
    """Return the files of a saved model."""
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    network = model_and_network("llama-gqa", torch.float32)[1]
    return files_of(network, numbered_tokenizer(97), tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def masked_files(tmp_path_factory):
    masked = roberta()
    return files_of(masked.network, masked.tokenizer, tmp_path_factory.mktemp("masked"))


@pytest.fixture
def hub():
    with loopback_hub() as hub:
        yield hub


def read(hub, home, *reads, **environment):
    """Return the outcome of each (action, name, revision), all in one process."""
    probe = home / "probe.py"
    probe.write_text(PROBE, encoding="utf-8")
    paths = (f"{ROOT}/scripts", f"{ROOT}/tests")
    command = [interpreter(with_hub=False), str(probe), json.dumps(reads), *paths]
    variables = {
        **{name: value for name, value in os.environ.items() if name != "HF_TOKEN"},
        "HF_HOME": str(home), "HF_ENDPOINT": hub.address, "HF_HUB_OFFLINE": "0", **environment,
    }  # fmt: skip
    finished = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=600)
    assert finished.returncode == 0, finished.stderr
    outcomes = json.loads(finished.stdout.splitlines()[-1])
    assert not any("\n" in outcome for outcome in outcomes if isinstance(outcome, str))
    return outcomes


def all_readers(name, revision="main"):
    return [
        *((what, f"m/{name}", revision) for what in MODEL_READERS),
        *((what, f"d/{name}", revision) for what in DATASET_READERS),
    ]


def add(hub, name, files, **facts):
    """Add a model and a dataset that behave the same."""
    hub.add(f"m/{name}", files, **facts)
    hub.add(f"d/{name}", TABLE, "datasets", **facts)


def assert_all_read(reads, outcomes):
    """Check that only reading these models as masked ones is refused."""
    for (what, name, _), outcome in zip(reads, outcomes, strict=True):
        assert str(outcome).startswith("error: ") == (what == "masked"), (what, name, outcome)


def assert_refused(outcomes, reads, *advice):
    for (what, name, _), outcome in zip(reads, outcomes, strict=True):
        assert str(outcome).startswith("error: "), (what, name, outcome)
        assert f"'{name}'" in outcome, outcome
        for text in advice:
            assert text in outcome, (what, outcome)


@pytest.mark.slow
@pytest.mark.follows("check the name at …; for a private repository run `hf auth login`")
@pytest.mark.follows("check `revision`")
@pytest.mark.follows("try again later")
@pytest.mark.follows("choose a repository or a revision with safetensors")
@pytest.mark.follows("choose a model whose class is part of transformers")
@pytest.mark.follows("choose a repository or a revision of data files")
def test_refusals_without_a_token_state_the_fix_in_one_sentence(hub, files, tmp_path):
    add(hub, "gated", files, gated=True)
    add(hub, "busy", files, status=500)
    add(hub, "open", files)
    expected = {
        ("gated", "main"): "is gated: ask for access at http",
        ("absent", "main"): "does not exist on the hub or is private",
        ("busy", "main"): "HTTP 500: try again later",
        ("open", "mainn"): "has no revision 'mainn'",
    }
    reads = {key: all_readers(*key) for key in expected}
    refused = add_unreadable(hub, files)
    reads |= {key: [(what, *key) for what in readers] for key, (readers, _) in refused.items()}
    expected |= {key: advice for key, (_, advice) in refused.items()}
    given = iter(read(hub, tmp_path, *(one for group in reads.values() for one in group)))
    for key, group in reads.items():
        outcomes = [next(given) for _ in group]
        assert_refused(outcomes, group, expected[key])
        if key == ("open", "mainn"):
            for outcome in (outcomes[0], outcomes[len(MODEL_READERS)]):  # the files that resolve it
                assert "did you mean 'main'?" in outcome
    for held in hub.repositories.values():
        held.status = None
    for name in ("m/pickled", "m/own"):
        hub.repositories["models", name].commit(files)
    data = hub.repositories["datasets", "d/script"].commit(TABLE)
    better = [*all_readers("open"), *all_readers("busy"), ("model", "m/pickled", "main")]
    better += [("model", "m/own", "main"), ("dataset", "d/script", data)]
    assert_all_read(better, read(hub, tmp_path, *better))


def add_unreadable(hub, files):
    """Add repositories with unsupported files; return which action refuses each, and why."""
    small = {name: held for name, held in files.items() if name != "model.safetensors"}
    hub.add("m/pickled", {**small, "pytorch_model.bin": b"weights"})
    hub.add("m/weightless", small)
    config = b'{"model_type": "own", "auto_map": {"AutoConfig": "own.C"}}'
    hub.add("m/own", {**files, "config.json": config})
    hub.add("d/script", {**TABLE, "script.py": b""}, "datasets")
    refusals = {
        "m/pickled": (("models", "model"), "only pickled ones (pytorch_model.bin), which may run"),
        "m/weightless": (("models", "model"), "has no weights as safetensors; it holds"),
        "m/own": (("context", "model"), "asks for code of its own to be run (`auto_map`)"),
        "d/script": (("dataset",), "made by a program of its own"),
    }
    return {(name, "main"): refusal for name, refusal in refusals.items()}


@pytest.mark.slow
@pytest.mark.follows("then run `hf auth login` or set HF_TOKEN")
@pytest.mark.follows("run `hf auth login` or set HF_TOKEN again, and check the name")
def test_an_invalid_token_and_one_without_access_are_distinguished(hub, files, tmp_path):
    add(hub, "gated", files, gated=True)
    reads = all_readers("gated")
    calls = [
        call
        for token in ("hf_wrong", STRANGER, GOOD_TOKEN)
        for call in (("token", token, ""), *reads)
    ]
    given = read(hub, tmp_path, *calls)
    size = 1 + len(reads)
    wrong, stranger, good = (given[at + 1 : at + size] for at in range(0, len(given), size))
    assert_refused(wrong, reads, "the hub refuses your token")
    assert_refused(stranger, reads, "is gated or closed to the account of your token")
    assert_all_read(reads, good)


@pytest.mark.slow
def test_an_unreachable_hub_is_reported_with_and_without_offline_mode(hub, files, tmp_path):
    add(hub, "far", files)
    reads, cached = all_readers("far"), fill_cache(tmp_path, files)
    *outcomes, commit, tokens, model = read(hub, tmp_path, *reads, *cached, HF_HUB_OFFLINE="1")
    assert (commit, tokens, model[0]) == (COMMIT, 97, COMMIT)
    outcomes += read(hub, tmp_path, *reads, HF_ENDPOINT="http://127.0.0.1:9")
    assert_refused(outcomes, reads * 2, "the hub cannot be reached", "`make fetch`", "HF_HOME")
    assert not hub.asked


def fill_cache(home, files):
    """Put a model into the cache file by file; return a function that reads it there."""
    folder = home / "hub/models--o--n"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs/main").write_text(COMMIT)
    snapshot = folder / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    for name, held in files.items():
        (snapshot / name).write_bytes(held)
    return [("models", "o/n", "main"), ("tokenizer", "o/n", "main"), ("model", "o/n", COMMIT)]


@pytest.mark.slow
@pytest.mark.follows("call the same command again")
def test_an_interrupted_download_resumes_at_the_next_call(hub, files, tmp_path):
    add(hub, "cut", files, cut=15)
    reads = [("model", "m/cut", "main"), ("dataset", "d/cut", "main")]
    assert_refused(read(hub, tmp_path, *reads), reads, "broke off: call the same command again")
    model = reads[:1]
    outcomes = read(hub, tmp_path, *model, HF_HUB_OFFLINE="1")
    assert_refused(outcomes, model, "not all of it", "the hub cannot be reached")
    for held in hub.repositories.values():
        held.cut = None
    hub.asked.clear()
    (commit, _), texts = read(hub, tmp_path, *reads)
    assert commit in hub.repositories["models", "m/cut"].commits
    assert texts == ["good film"]
    downloaded = {path.rpartition("/")[2] for path in hub.asked if path.startswith("GET /m/cut")}
    assert downloaded == {"model.safetensors"}, "a complete file was downloaded again"


@pytest.mark.slow
@pytest.mark.follows("cannot be fetched, and the local cache holds commit …: run `make fetch`")
def test_a_pinned_commit_survives_branch_moves_and_is_read_offline(
    hub, files, masked_files, tmp_path
):
    masked = hub.add("m/mlm", masked_files).refs["main"]
    moving = hub.add("m/n", {**files, "consolidated.safetensors": b"x", "pytorch_model.bin": b""})
    dataset = hub.add("d/n", TABLE, "datasets")
    resolving = [("models", "m/n", "main"), ("datasets", "d/n", "main")]
    commit, dataset_commit = read(hub, tmp_path, *resolving)
    assert commit == moving.refs["main"]
    torch.manual_seed(1)
    other = model_and_network("llama-mha-tied", torch.float32)[1]
    moved = moving.commit(files_of(other, numbered_tokenizer(97), tmp_path / "b"))
    dataset_moved = dataset.commit({**TABLE, "train.csv": b"text,label\nbad film,0\n"})
    reading = [(what, "m/n", commit) for what in ("tokenizer", "context", "model")]
    reading += [("dataset", "d/n", dataset_commit), ("masked", "m/mlm", masked)]
    first = read(hub, tmp_path, *reading)
    assert first[2][0] == commit
    assert first[3] == ["good film"]
    assert first[4][0] == masked
    assert not [path for path in hub.asked if "consolidated" in path or "pytorch" in path]
    # The library would use its latest cached version, ignoring the requested commit.
    late = ("dataset", "d/n", dataset_moved)
    *outcomes, refused = read(hub, tmp_path, *resolving, *reading, late, HF_HUB_OFFLINE="1")
    assert outcomes == [commit, dataset_commit, *first]
    assert f"commit {dataset_moved} cannot be fetched" in refused
    *commits, weights, texts = read(hub, tmp_path, *resolving, ("model", "m/n", moved), late)
    assert commits == [moved, dataset_moved]
    assert weights[0] == moved
    assert weights[1] != first[2][1]
    assert texts == ["bad film"]


def test_a_commit_record_must_match_repository_and_revision(tmp_path):
    record = tmp_path / "main.json"
    for text in ("{", "[]", "{}"):
        record.write_text(text)
        with pytest.raises(BenchmarkError, match=r"main\.json: is not a record of a commit"):
            read_commit(record, "o/n", "main")
    right = {"repository": "o/n", "revision": "main", "commit": COMMIT}
    for changed in ({"repository": "o/m"}, {"revision": "v1"}, {"commit": "main"}):
        record.write_text(json.dumps(right | changed))
        with pytest.raises(BenchmarkError, match="states no commit of 'o/n' at revision 'main'"):
            read_commit(record, "o/n", "main")
    record.write_text(json.dumps(right))
    assert read_commit(record, "o/n", "main") == COMMIT


def test_code_changes_do_not_resolve_commits_again():
    used = _with_imports(_imported_modules(ROOT / "scripts/resolve_commit.py"))
    assert used <= {"pisoft"}, "an edit would re-run the job, and the branch may have moved"


def test_unexpected_errors_are_cut_to_their_first_line():
    error = ValueError("Unknown split 'tset'.\nMore.")
    assert hub_advice(error, "o/n", "main", "datasets").endswith("Unknown split 'tset'.")


def test_a_commit_record_replaces_only_the_revision(tmp_path):
    record = tmp_path / "main.json"
    record.write_text(json.dumps({"repository": "o/n", "revision": "main", "commit": COMMIT}))
    model = local_model(repository="o/n", revision="main")
    at_commit = model.model_copy(update={"revision": COMMIT})
    assert repository.located(model, [record]) == (at_commit, None)
    here = model.model_copy(update={"repository": None})
    assert repository.located(here, [tmp_path / "config.json"]) == (here, tmp_path)
    source = HubDataset(kind="hub", repository="o/n", split="test", configuration="c")
    dataset = fetch_job(source)
    assert sources.at_commit(dataset, None) == dataset
    chosen = sources.at_commit(dataset, record)
    assert chosen.source == source.model_copy(update={"revision": COMMIT})
