"""Jobs import only what they use: start-up dominates a workflow of many small jobs."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import pytest

from helpers.fresh_python import run_code
from pisoft.attribution import load_method
from pisoft.config.jobs import JOBS
from pisoft.config.loading import load_run
from pisoft.config.models import TrainedModel
from pisoft.demo.models import train_tiny_model
from pisoft.demo.tokenizers import Dialogue
from pisoft.models.imports import without_collection

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"

# Needed neither by the project's own methods nor by models in full precision.
NEVER = {
    *("bitsandbytes", "captum", "datasets", "IPython", "inseq"),
    *("pytest", "sklearn", "torchvision"),
}
DISPLAY = {"matplotlib", "seaborn", "statsmodels", "great_tables"}
MODELS = {"torch", "transformers", "tokenizers", "huggingface_hub"}
# Not needed by a tokenizer. Llama's configuration makes transformers import the compiler.
NETWORK = {"scipy", "transformers.modeling_utils"}

# Runs a script like Python and writes which modules are loaded at its end.
WATCHED = """
import json, runpy, sys
from importlib import import_module
from pathlib import Path
noted, sys.argv = sys.argv[1], sys.argv[2:]
sys.path[0] = str(Path(sys.argv[0]).parent)
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    Path(noted).write_text(json.dumps(sorted(sys.modules)))
"""
# Imports scripts one after the other and names the first that imports something unwanted.
IMPORTED = """
import json, runpy, sys
from importlib import import_module
unwanted = set(json.loads(sys.argv[1]))
sys.path[0] = sys.argv[2]
for script in sys.argv[3:]:
    (import_module if script.startswith("pisoft.") else runpy.run_path)(script)
    if imported := unwanted & set(sys.modules):
        sys.exit(f"{script} imports {sorted(imported)}")
"""

JOB_OF = {# a script's job before evaluations
    "fetch_dataset": "fetch", "sample_dataset": "sample", "build_prompts": "prompt",
    "generate": "generate", "attribute": "attribute", "evaluate_soft": "evaluate",
    "evaluate_ranking": "ranking",
}  # fmt: skip
LITTLE = {
    "models": ["demo-llama"], "datasets": ["demo-sentiment", "demo-why"], "methods": ["saliency"],
    "max_samples": 2, "evaluation": {"draws": 1, "pi_grid": [0.3, 0.7]}, "ranking": {"steps": 2},
}  # fmt: skip
CELL = {
    "model": "demo-llama", "dataset": "demo-sentiment", "part": "demo-sentiment",
    "method": "saliency", "protocol": "dynamic",
}  # fmt: skip
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
        key_value_heads=1, vocabulary_size=300, context=1024, steps=1, batch_size=4,
        required_accuracy=0.0,
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
    made = {}
    for script, given in inputs.items():
        files = [text for name, file in given.items() for text in (name, str(folder / file))]
        output = ["--output", str(folder / script)]
        made[script] = modules_of(script, folder / f"{script}.json", *files, *output)
    return made


def modules_of(script: str, noted: Path, *arguments: str) -> set[str]:
    """Run a script and return the modules that it has imported."""
    config = load_run({"run": "little", **LITTLE}, [], ROOT / "config", load_method)
    settings = ["--settings", JOBS[JOB_OF[script]].from_config(config, **CELL).to_json()]
    path = SCRIPTS / f"{script}.py"
    finished = run_code(WATCHED, str(noted), str(path), *settings, *arguments)
    assert finished.returncode == 0, finished.stderr
    return set(json.loads(noted.read_text(encoding="utf-8")))


@pytest.mark.parametrize("script", UNWANTED)
def test_jobs_import_only_what_they_use(modules, script):
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
def test_scripts_import_only_what_their_kind_uses(kinds, unwanted):
    files = [path for kind in kinds for path in sorted(SCRIPTS.glob(f"{kind}.py"))]
    assert files
    scripts = [  # a module of a room by its name
        str(path)
        if path.parent == SCRIPTS
        else ".".join(path.relative_to(SCRIPTS).with_suffix("").parts).removesuffix(".__init__")
        for path in files
    ]
    finished = run_code(IMPORTED, json.dumps(sorted(unwanted)), str(SCRIPTS), *scripts)
    assert finished.returncode == 0, finished.stderr


def test_imported_modules_are_excluded_from_garbage_collection():
    code = (
        "import argparse, gc\n"
        "import pisoft.store.parquet\n"
        "from pisoft.workflow.commandline import run\n"
        "held = len(gc.get_objects())\n"
        "run(lambda _: print(gc.get_freeze_count() >= held), argparse.ArgumentParser())\n"
    )
    finished = run_code(code)
    assert finished.stdout == "True\n", finished.stderr


def test_garbage_collection_resumes_after_imports_and_errors():
    with without_collection():
        assert not gc.isenabled()
        with without_collection():
            pass
        assert not gc.isenabled(), "the outer one has not ended"
    assert gc.isenabled()
    with pytest.raises(ImportError), without_collection():
        import no_such_module  # noqa: F401
    assert gc.isenabled()
