"""The configuration: every mistake gives one clear error, and the shipped run files load."""

import copy
import json
import re
from functools import reduce
from pathlib import Path

import pytest
from snakemake.cli import parse_config

import check_run_file
from helpers.eraser_dataset import write_eraser
from helpers.small_configuration import CATALOGUE, RUN, load_tree
from pisoft.attribution import load_method
from pisoft.attribution.base import AttributionMethod
from pisoft.config.cells import Cell
from pisoft.config.commandline import run_file_parser
from pisoft.config.evaluation import DrawBudget
from pisoft.config.jobs.cells import AttributeJob, RankingJob
from pisoft.config.jobs.displays import DisplayJob
from pisoft.config.jobs.fields import LoadedModel
from pisoft.config.jobs.hub import hub_models
from pisoft.config.jobs.records import FetchJob, PromptJob, SampleJob
from pisoft.config.loading import load_config, load_run
from pisoft.config.methods import ScoresFile
from pisoft.config.models import Resources
from pisoft.config.shards import sample_limit
from pisoft.config.validation import read_yaml
from pisoft.datasets.sources import check_columns
from pisoft.errors import BenchmarkError
from pisoft.records import label_key, placeholders
from pisoft.workflow.checks import configuration_hash

DELETED = object()
BUDGET = {"target_half_width": 0.01}
BOMB = reduce(lambda inner, _: [inner] * 9, range(60), "x")


def given(path="{local_root}/{model}/{dataset}.parquet", **entry):
    """Return a run with a method whose scores are imported."""
    source = {"kind": "scores", "path": path}
    return {"methods": ["mine"], "catalogue": {"methods": {"mine": {"source": source, **entry}}}}


def changed(tree, path, value):
    """Return a copy of a nested mapping with one value set, or removed."""
    tree = copy.deepcopy(tree)
    *parents, last = path.split("/")
    inner = tree
    for key in parents:
        inner = inner[int(key) if isinstance(inner, list) else key]
    if value is DELETED:
        del inner[last]
    else:
        inner[last] = value
    return tree


@pytest.fixture
def load(tmp_path):
    """Load a configuration with one value changed, at `run/…`, `models/…` and so on."""

    def load_changed(path=None, value=None, **run):
        tree = {"run": {**RUN, **run}, **CATALOGUE}
        if path is not None:
            tree = changed(tree, path, value)
        return load_tree(tree, tmp_path)

    return load_changed


def test_hashes_are_equal_exactly_for_equal_configurations(load):
    """A job that waited in a queue is refused if its run file or a catalogue has changed."""
    first = configuration_hash(load())
    assert configuration_hash(load()) == first
    assert configuration_hash(load(seed=2)) != first
    assert configuration_hash(load("datasets/reviews/label", "Another")) != first
    assert configuration_hash(load("models/small/source/revision", "refs/pr/1")) != first


@pytest.mark.parametrize(
    ("given", "sampler", "draws", "clamp"),
    [
        ({}, "iid", 15, "draw"),
        ({"preset": "efficient"}, "latin", 1, "draw"),
        ({"preset": "efficient", "draws": 4, "clamp": "mean"}, "latin", 4, "mean"),
        ({"preset": "sparse"}, "latin", 1, "draw"),
        ({"draws": BUDGET}, "iid", BUDGET | {"max": 15}, "draw"),
    ],
)
def test_a_preset_sets_defaults(load, given, sampler, draws, clamp):
    evaluation = load(evaluation=given).run_file.evaluation
    assert evaluation.model_dump()["draws"] == draws
    assert (evaluation.sampler, evaluation.clamp) == (sampler, clamp)
    assert evaluation.pi_per_step == (2 if given.get("preset") == "sparse" else None)


def test_a_restricted_model_has_only_its_allowed_cells(load):
    run = {"models": "all", "datasets": ["reviews", "made"], "methods": ["saliency", "random"]}
    run |= {"protocols": ["dynamic", "fixed"], "masked_model": "roberta-base"}
    limits = {"small": {"protocols": ["fixed"], "methods": ["random"], "datasets": ["reviews"]}}
    cells = load(**run, restrictions=limits).cells()
    assert [tuple(cell.keys.values()) for cell in cells] == [
        *(("dynamic", "trained", m, d) for m in run["methods"] for d in run["datasets"]),
        ("fixed", "small", "random", "reviews"),
        *(("fixed", "trained", m, d) for m in run["methods"] for d in run["datasets"]),
    ]


