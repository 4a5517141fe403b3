"""Loading tokenizers and datasets: a hub that refuses, an offline cache, and broken folders."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pisoft.config.datasets import HubDataset, TextField
from pisoft.config.slices.base import ModelSlice
from pisoft.config.slices.data import FetchSlice
from pisoft.data.sources import fetch
from pisoft.embedded.source import made_source
from pisoft.errors import BenchmarkError
from pisoft.hub import hub_advice
from pisoft.lm.tokenizer import load_tokenizer, model_context
from tiny_tokenizers import llama_tokenizer, mistral_tokenizer

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REFUSALS = {  # repository → (HTTP status, the hub's error code), what the message must say
    "o/refused": ((401, None), "does not exist on the hub or is private"),
    "o/absent": ((404, "RepoNotFound"), "does not exist on the hub or is private"),
    "o/gated": ((403, "GatedRepo"), "run `hf auth login`"),
    "o/forbidden": ((403, None), "run `hf auth login`"),
    "o/no-revision": ((404, "RevisionNotFound"), "has no revision 'main'"),
    "o/broken-aggregated": ((500, None), "HTTP 500: try again later"),
}
# Loads every repository named on the command line as model, config and dataset, in a process of
# its own: the hub's address and cache are read when its library is imported.
PROBE = """
import json, sys, time
time.sleep = lambda seconds: None  # between two attempts
from pisoft.data.sources import fetch
from pisoft.embedded.source import made_source
from pisoft.errors import BenchmarkError
from pisoft.lm.tokenizer import load_tokenizer, model_context
from pisoft.config.slices.data import FetchSlice
from pisoft.config.slices.base import ModelSlice

def outcome(load, *arguments):
    try:
        return repr(load(*arguments))[:80]
    except BenchmarkError as error:
        return f"error: {error}"

outcomes = {}
for name in sys.argv[1:]:
    model = ModelSlice(name="m", repository=name, revision="main", dtype="float32",
                       quantization="none", device="cpu")
    source = {"kind": "hub", "repository": name, "split": "test"}
    dataset = FetchSlice(dataset="d", task="generation", source=source,
                         fields={"text": {"column": "text"}}, labels=None, id_column=None,
                         answer_column=None)
    outcomes[name] = [outcome(load_tokenizer, model, None), outcome(model_context, model, None),
                      outcome(fetch, dataset, made_source)]
print(json.dumps(outcomes))
"""


def probe(names, root, home, **environment):
    """Return what loading each repository gives: tokenizer, context, dataset."""
    found = subprocess.run(
        [sys.executable, "-c", PROBE, *names],
        capture_output=True,
        text=True,
        timeout=300,
        env={
            **os.environ,
            "PYTHONPATH": str(root / "scripts"),
            "HF_HOME": str(home),
            **environment,
        },
    )
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout.splitlines()[-1])


class _Refusing(BaseHTTPRequestHandler):
    """Answers as the hub does for repositories it does not give out."""

    def do_GET(self):
        name = next((name for name in REFUSALS if name in self.path), "o/absent")
        status, code = REFUSALS[name][0]
        self.send_response(status)
        if code is not None:
            self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, *arguments):
        """Keep the tests' output quiet."""


@pytest.fixture
def refusing_hub():
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Refusing)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def model(repository="o/name"):
    return ModelSlice(
        name="m",
        repository=repository,
        revision="main",
        dtype="float32",
        quantization="none",
        device="cpu",
    )


def write_model(folder, tokenizer, **config):
    tokenizer.save_pretrained(folder)
    values = {"model_type": "llama", "max_position_embeddings": 77, "vocab_size": 800} | config
    (folder / "config.json").write_text(json.dumps(values))


def cached_model(home, repository, tokenizer, **config):
    """Lay a model out as the hub's cache does."""
    folder = home / "hub" / ("models--" + repository.replace("/", "--"))
    write_model(folder / "snapshots" / COMMIT, tokenizer, **config)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(COMMIT)


