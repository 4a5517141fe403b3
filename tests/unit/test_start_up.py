"""A job imports what it uses and nothing else: a workflow of many small jobs is mostly start-up."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pisoft.config.jobs.fields import LoadedModel
from pisoft.config.models import TrainedModel
from pisoft.demo.models import train_tiny_model
from pisoft.demo.tokenizers import Dialogue
from pisoft.models.imports import without_collection

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"

# What neither the project's own methods nor models in full precision need.
NEVER = {
    "bitsandbytes",
    "captum",
    "datasets",
    "IPython",
    "inseq",
    "pytest",
    "sklearn",
    "torchvision",
}
DISPLAY = {"matplotlib", "seaborn", "statsmodels", "great_tables"}
MODELS = {"torch", "transformers", "tokenizers", "huggingface_hub"}
# What a tokenizer does without. Llama's configuration alone makes transformers import the compiler.
NETWORK = {"scipy", "transformers.modeling_utils"}

# Runs a script as Python would, and writes which modules are there in the end.
WATCHED = """
import json, runpy, sys
from importlib import import_module
from pathlib import Path
found, sys.argv = sys.argv[1], sys.argv[2:]
sys.path[0] = str(Path(sys.argv[0]).parent)
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    Path(found).write_text(json.dumps(sorted(sys.modules)))
"""
# Imports scripts one after the other, and names the first with which something unwanted comes in.
IMPORTED = """
import json, runpy, sys
from importlib import import_module
unwanted = set(json.loads(sys.argv[1]))
sys.path[0] = sys.argv[2]
for script in sys.argv[3:]:
    (import_module if script.startswith("pisoft.") else runpy.run_path)(script)
    if found := unwanted & set(sys.modules):
        sys.exit(f"{script} imports {sorted(found)}")
