"""Inputs, options and parameters of jobs depend only on the configuration."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from snakemake.exceptions import WorkflowError
from snakemake.iocontainers import Wildcards
from snakemake.resources import Resources

from pisoft.attribution import load_method
from pisoft.config.loading import load_run
from pisoft.config.models import ModelEntry
from pisoft.config.validation import read_yaml
from pisoft.cost.limits import Limits
from pisoft.store.shards import expanded, shards_of
from pisoft.workflow.checks import check_unchanged
from pisoft.workflow.displays import Displays
from pisoft.workflow.inputs import Inputs
from pisoft.workflow.jobs import Jobs, one_of, part_constraint, stated_throughput

ROOT = Path(__file__).parents[3]
DATA = Path("results/r/data")
LLAMA = "llama-3.1-8b-instruct"


def run(name, **changes):
    """Return one of the run files, with changed keys."""
    raw = read_yaml(ROOT / "config" / name) | changes
    return load_run(raw, [], ROOT / "config", load_method)


@pytest.fixture(scope="module")
def demo():
    return run("config.yaml")


@pytest.fixture(scope="module")
def paper():
    return run("paper.yaml", operators={})


def of(**names):
    return Wildcards(fromdict=names)


def test_wildcards_match_only_names_of_the_run(demo, paper):
    assert re.fullmatch(one_of(["a.b", "c"]), "a.b")
    assert not re.fullmatch(one_of(["a.b", "c"]), "axb")
    assert not re.fullmatch(one_of([]), "")
    assert re.fullmatch(part_constraint(demo), "demo-why")
    assert not re.fullmatch(part_constraint(demo), "demo-why/0-8"), "not sharded"
    assert re.fullmatch(part_constraint(paper), "sst2/0-2000")
    assert not re.fullmatch(part_constraint(paper), "sst2")


def test_a_model_is_loaded_from_its_source(demo, paper, tmp_path):
    folder = "results/r/data/models/demo-llama"
    assert f"{folder}/model.safetensors" in Inputs(demo, DATA).model(of(model="demo-llama"))
    commit = "results/r/data/commits/models/meta-llama/Llama-3.1-8B-Instruct/main.json"
    assert Inputs(paper, DATA).model(of(model=LLAMA)) == [commit]
    for name in ("config.json", "a.safetensors", "notes.txt"):
        (tmp_path / name).touch()
    models = {
        "local": {"kind": "local", "path": str(tmp_path)},
        "gguf": {"kind": "gguf", "path": "a.gguf"},
    }
    entries = {name: ModelEntry(label="L", source=source) for name, source in models.items()}
    inputs = Inputs(SimpleNamespace(models=entries), DATA)
    files = [str(tmp_path / name) for name in ("a.safetensors", "config.json")]
    assert inputs.model(of(model="local")) == inputs.tokenizer(of(model="local")) == files
    assert inputs.original_model(of(model="gguf")) == ["a.gguf"]
    assert inputs.model(of(model="gguf")) == inputs.tokenizer(of(model="gguf"))
    assert "results/r/data/models/gguf/model.safetensors" in inputs.model(of(model="gguf"))


def test_4_bit_weights_come_from_a_folder_and_tokenizers_from_the_hub(paper):
    inputs, big = Inputs(paper, DATA), of(model="llama-3.1-70b-instruct")
    assert f"results/r/data/models/{big.model}/model.safetensors" in inputs.model(big)
    commit = "results/r/data/commits/models/meta-llama/Llama-3.1-70B-Instruct/main.json"
    assert inputs.tokenizer(big) == inputs.original_model(big) == [commit]


def test_a_job_without_a_model_holds_no_gpu(paper):
    jobs = Jobs(paper, None, ROOT / "scripts", "python")
    gpus = {
        (rule, method): jobs.resources(rule)["gpu"](of(model=LLAMA, method=method))
        for rule in ("attribute", "evaluate_soft")
        for method in ("random", "saliency")
    }
    assert [case for case, count in gpus.items() if count != 1] == [("attribute", "random")]


def test_records_are_read_from_their_source(demo, paper):
    embedded = of(dataset="demo-why")
    assert Inputs(demo, DATA).records(embedded) == Inputs(demo, DATA).commit(embedded) == []
    inputs = Inputs(paper, DATA)
    assert inputs.records(of(dataset="sst2")) == []
    (commit,) = inputs.commit(of(dataset="sst2"))
    assert commit.startswith("results/r/data/commits/datasets/")
    assert inputs.candidates(of(part="sst2/0-2000")) == f"{DATA}/datasets/sst2.parquet"


def test_a_dataset_has_the_files_of_all_its_shards(paper):
    files = Inputs(paper, DATA).all_parts("{model}/{part}")
    by_part = files(of(model=LLAMA, part="imdb/0-672"))
    assert by_part == files(of(model=LLAMA, dataset="imdb"))
    assert by_part[0] == f"{LLAMA}/imdb/0-672"
    assert len(by_part) > 1


@pytest.mark.parametrize(
    ("method", "scores"), [("saliency", "0-672"), ("integrated_gradients", "336-672")]
)
def test_an_evaluation_reads_its_samples_of_a_larger_shard(paper, method, scores):
    cell = of(model=LLAMA, protocol="dynamic", method=method, part="imdb/504-672")
    files = [read(cell) for name, read in Inputs(paper, DATA).evaluated.items() if name != "model"]
    folders = (f"prompts/{LLAMA}", f"generations/{LLAMA}", f"attributions/{LLAMA}/{method}")
    assert files == [
        f"{DATA}/{folder}/imdb/{places}.parquet"
        for folder, places in zip(folders, ("0-672", "0-672", scores), strict=True)
    ]
    settings = Jobs(paper, None, ROOT / "scripts", "python").settings("evaluate")(cell)
    assert (json.loads(settings)["first_sample"], json.loads(settings)["rows"]) == (504, [504, 672])


def test_missing_imported_scores_end_the_run_with_the_fix(tmp_path):
    methods = {"mine": {"source": {"kind": "scores", "path": f"{tmp_path}/{{model}}.parquet"}}}
    config = run("config.yaml", catalogue={"methods": methods}, methods=["mine", "random"])
    cell = of(model="demo-llama", method="mine", part="demo-why")
    path = tmp_path / "demo-llama.parquet"
    with pytest.raises(SystemExit) as ended:
        Inputs(config, DATA).given_scores(cell)
    assert ended.value.code == (
        f"error: method 'mine': source.path: no such file: {path}; `make export CONFIG=…` writes a "
        "file to begin with"
    )
    path.touch()
    assert Inputs(config, DATA).given_scores(cell) == str(path)


def test_permuted_scores_are_computed_from_their_method():
    inputs = Inputs(run("demo-trust.yaml"), DATA)
    file = inputs.permuted_scores(
        of(model="demo-llama", method="saliency-permuted-1", part="demo-why")
    )
    assert file == f"{DATA}/attributions/demo-llama/saliency/demo-why.parquet"
    assert inputs.permuted_scores(of(model="demo-llama", method="oracle", part="demo-why")) == []


def test_files_are_passed_as_patterns_and_single_shards_as_paths(paper):
    shards = [f"d/prompts/m/sst2/{at}.parquet" for at in ("0-8", "8-16", "16-20")]
    given = {"whole": shards, "prompts": shards[1], "none": []}
    whole, single = Jobs(paper, None, ROOT / "scripts", "python").named_files(None, given)
    kind, _, pattern = whole.partition("=")
    assert kind == "whole"
    assert [str(file) for path in expanded(pattern) for file in shards_of(path)] == shards
    assert single == f"prompts={shards[1]}"


def test_a_command_names_the_interpreter_and_is_not_a_setting(demo):
    jobs = Jobs(demo, None, Path("/a b/scripts"), "/c d/python")
    parameters = jobs.parameters("sample_dataset", "sample")
    assert parameters["command"](None, None) == "'/c d/python' '/a b/scripts/sample_dataset'.py"
    settings = parameters["settings"](of(part="demo-why"))
    assert settings == jobs.settings("sample")({"part": "demo-why"})
    assert '"seed"' in settings


def test_limits_grow_with_the_attempts_of_a_job(demo):
    cells = []

    def limits_of(rule, cell):
        cells.append((rule, cell))
        return Limits(runtime=7, mem_mb=100)

    jobs = Jobs(demo, SimpleNamespace(for_job=limits_of), ROOT, "python")
    resources = jobs.resources("evaluate_soft")
    cell = of(method="random", part="demo-why", model="demo-llama", protocol="fixed")
    assert resources["runtime"](cell, 3) == 21
    assert cells == [("evaluate_soft", "fixed/demo-llama/random/demo-why")], "as in its paths"
    assert resources["gpu"](cell) == 0


def test_the_throughput_comes_from_the_profile():
    def settings(values):
        return SimpleNamespace(default_resources=values)

    assert stated_throughput(settings(None)) is None
    assert stated_throughput(settings({"throughput": 400})) == 4e14
    for parse in (["throughput=400"], []):
        parsed = Resources.parser_factory(allow_expressions=True, defaults="bare")(parse)
        assert stated_throughput(settings(parsed)) == (4e14 if parse else None)


def test_displays_without_data_are_omitted():
    def cells(pattern, name):
        path = pattern.format(protocol="p", model="m", dataset="d")
        return [path] if name == "layer_study" else []

    tables = Displays("tables", DATA, ROOT / "rules", cells)
    assert list(tables.displays) == ["layer_study"]
    assert list(tables.titles()) == ["<results>/tables/layer_study/p/m.html"]
    outputs = tables.outputs()
    assert [*outputs] == ["csv", "tex", "html"]
    (shown,) = outputs["html"]
    labels = shown.flags["report"].labels
    assert labels == {"table": tables.displays["layer_study"].title, "routing": "p", "model": "m"}
    assert tables.parameters()["folder"](None) == "results/r/tables"
    assert list(tables.single()) == ["layer_study"]


@pytest.mark.follows("revert the change, or stop the run and restart it")
def test_a_job_from_another_configuration_is_refused(demo, paper):
    environment = {}
    check_unchanged(demo, environment, is_run=True)
    check_unchanged(demo, environment, is_run=False)
    with pytest.raises(WorkflowError, match="results/paper: the run file or a catalogue has chang"):
        check_unchanged(paper, environment, is_run=False)
    check_unchanged(paper, environment, is_run=True)
    check_unchanged(demo, environment, is_run=False)