@pytest.mark.slow
def test_every_refusal_is_one_sentence_that_says_what_to_do(refusing_hub, root, tmp_path):
    found = probe(REFUSALS, root, tmp_path, HF_ENDPOINT=refusing_hub, HF_HUB_OFFLINE="0")
    for name, (_, advice) in REFUSALS.items():
        for place, outcome in zip(("model", "model", "hub dataset"), found[name], strict=True):
            assert outcome.startswith(f"error: {place}"), outcome
            assert f"'{name}'" in outcome
            assert advice in outcome, outcome
            assert "\n" not in outcome


@pytest.mark.slow
def test_an_offline_cache_is_read_and_what_it_lacks_is_named(root, tmp_path):
    cached_model(tmp_path, "o/llama", llama_tokenizer())
    cached_model(tmp_path, "o/mistral", mistral_tokenizer(), model_type="mistral")
    names = ["o/llama", "o/mistral", "o/elsewhere"]
    found = probe(names, root, tmp_path, HF_HUB_OFFLINE="1")
    for name in names[:2]:
        assert not found[name][0].startswith("error")
        assert found[name][1] == "77"
    for outcome in [*found["o/elsewhere"], found["o/llama"][2]]:
        assert "is not in the local cache and the hub cannot be reached" in outcome
        assert "HF_HOME" in outcome


def test_a_local_folder_is_read_without_the_hub(tmp_path):
    write_model(tmp_path / "m", llama_tokenizer())
    tokenizer = load_tokenizer(model(None), tmp_path / "m")
    assert tokenizer.encode("good film") == llama_tokenizer().encode("good film")
    assert tokenizer.chat_template == llama_tokenizer().chat_template
    assert model_context(model(None), tmp_path / "m") == 77


def test_a_model_that_states_no_context_has_none(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "mamba"}')
    assert model_context(model(None), tmp_path) is None


def test_an_absent_folder_is_named(tmp_path):
    for load in (load_tokenizer, model_context):
        with pytest.raises(BenchmarkError, match=r"model 'm': no such folder: .*nowhere"):
            load(model(None), tmp_path / "nowhere")


@pytest.mark.parametrize("content", [None, "{", "{}"])
def test_a_folder_without_a_usable_tokenizer_is_one_clear_error(content, tmp_path):
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content)
        (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(BenchmarkError, match="model 'm': ") as error:
        load_tokenizer(model(None), tmp_path)
    assert str(tmp_path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["tiny-llama-chat", "tiny-mistral-chat", "stories-260k"])
def test_real_tokenizers_load(name, shared):
    folder = shared / "models" / name
    assert load_tokenizer(model(None), folder).is_fast
    assert model_context(model(None), folder) == (512 if name == "stories-260k" else 1024)


def test_a_hub_dataset_is_read_with_its_configuration_split_and_revision(monkeypatch):
    import datasets

    asked = {}

    def load_dataset(*arguments, **options):
        asked.update(arguments=arguments, options=options)
        return [datasets.Dataset.from_list([{"text": " good film "}, {"text": ""}])]

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    source = HubDataset(kind="hub", repository="o/n", configuration="c", split="test", revision="r")
    rows = fetch(
        FetchSlice(
            dataset="d",
            task="generation",
            source=source,
            fields={"text": TextField(column="text")},
            labels=None,
            id_column=None,
            answer_column=None,
        ),
        made_source,
    )
    assert asked == {"arguments": ("o/n", "c"), "options": {"split": ["test"], "revision": "r"}}
    assert [row["status"] for row in rows] == ["ok", "empty_record"]


def test_an_unforeseen_error_keeps_its_first_line():
    error = ValueError("Unknown split 'tset'. Should be one of ['train', 'test'].\nMore.")
    advice = hub_advice(error, "o/n", "main", "datasets")
    assert advice.endswith("Unknown split 'tset'. Should be one of ['train', 'test'].")