"""

MODEL = LoadedModel(name="tiny", dtype="float32", device="cpu").model_dump()
RUN = {"block_size": 16, "token_budget": None, "model": MODEL}
SETTINGS = {
    "fetch_dataset": {
        "dataset": "sentiment",
        "task": "classification",
        "source": {"kind": "embedded", "task": "sentiment", "records": 4, "seed": 0},
        "fields": {"text": {"column": "text", "first_sentences": None}},
        "labels": {"column": "label", "words": {"negative": "Negative", "positive": "Positive"}},
        "answer_column": None,
        "id_column": None,
    },
    "sample_dataset": {"dataset": "sentiment", "samples": 2, "seed": 1},
    "build_prompts": {
        "model": MODEL,
        "chat_template": "tokenizer",
        "dataset": "sentiment",
        "messages": [{"role": "user", "content": "Text: {text}"}],
        "label_words": ["Negative", "Positive"],
        "truncate": None,
        "max_tokens": None,
        "reserved_tokens": 1,
    },
    "generate": {**RUN, "task": "classification", "max_new_tokens": 2, "step_interval": 1},
    "attribute": {
        **RUN,
        "reinitialised_layers": None,
        "method": "saliency",
        "options": {},
        "masked_model": None,
        "target": "label",
        "step_scores": None,
        "scope": None,
        "seed": 1,
        "first_place": 0,
    },
    "evaluate_soft": {
        **RUN,
        "compile": False,
        "protocol": "dynamic",
        "target": "label",
        "evaluation": {"draws": 1, "pi_grid": [0.3, 0.7]},
        "seed": 1,
        "first_place": 0,
    },
    "evaluate_ranking": {
        **RUN,
        "not_applicable": None,
        "ranking": {"steps": 2},
        "scope": "content",
        "seed": 1,
    },
}
UNWANTED = {
    "fetch_dataset": NEVER | DISPLAY | MODELS | NETWORK,
    "sample_dataset": NEVER | DISPLAY | MODELS | NETWORK,
    "build_prompts": NEVER | DISPLAY | NETWORK,
    # For every model class, transformers itself imports SciPy's optimisers, but not its statistics.
    **{
        script: NEVER | DISPLAY | {"scipy.stats"}
        for script in ("generate", "attribute", "evaluate_soft", "evaluate_ranking")
    },
}


@pytest.fixture(scope="module")
def modules(tmp_path_factory) -> dict[str, set[str]]:
    """Modules at the end of every job that leads to evaluations, by script, really run."""
    folder = tmp_path_factory.mktemp("jobs")
    spoken = [
        Dialogue([{"role": "user", "content": f"Text: {n}"}], "Negative Positive", "one")
        for n in range(8)
    ]
    source = TrainedModel.model_construct(
        kind="trained", architecture="llama", datasets=(), hidden_size=16, layers=1, heads=2,
        key_value_heads=1, vocabulary_size=300, steps=1, batch_size=4, required_accuracy=0.0,
    )  # fmt: skip
    train_tiny_model(folder / "model", source, spoken, spoken)
    prepared = {"--prompts": "build_prompts", "--model": "model/config.json"}
    answered = {**prepared, "--generations": "generate"}
    explained = {**answered, "--attributions": "attribute"}
    inputs = {
        "fetch_dataset": {},
        "sample_dataset": {"--records": "fetch_dataset"},
        "build_prompts": {"--samples": "sample_dataset", "--model": "model/config.json"},
        "generate": prepared,
        "attribute": {**answered, "--times": "times"},
        "evaluate_soft": explained,
        "evaluate_ranking": explained,
    }
    return {
        script: modules_of(
            script,
            folder / f"{script}.json",
            *(text for name, made in given.items() for text in (name, str(folder / made))),
            "--output",
            str(folder / script),
        )
        for script, given in inputs.items()
    }


def modules_of(script: str, found: Path, *arguments: str) -> set[str]:
    """Run a script and return the modules that it has imported."""
    settings = ["--settings", json.dumps(SETTINGS[script])]
    path = SCRIPTS / f"{script}.py"
    finished = python(WATCHED, str(found), str(path), *settings, *arguments)
    assert finished.returncode == 0, finished.stderr
    return set(json.loads(found.read_text(encoding="utf-8")))


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter that sees the package."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": str(SCRIPTS), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("script", UNWANTED)
def test_a_job_imports_nothing_that_it_does_not_use(modules, script):
    assert not modules[script] & UNWANTED[script]


@pytest.mark.parametrize(
    ("kinds", "unwanted"),
    [
        (("fetch*", "sample*", "summarise*"), NEVER | DISPLAY | MODELS | {"scipy"}),
        (
            ("compare*", "tabulate*", "build_[eo]*", "pisoft/statistics/*", "pisoft/tables/*"),
            NEVER | MODELS | {"seaborn"},
        ),
        (("plot*", "pisoft/figures/*"), NEVER | MODELS),
        (("train*",), NEVER | DISPLAY | {"scipy.stats"}),
    ],
    ids=["preparing", "reading", "drawing", "training"],
)
def test_a_script_imports_nothing_that_its_kind_does_not_use(kinds, unwanted):
    files = [path for kind in kinds for path in sorted(SCRIPTS.glob(f"{kind}.py"))]
    assert files
    scripts = [  # a module of a room by its name
        str(path)
        if path.parent == SCRIPTS
        else ".".join(path.relative_to(SCRIPTS).with_suffix("").parts).removesuffix(".__init__")
        for path in files
    ]
    finished = python(IMPORTED, json.dumps(sorted(unwanted)), str(SCRIPTS), *scripts)
    assert finished.returncode == 0, finished.stderr


def test_what_a_script_has_imported_is_never_searched_for_garbage():
    code = (
        "import argparse, gc\n"
        "import pisoft.store.parquet\n"
        "from pisoft.workflow.commandline import run\n"
        "held = len(gc.get_objects())\n"
        "run(lambda _: print(gc.get_freeze_count() >= held), argparse.ArgumentParser())\n"
    )
    finished = python(code)
    assert finished.stdout == "True\n", finished.stderr


def test_collection_goes_on_after_imports_whatever_happens():
    with without_collection():
        assert not gc.isenabled()
        with without_collection():
            pass
        assert not gc.isenabled(), "the outer one has not ended"
    assert gc.isenabled()
    with pytest.raises(ImportError), without_collection():
        import no_such_module  # noqa: F401
    assert gc.isenabled()