def test_a_run_file_overrides_the_resources_of_a_model(load):
    asked = {"small": {"gpu": 1, "mem_mb": 9000}}
    model = load("models/small/resources", {"mem_mb": 500, "threads": 3}, resources=asked)
    expected = Resources(gpu=1, mem_mb=9000, threads=3)
    assert model.models["small"].resources == expected
    assert load("models/small/device", "cuda", resources=asked).models["small"].device == "cuda"


@pytest.mark.parametrize(
    ("path", "value", "parts"),
    [
        ("models/small/device", "cuda", ["small: device: is 'cuda', but resources.gpu is 0"]),
        ("run/evaluation", {"score_floor": 5e-17},
         ["evaluation.score_floor: must be greater than or equal to 0.0000000", "(got 5e-17)"]),
        ("models/small/extends", ["x"], ["small: extends: must be a name, found ['x']"]),
        *(
            (f"models/small/source/{key}", name,
             [f"models.yaml: small: source.{key}: must be {says}", f"(got '{name}')"])
            for key, says, more in (
                ("repository", "`owner/name`",
                 ("a/b/c", "\u041erg/model", "a--b/c", "a/-b", "a/b.")),
                ("revision", "letters, digits and", ("a/../b",)),
            )
            for name in ("../b", "/b", "a//b", "a/b/", "a/{b}", "a b", "", *more)
        ),
        ("run/ranking", False,
         ["ranking: must be a section of keys (got False); null switches off an optional section"]),
        # types are those of YAML
        *(
            ("run/max_samples", value, [f"run.yaml: max_samples: must be {says} (got {value})"])
            for value, says in (
                (True, "a whole number"),
                (8.0, "a whole number"),
                ("-1", "greater than 0"),
            )
        ),
        ("run/evaluation", {"minimum_h0": True},
         ["run.yaml: evaluation.minimum_h0: must be a number (got True)"]),
        ("run/evaluation", {"pi_grid": [0.5, True]},
         ["run.yaml: evaluation.pi_grid.1: must be a number (got True)"]),
        ("run/metric_validation", {"noise": ["0.5", "many"]},
         ["run.yaml: metric_validation.noise.1: must be a number (got 'many')"]),
        ("run/sensitivity", "t", ["run.yaml: sensitivity: must be true or false (got 't')"]),
        ("run/seed", BOMB, ["run.yaml: seed: must be a whole number"]),
        # unknown names
        ("run/models", ["smal"], ["run.yaml: models: unknown name 'smal'", "'small'?"]),
        ("run/datasets", ["review"], ["run.yaml: datasets: unknown name", "'reviews'?"]),
        ("run/masked_model", "roberta-bas",
         ["run.yaml: masked_model: unknown name 'roberta-bas'", "did you mean 'roberta-base'?"]),
        ("run/methods", ["salienzy"], ["run.yaml: methods: unknown name", "'saliency'?"]),
        ("methods/saliency/method", "salience",
         ["method 'saliency'", "unknown attribution method 'salience'", "'saliency'?"]),
        ("methods/saliency", {"method": "value_zeroing", "target": "contrastive"},
         ["target: 'contrastive' is not allowed: scores of 'value_zeroing' are the same for"]),
        ("methods/saliency", {"method": "reagent", "target": "span"},
         ["target: 'span' is not allowed: 'reagent' explains single tokens; set `target`"]),
        ("methods/saliency/options", {"steps": 3}, ["method 'saliency': options: steps: unknown"]),
        ("methods/saliency", {"method": "inseq", "options": {"method": "saliancy"}},
         ["method 'saliency': options: method: 'saliancy' is not a method of Inseq; did you mean"]),
        ("methods/saliency",
         {"method": "inseq", "options": {"method": "saliency", "arguments": {"ab": True}}},
         ["method 'saliency': options: arguments: 'saliency' takes no 'ab'", "allowed: abs"]),
        ("methods/saliency", {"method": "value_zeroing", "options": {"threshold": float("inf")}},
         ["method 'saliency': options: threshold: must be a finite number (got inf)"]),
        ("datasets/reviews/extends", "movies", ["extends: unknown name 'movies'", "allowed: "]),
        ("run/resources", {"smal": {}}, ["resources: unknown name 'smal'", "'small'?"]),
        ("run/restrictions", {"smal": {}}, ["restrictions: unknown name 'smal'", "'small'?"]),
        *(
            ("run/restrictions", {"small": {kind: names}}, [f"restrictions.small.{kind}: {says}"])
            for kind, names, says in (
                ("methods", ["salency"], "unknown name 'salency'; did you mean 'saliency'?"),
                ("methods", ["random"], "leaves nothing of the run's methods (saliency)"),
                ("datasets", ["review"], "unknown name 'review'; did you mean 'reviews'?"),
                ("datasets", ["made"], "leaves nothing of the run's datasets (reviews)"),
                ("protocols", ["fixed"], "leaves nothing of the run's protocols (dynamic)"),
            )
        ),
        # contradictory sections
        ("run/seed", 2**70, [f"run.yaml: seed: must be below 2^63 (got {2**70})"]),
        ("run/evaluation", {"pi_grid": [0.5, 0.5]}, ["evaluation.pi_grid", "must increase"]),
        ("run/evaluation", {"draws": {"target_half_width": 0.1}, "pi_grid": [0.3, 0.6]},
         ["run.yaml: evaluation: a budget of draws needs at least 3", "[0.3, 0.6]"]),
        ("run/evaluation", {"draws": {"target_half_width": 0.1}, "clamp": "mean"},
         ["run.yaml: evaluation: clamp: 'mean' is not allowed where draws is a budget"]),
        ("run/evaluation", {"sampler": "count", "mask": "element"},
         ["evaluation: sampler: 'count' is not allowed with mask 'element'", "'token'"]),
        ("run/evaluation", {"step_interval": 7},
         ["evaluation.step_interval: 7 is not allowed with generation.step_interval 5", "is 5"]),
        ("run/evaluation", {"step_interval": 13}, ["allowed are its multiples, the nearest is 15"]),
        ("run/evaluation", {"pi_per_step": 3, "pi_grid": [0.2, 0.8]},
         ["pi_per_step: 3 is more than the 2 retaining"]),
        ("run", {**RUN, "stop": {}, "evaluation": {"preset": "sparse"}},
         ["stop: not allowed with evaluation.pi_per_step (preset `sparse`)"]),
        ("run", {**RUN, "stop": {"pool": {"review": 99}}},
         ["run.yaml: stop.pool: unknown name 'review'; did you mean 'reviews'?"]),
        # selections
        ("run/models", ["small", "small"], ["run.yaml: models: listed twice: small"]),
        ("run/datasets", [], ["run.yaml: datasets: nothing is selected"]),
        *(
            ("run/models", value, [f"run.yaml: models: expected `all` or a list of names{says}"])
            for value, says in (
                ("small", "; write [small] (got 'small')"),
                ([3], " (got [3])"),
                (None, " (got None)"),
                ({"small": None}, ""),
            )
        ),
        ("run/protocols", [], ["run.yaml: protocols: must have at least 1 item, not 0 (got [])"]),
        ("datasets/reviews/source/split", [], ["reviews: source.split: nothing is selected"]),
        ("datasets/reviews/source/split", ["a", "a"], ["source.split: listed twice: a (got ['a'"]),
        ("datasets/reviews/source/split", ["a", 3], ["source.split: expected a text or a list of"]),
        # invalid models
        *(
            (f"models/trained/source/{key}", value, [f"source{place}: {complaint}"])
            for key, value, place, complaint in (
                ("hidden_size", 97, ": hidden_size", "97 is not allowed with 4 heads"),
                ("key_value_heads", 3, ": key_value_heads", "3 is not allowed with 4 heads"),
                ("seed", 2**70, ".seed", f"must be below 2^63 (got {2**70})"),
            )
        ),
        # contradictory datasets
        ("datasets/reviews/labels/words", {1: "Good", 0: "Good"},
         ["reviews: labels.words: label words must differ"]),
        ("datasets/reviews/labels/words", {1: "Good", 0: " "}, ["label word of '0' is empty"]),
        ("datasets/reviews/labels/words", {0: "A", "0": "B"}, ["labels.words: '0' is given twice"]),
        *(
            ("datasets/reviews/labels/words", {1: "A", 0: word}, [f"invisible character: {shown}"])
            for word, shown in ((" B", "' B'"), ("B\u200b", r"'B\u200b'"), ("\u2060", r"'\u2060'"))
        ),
        ("datasets/reviews/labels", DELETED, ["reviews: a classification dataset needs `labels`"]),
        ("datasets/reviews/task", "generation", ["a generation dataset takes no `labels`"]),
        ("datasets/reviews/messages/0/content", "{txt}",
         ["reviews: messages use the field 'txt'", "did you mean 'text'?"]),
        ("datasets/reviews/messages/0/content", "hello", ["messages use no field of the record"]),
        ("datasets/reviews/truncate", "txet", ["truncate: 'txet'", "did you mean 'text'?"]),
        # planted statements
        *(
            ("datasets/reviews/source", {"kind": "embedded", **source}, [f"reviews: source{says}"])
            for source, says in (
                ({"task": "needle"}, ": task 'needle' needs a `haystack`"),
                ({"task": "why", "haystack": {}}, ": task 'why' takes no `haystack`"),
                ({"task": "conflict", "haystack": {"depths": [0.5]}},
                 ": haystack.depths: task 'conflict' needs 2 or more"),
                ({"task": "needle", "haystack": {"length": 19}},
                 ".haystack: length: 19 tokens have no room for two statements and 3 "
                 "distractors; allowed are 20 and more"),
                ({"task": "needle", "haystack": {"depths": [0, 0]}},
                 ".haystack: depths: must differ, got [0.0, 0.0]"),
            )
        ),
        ("datasets/made/source", {"kind": "embedded", "task": "needle", "haystack": {}},
         ["made: task: planted statements need `classification`, not generation"]),
        # labels
        *(
            (f"{place}/label", text, [f"{place.split('/')[1]}: label: {says}"])
            for place in ("models/small", "datasets/reviews", "methods/saliency")
            for text, says in (
                (" ", "must not be blank"),
                ("a\x00b", "must be one line without control characters (got 'a\\x00b')"),
                ("a\nb", "must be one line"),
                ("a\uffffb", "must be one line"),
            )
        ),
        *(
            ("run",
             {**RUN, kind: [name, "other"], "catalogue": {kind: {"other": {**like, **extra}}}},
             [f"{kind}: '{name}' and 'other' have the same label '{label}'", "`label` of 'oth"])
            for kind, name, like, extra, label in (
                ("models", "small", {"extends": "small"}, {"dtype": "bfloat16"}, "Small"),
                ("datasets", "reviews", {"extends": "reviews"}, {"label": "Reviews "}, "Reviews"),
                ("methods", "saliency", {"method": "saliency"}, {}, "Saliency"),
            )
        ),
        ("run",
         {**RUN, "layer_study": {}, "methods": ["other"], "catalogue": {"methods": {
             "other": {"method": "saliency", "label": "Grad-ELLM (depth selected)"}}}},
         ["'layer_study' and 'other' have the same label 'Grad-ELLM (depth selected)'"]),
        # entries added by the run file
        ("run/catalogue", {"models": {"small": {}}},
         ["run.yaml: catalogue.models.small: duplicate name", "models.yaml has it already"]),
        ("run",
         {**RUN, "models": ["a"],
          "catalogue": {"models": {"a": {"extends": "b"}, "b": {"extends": "a"}}}},
         ["catalogue.models: a: extends itself: a → b"]),
        ("run/models", ["trained"], ["model 'trained': source.datasets: 'made' is no selected"]),
        *(
            ("run", {**RUN, kind: ["mine"], "catalogue": {kind: {"mine": entry}}},
             ["'mine': source.path: braces are not allowed"])
            for kind, entry in (
                ("models", {"extends": "small", "source": {"kind": "local", "path": "{r}"}}),
                ("datasets", {"extends": "reviews",
                              "source": {"kind": "file", "path": "{r}/a", "format": "jsonl"}}),
            )
        ),
        # imported scores
        *(
            ("run", {**RUN, **given("mine.parquet", **{key: value})},
             ["mine: scores that are not attributed, by `source`, take no `method`, `options`"])
            for key, value in (
                ("options", {"layers": 2}), ("method", "saliency"), ("target", "label"),
            )
        ),
        ("run", {**RUN, **given("{method}.parquet")},
         ["'mine': source.path: braces are not allowed, except {local_root}, {model} and "
          "{dataset}: {method}.parquet"]),
        # names become folders and parts of command lines, even if not selected
        *(
            ("methods", {"saliency": {}, name: {}}, ["methods.yaml: ", says])
            for name, says in (
                *((name, "must be letters, digits, '.', '_' and '-',") for name in ("..", "ü", "")),
                *((name, str(name)[:50]) for name in (None, 3, "x" * 101)),
            )
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_in_one_sentence_with_its_key(load, path, value, parts):
    selection = {"models": ["trained"]} if path.startswith("models/trained") else {}
    selection |= {"datasets": ["made"]} if path.startswith("datasets/made") else {}
    with pytest.raises(BenchmarkError) as error:
        load(path, value, **selection)
    message = str(error.value)
    for part in parts:
        assert part in message
    assert "\n" not in message
    assert len(message) < 3000


def test_labels_of_one_methods_entries_state_the_options_that_differ(load):
    gradients = {"method": "integrated_gradients"}
    entries = {
        "default": gradients,
        "fewer": {**gradients, "options": {"steps": 7, "baseline": "zero"}},
        "other_target": {**gradients, "target": "contrastive"},
        "named": {**gradients, "label": "Mine", "family": "control", "options": {"steps": 9}},
        "of_inseq": {"method": "inseq", "options": {"method": "saliency"}},
    }
    config = load(methods=[*entries], catalogue={"methods": entries})
    assert [method.label for method in config.methods.values()] == [
        "Integrated Gradients",
        "Integrated Gradients (baseline: zero, steps: 7)",
        "Integrated Gradients (target: contrastive)",
        "Mine",
        "Inseq (method: saliency)",
    ]
    families = (config.methods[name].family for name in ("default", "named"))
    assert [*families] == ["gradient", "control"]


def test_a_modified_backward_pass_is_refused_for_quantised_weights_by_name(load, monkeypatch):
    monkeypatch.setattr(load_method("saliency"), "modifies_backward", True)
    quantised = {"quantization": "nf4", **CATALOGUE["models"]["small"]}
    message = "restrictions.small.methods: saliency modify .* quantised .nf4.; allowed: random$"
    with pytest.raises(BenchmarkError, match=message):
        load("models/small", quantised, methods=["random", "saliency"])
    restricted = {"small": {"methods": ["random"]}}
    load("models/small", quantised, methods=["random", "saliency"], restrictions=restricted)


def test_counterfactuals_may_need_the_masked_model(load):
    complaint = "run.yaml: masked model 'kept-masked': source.path: no such folder: nowhere"
    with pytest.raises(BenchmarkError, match=complaint):
        load(masked_model="kept-masked", ranking={"counterfactuals": "masked_model"})
    saved = load(masked_model="kept-masked", ranking={"counterfactuals": "records"})
    names = {"model": "small", "method": "saliency", "dataset": "reviews", "part": "reviews"}
    assert RankingJob.from_config(saved, **names).masked_model is None
    proposing = load(ranking={"counterfactuals": "masked_model"})
    assert RankingJob.from_config(proposing, **names).masked_model.name == "roberta-base"
    repositories = {source.repository for source in hub_models(proposing)}
    assert repositories - {source.repository for source in hub_models(saved)} == {"o/roberta"}


def test_a_required_masked_model_is_loaded_or_named(load, monkeypatch):
    """The run file may add it without the catalogue."""
    monkeypatch.setattr(AttributionMethod, "needs_masked_model", True)
    complaint = "'made-masked': source.datasets: 'made' is no selected embedded dataset"
    with pytest.raises(BenchmarkError, match=f"run.yaml: masked model {complaint}"):
        load(masked_model="made-masked")
    mine = {"extends": "roberta-base", "dtype": "bfloat16"}
    config = load(masked_model="mine", catalogue={"masked_models": {"mine": mine}})
    assert list(config.masked_models) == ["mine"]
    names = {"model": "small", "dataset": "reviews", "part": "reviews"}
    job = AttributeJob.from_config(config, method="saliency", **names)
    expected = LoadedModel(
        name="mine", repository="o/roberta", revision="main", dtype="bfloat16", device="auto"
    )
    assert job.masked_model == expected


def test_unselected_entries_cannot_break_a_run(load):
    """A broken entry, a restriction, and a masked model that no method needs."""
    changes = {"restrictions": {"trained": {"methods": ["random"]}}, "masked_model": "kept-masked"}
    config = load("models/broken", {"labbel": 1}, **changes)
    assert list(config.masked_models) == ["kept-masked"]
    assert config.cells() == [
        Cell(protocol="dynamic", model="small", method="saliency", dataset="reviews")
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"a: 1\nb: 2\na: 3\n", "line 3: duplicate key 'a'"),
        (b"a: [1", "is not valid YAML"),
        (b"- 1", "must hold a mapping, found list"),
        (b"content: {{text}}", "is not valid YAML: .*unhashable key"),
        (b"run: caf\xe9\n", "is not valid YAML: .*utf-8"),
        (b"a: " + b"[" * 2_000, "is not valid YAML"),
        (b"a: " + b"9" * 5_000, "is not valid YAML"),
        (b'a: "x\\ud800"', r"line 1: 'x\\ud800' holds half of a surrogate pair"),
        (b"a: 1:30", "line 1: 1:30 means 90 in YAML; write that, or '1:30' for a text"),
        (b"a: [1:30.5]", "line 1: 1:30.5 means 90.5"),
        (b"a: -010", "line 1: -010 means -8"),
        (b"a: 1\nno: 2", "line 2: no means false"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_yaml_is_refused_in_one_line(tmp_path, text, complaint):
    path = tmp_path / "run.yaml"
    path.write_bytes(text)
    with pytest.raises(BenchmarkError, match=f"^{path}: {complaint}") as error:
        read_yaml(path)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 1000


def test_command_line_values_are_parsed_as_numbers(load):
    """Snakemake passes values inside sections and lists of `--config` as strings."""
    changes = [
        "max_samples=8",
        "sensitivity=false",
        "ranking=",
        "evaluation={draws: {target_half_width: 1e-2, max: 9}, pi_grid: [.25, 0.5, 0.75]}",
        "resources={small: {gpu: 1, mem_mb: null}}",
        "catalogue={models: {mine: {extends: small, label: 7}}}",
    ]
    config = load(models=["small", "mine"], **parse_config(changes))
    assert (config.run_file.max_samples, config.run_file.sensitivity) == (8, False)
    assert config.run_file.ranking is None
    assert config.run_file.evaluation.draws == DrawBudget(target_half_width=0.01, max=9)
    assert config.run_file.evaluation.pi_grid == (0.25, 0.5, 0.75)
    assert config.models["small"].resources == Resources(gpu=1, mem_mb=None)
    assert config.models["mine"].label == "7"


@pytest.mark.parametrize("content", [None, "run: r".encode("utf-16"), b"run: [r"])
def test_make_reports_an_unreadable_run_file(root, tmp_path, content):
    path = tmp_path / "run.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BenchmarkError, match=f"^{path}: "):
        check_run_file.main(run_file_parser(None, path).parse_args([]))
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    for target in ("fetch", "export"):
        assert re.search(rf"^{target}: .*\n\t\$\(CHECK\)$", makefile, flags=re.M), target


def test_a_missing_catalogue_is_named(tmp_path):
    with pytest.raises(BenchmarkError, match=r"models.yaml: cannot be read"):
        load_config(RUN, tmp_path, "run.yaml", load_method)


# Local sources --------------------------------------------------------------------------------


def test_local_root_is_expanded_in_every_file_and_missing_files_are_named(load, tmp_path):
    paths = ["{local_root}/a", "{local_root}/b"]
    source = {"kind": "file", "path": paths, "format": "jsonl"}
    additions = {"datasets": {"mine": {"extends": "reviews", "source": source}}}
    (tmp_path / "a").touch()
    missing = f"dataset 'mine': source.path: no such file: {tmp_path}/b"
    with pytest.raises(BenchmarkError, match=missing):
        load(datasets=["mine"], catalogue=additions, local_root=str(tmp_path))
    (tmp_path / "b").touch()
    config = load(datasets=["mine"], catalogue=additions, local_root=str(tmp_path))
    assert config.datasets["mine"].source.paths == (f"{tmp_path}/a", f"{tmp_path}/b")
    assert paths == ["{local_root}/a", "{local_root}/b"]


def gguf_model(path):
    source = {"kind": "gguf", "path": str(path)}
    return {"models": {"mine": {"label": "Mine", "source": source}}}


def test_gguf_files_are_checked_before_any_job(load, tmp_path):
    (tmp_path / "mine.Q4_0.gguf").write_bytes(b"GGUF and more")
    assert load(models=["mine"], catalogue=gguf_model(tmp_path / "mine.Q4_0.gguf"))
    missing = r"model 'mine': source.path: no such file: .*; did you mean '.*/mine\.Q4_0\.gguf'\?"
    with pytest.raises(BenchmarkError, match=missing):
        load(models=["mine"], catalogue=gguf_model(tmp_path / "mine.Q4_1.gguf"))
    (tmp_path / "other.gguf").write_bytes(b"PK")
    with pytest.raises(BenchmarkError, match=r"source.path: .*other.gguf is not a GGUF file"):
        load(models=["mine"], catalogue=gguf_model(tmp_path / "other.gguf"))


def test_an_unreadable_path_is_named(load, monkeypatch):
    def denied(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", denied)
    with pytest.raises(BenchmarkError, match=r"path: cannot be read: Permission denied: a\.gguf$"):
        load(models=["mine"], catalogue=gguf_model("a.gguf"))


WEIGHTS = {"config.json": "", "model.safetensors": ""}


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        (None, "model 'mine': source.path: .*no such folder"),
        ({}, "model 'mine': source.path: .*holds no config.json"),
        ({"config.json": "", "pytorch_model.bin": ""}, r"holds no \*.safetensors"),
        (WEIGHTS | {"config.json": '{"num_hidden_layers": 1001}'}, "layers: 1001 is not allowed"),
    ],
)
def test_a_local_model_folder_is_checked(load, tmp_path, files, complaint):
    folder = tmp_path / "model"
    if files is not None:
        folder.mkdir()
    for name, text in (files or {}).items():
        (folder / name).write_text(text)
    source = {"kind": "local", "path": str(folder)}
    additions = {"models": {"mine": {"label": "Mine", "source": source}}}
    with pytest.raises(BenchmarkError, match=complaint):
        load(models=["mine"], catalogue=additions)


# Imported scores ------------------------------------------------------------------------------


def test_imported_scores_are_a_method_of_the_run(load):
    config = load(**given(), local_root="there")
    mine = config.methods["mine"]
    assert (mine.file, mine.label, mine.family) == (None, "mine", "external")
    assert mine.source.path_of("small", "reviews") == "there/small/reviews.parquet"
    assert list(config.sources(ScoresFile)) == ["mine"]
    assert DisplayJob.from_config(config).imported == ("mine",)
    named = load(**given(label="Mine", family="gradient"), local_root="there").methods["mine"]
    assert (named.label, named.family) == ("Mine", "gradient")
    assert load().sources(ScoresFile) == {}


# Small functions ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "key"),
    [(1, "1"), (1.0, "1"), (0.5, "0.5"), (True, "true"), ("True", "true"), ("Yes", "Yes")],
)
def test_label_values_are_compared_as_text(value, key):
    assert label_key(value) == key


def test_placeholders_are_listed_in_order_and_braces_can_be_escaped():
    assert placeholders("{b} {{no}} {a}{b}") == ["b", "a", "b"]


# Shipped run files ----------------------------------------------------------------------------


def load_shipped(root, name, **changes):
    path = root / "config" / f"{name}.yaml"
    return load_config(
        {**read_yaml(path), **changes}, root / "config/catalogue", str(path), load_method
    )


def check_shipped(config):
    for dataset in config.datasets:
        check_columns(FetchJob.from_config(config, dataset=dataset))
        for model in config.models:
            assert PromptJob.from_config(config, model=model, dataset=dataset).messages


def test_the_papers_run_file_loads_with_the_papers_settings(root):
    config = load_shipped(root, "paper")
    check_shipped(config)
    assert config.run_file.evaluation.pi_grid == tuple(round(0.05 * k, 2) for k in range(1, 20))
    assert config.run_file.evaluation.draws == 15
    assert config.run_file.generation.max_new_tokens == 50
    depths = config.studies["layer_study"].depths
    assert len(depths) == 2 * 2 * 5
    assert all(depth.candidate for depth in depths)
    assert {depth.depth for depth in depths if depth.fixed} == {32}
    assert [sample_limit(config, name) for name in ("imdb", "sst2")] == [2000, 2000]
    assert config.datasets["imdb"].source.splits == ("train", "test")  # all reviews
    assert config.datasets["sst2"].source.repository == "SetFit/sst2"  # sentences, not phrases
    sentiment = config.datasets["imdb"].messages
    assert sentiment == config.datasets["sst2"].messages
    assert [message.content for message in sentiment] == [
        "You are a helpful sentiment classifier. Please help to do the sentiment classification "
        "of the given text and respond ONLY with the single word Positive or Negative.",
        "Text: {text}",
    ]
    assert [message.content for message in config.datasets["boolq"].messages] == [
        "You are a factual question answering system. Determine if the given passage supports "
        "the question being true. Respond ONLY with the single word 'true' or 'false' in "
        "lowercase, without any punctuation or additional text.",
        "Passage: {passage}\n\nQuestion: {question}",
    ]


def test_every_catalogue_entry_is_valid(root, tmp_path):
    write_eraser(tmp_path / "boolq", {"a1": ["One . ", "Two ."]}, {"a1": [(0, 2)]})
    everything = {"run": "all", "models": "all", "datasets": "all", "methods": "all"}
    everything["local_root"] = str(tmp_path)
    everything["restrictions"] = {"llama-3.1-70b-instruct": {"methods": ["random"]}}  # quantised
    check_shipped(load_config(everything, root / "config/catalogue", "all", load_method))
    for name in read_yaml(root / "config/catalogue/masked_models.yaml"):
        load_config(
            everything | {"masked_model": name}, root / "config/catalogue", "all", load_method
        )


def test_the_local_run_file_loads_with_enough_records(root, shared):
    from pisoft.datasets.sampling import sample
    from pisoft.datasets.sources import fetch
    from pisoft.store.parquet import OK

    config = load_shipped(root, "local", local_root=str(shared))
    check_shipped(config)
    for name in config.datasets:
        rows = fetch(FetchJob.from_config(config, dataset=name))
        job = SampleJob.from_config(config, part=name)
        chosen = sample(rows, job.samples, config.run_file.seed)
        assert len(chosen) == 25
        assert all(row["status"] == OK for row in rows)


# YAML that run files do not need ------------------------------------------------------------------


def test_merge_keys_are_read(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("base: &base {a: 1, b: 2}\nown: {<<: *base, b: 3}\n", encoding="utf-8")
    assert read_yaml(path)["own"] == {"a": 1, "b": 3}


def test_job_settings_contain_no_markup(load):
    """Snakemake's report embeds them in its script unescaped."""
    label = "</script><script>alert(1)</script>&amp;"
    config = load("datasets/reviews/label", label)
    text = DisplayJob.from_config(config).to_json()
    assert not set("<>&") & set(text)
    assert json.loads(text)["datasets"]["reviews"] == label


def test_messages_name_all_run_files_and_yte_is_refused(tmp_path):
    files = [tmp_path / "one.yaml", tmp_path / "two.yaml"]
    for file in files:
        file.write_text("run: r\n", encoding="utf-8")
    with pytest.raises(BenchmarkError, match=f"^{files[0]}, {files[1]}: seed: "):
        load_run({**RUN, "seed": -1}, files, tmp_path, load_method)
    path = tmp_path / "run.yaml"
    path.write_text("__use_yte__: true\nrun: ?1 + 1\n", encoding="utf-8")
    with pytest.raises(BenchmarkError, match=r"run\.yaml: __use_yte__ is not allowed"):
        load_run({**RUN}, [path], tmp_path, load_method)
