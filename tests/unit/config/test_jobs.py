"""A job's settings hold exactly the keys it depends on."""

from pathlib import Path
from typing import get_args

import pytest

from helpers.eraser_dataset import write_eraser
from pisoft.attribution import load_method
from pisoft.config.base import Strict
from pisoft.config.jobs import JOBS
from pisoft.config.jobs.cells import ranked_datasets
from pisoft.config.loading import load_config
from pisoft.config.run_file import RunFile
from pisoft.config.validation import read_yaml
from pisoft.errors import BenchmarkError

ROOT = Path(__file__).parents[3]
CATALOGUE = ROOT / "config/catalogue"
WILDCARDS = {
    "dataset": "demo-sentiment", "part": "demo-sentiment", "model": "demo-llama",
    "protocol": "dynamic", "kind": "models", "repository": "o/r", "revision": "main",
}  # fmt: skip


def job_of(config, name, **wildcards):
    """Return the settings of a job, by default of the first dataset and model."""
    method = "saliency-permuted-1" if name == "construct" else "saliency"
    names = WILDCARDS | {"masked_model": config.run_file.masked_model, "method": method} | wildcards
    return JOBS[name].from_config(config, **names)


@pytest.fixture
def raw(monkeypatch):
    monkeypatch.chdir(ROOT)
    demo, trust = (read_yaml(ROOT / f"config/{name}.yaml") for name in ("config", "demo-trust"))
    studies = {name: trust[name] for name in ("metric_validation", "sanity_checks", "layer_study")}
    studies["operators"] = {"others": ["mean"], "methods": ["random", "saliency"]}
    other = {"masked_models": {"other": {"extends": "demo-masked"}}}
    catalogue = demo["catalogue"] | other
    empty = {"restrictions": {}, "ranking": {}, "stop": {}}
    return demo | studies | empty | {"catalogue": catalogue}


def load(raw, **changes):
    return load_config(raw | changes, CATALOGUE, "test", load_method)


def settings_of(raw):
    config = load(raw)
    off = set() if config.run_file.stop else {"decisions"}
    return {name: job_of(config, name).to_json() for name in JOBS if name not in off}


def test_settings_survive_a_round_trip(raw):
    config = load(raw)
    for name in JOBS:
        settings = job_of(config, name)
        assert type(settings).model_validate_json(settings.to_json()) == settings


FROM_DRAWS = "summarise sensitivity layer_study published"
RESAMPLED = "uncertainty resampling density permuted sanity_checks sensitivity context_use"
ALL_SCORES = (
    "evaluate sanity_checks density evidence datamodel display figure compare published explorer"
)
NAMES = "display figure index published explorer"  # of the selected ones
REACHED = {  # by changed key of the run file: the jobs whose settings change
    "run": ("other", "run index explorer"),
    "seed": (2, f"sample attribute evaluate ranking construct {RESAMPLED} "
             "metric_validation layer_study datamodel inspect"),
    "models": (["demo-llama"], f"{NAMES} sanity_checks layer_study"),
    "datasets": (["demo-why", "demo-sentiment"], "display figure index explorer uncertainty"),
    # Other methods have no permutations, and "all layers" has no separate name.
    "methods": (["saliency"], f"{NAMES} compare permuted layer_study"),
    "masked_model": ("other", "make_masked published"),
    "protocols": (["dynamic"], ""),
    "restrictions": ({"demo-llama": {"methods": ["random"]}}, "display figure compare layer_study"),
    "resources": ({"demo-llama": {"gpu": 1, "mem_mb": 900}}, ""),
    "target": ("generated", "attribute import evaluate export display figure published explorer"),
    "max_samples": (3, "sample"),
    "block_size": (4, "generate attribute evaluate ranking"),
    "local_root": ("there", ""),
    "prompts.max_tokens": (99, "prompt published"),
    "generation.max_new_tokens": (9, "generate published"),
    "generation.step_interval": (7, "generate published"),
    "evaluation.scope": ("all", f"{ALL_SCORES} ranking construct inspect"),
    "evaluation.normalisation": ("rank", ALL_SCORES),
    "evaluation.step_scores": ("aggregated", f"{ALL_SCORES} construct"),
    "evaluation.step_interval": (10, f"{ALL_SCORES} inspect"),
    "evaluation.score_floor": (0.01, "evaluate datamodel display figure published explorer"),
    "evaluation.pi_grid": ([0.2, 0.5, 0.8], "evaluate inspect datamodel published explorer"),
    "evaluation.pi_per_step": (
        1,
        "evaluate datamodel uncertainty metric_validation density display figure published "
        "explorer",
    ),
    "evaluation.sampler": ("iid", "evaluate datamodel published"),
    "evaluation.draws": (3, "evaluate datamodel published"),
    "evaluation.mask": ("element", "evaluate datamodel published"),
    "evaluation.operator": ("unknown", "evaluate datamodel inspect published"),
    "evaluation.minimum_h0": (0.5, f"evaluate datamodel {FROM_DRAWS}"),
    "evaluation.preset": ("paper", "evaluate datamodel published"),
    "evaluation.clamp": ("mean", f"display figure {FROM_DRAWS}"),
    "ranking.operator": ("zero", "ranking published"),
    "ranking.flip_of": ("first_token", "ranking published"),
    "ranking.counterfactuals": ("records", "ranking published"),
    "ranking.answer_deletion": (True, "ranking published"),
    "ranking.steps": (7, "ranking published"),
    "statistics.resamples": (500, RESAMPLED),
    "statistics.equivalence_margin": (0.1, "uncertainty display figure decisions"),
    "stop.against": ("leader", "decisions"),
    "stop.margin": (0.1, "decisions"),
    "stop.clip_ns": (0.5, "decisions"),
    "stop.clip_nc": (3, "decisions"),
    "stop.pool": ({"demo-sentiment": 99}, "decisions"),
    "sensitivity": (True, ""),
    "qualitative.top_share": (0.2, "display figure"),
    "layer_study.models": (["demo-llama"], "layer_study"),
    "layer_study.datasets": (["demo-why"], ""),
    "layer_study.depths": ([2], "layer_study"),
    "layer_study.token_weights": (["original"], "layer_study display figure index explorer"),
    "layer_study.development_share": (0.5, "layer_study"),
    "layer_study.fixed_depth": (3, "layer_study"),
    "metric_validation.models": (["demo-llama"], ""),
    "metric_validation.datasets": (["demo-why"], ""),
    "metric_validation.noise": ([0.5, 3], "metric_validation display figure"),
    "metric_validation.permutations": (2, "permuted"),
    "metric_validation.permuted_methods": (["saliency"], "permuted"),
    "sanity_checks.models": (["demo-llama"], "sanity_checks"),
    "sanity_checks.datasets": (["demo-why"], ""),
    "sanity_checks.layers": ([1], "sanity_checks"),
    "sanity_checks.labels": (True, "sanity_checks"),
    "sanity_checks.methods": (["saliency"], ""),
    "operators.models": (["demo-llama"], ""),
    "operators.datasets": (["demo-why"], ""),
    "operators.others": (["unknown"], "inspect"),
    "operators.draws": (2, "inspect"),
    "operators.methods": (["saliency"], ""),
    "figures.width": (88, "figure"),
    "explorer.samples": (3, "explorer"),
    "catalogue": ({"models": {}}, f"{NAMES} compare"),
}  # fmt: skip


def keys_of_run_files():
    """Yield every key of a run file, nested ones in dotted form."""
    for name, field in RunFile.model_fields.items():
        kinds = (field.annotation, *get_args(field.annotation))
        section = [one for one in kinds if isinstance(one, type) and issubclass(one, Strict)]
        if section and name not in REACHED:
            yield from (f"{name}.{key}" for key in section[0].model_fields)
        else:
            yield name


def test_each_key_changes_only_the_jobs_that_use_it(raw):
    assert set(keys_of_run_files()) == set(REACHED)
    before, reached = settings_of(raw), {}
    for place, (value, _) in REACHED.items():
        section, _, key = place.partition(".")
        changed = {**(raw.get(section) or {}), key: value} if key else value
        excluded = {"stop": None} if place == "evaluation.pi_per_step" else {}
        after = settings_of(raw | {section: changed} | excluded)
        reached[place] = {name for name in after if before[name] != after[name]}
    assert reached == {place: {*jobs.split()} for place, (_, jobs) in REACHED.items()}


def test_open_generation_always_explains_the_generated_token(raw):
    before, after = (load(raw, target=target) for target in ("label", "generated"))
    for name in ("attribute", "import", "evaluate"):
        assert job_of(before, name, dataset="demo-why") == job_of(after, name, dataset="demo-why")


def test_a_method_may_override_the_target_of_the_run(raw):
    more = {"generated": {"method": "saliency", "label": "Generated", "target": "generated"}}
    catalogue = {"methods": {**raw["catalogue"]["methods"], **more}}
    permuted = {"permuted_methods": ["generated"]}
    config = load(raw, catalogue=catalogue, metric_validation=permuted)
    for method in ("generated", "generated-permuted-1"):
        assert config.target(method, "demo-sentiment") == "generated"
    for method in ("saliency", "oracle"):
        assert config.target(method, "demo-sentiment") == "label"
    assert job_of(config, "attribute", method="generated").target == "generated"
    targets = job_of(config, "datamodel").other_targets
    assert targets == {"demo-sentiment": ("generated",), "demo-why": ()}
    assert job_of(config, "display").targets == {
        "demo-sentiment": ("label", "generated"), "demo-why": ("generated",),
    }  # fmt: skip


@pytest.mark.parametrize("target", ["contrastive", "span"])
def test_a_methods_target_does_not_change_its_evaluation(raw, target):
    other = {"other": {"method": "saliency", "label": "Other", "target": target}}
    catalogue = {"methods": {**raw["catalogue"]["methods"], **other}}
    config = load(raw, catalogue=catalogue)
    for dataset, token in (("demo-sentiment", "label"), ("demo-why", "generated")):
        where = {"method": "other", "dataset": dataset}
        assert job_of(config, "attribute", **where).target == target
        assert job_of(config, "evaluate", **where).target == token
        assert job_of(config, "display").targets[dataset] == (token,)
    assert not any(job_of(config, "datamodel").other_targets.values())


def test_random_scores_depend_on_the_heatmap_setting(raw):
    for value in ("own", "aggregated"):
        config = load(raw, evaluation={**raw["evaluation"], "step_scores": value})
        assert job_of(config, "attribute", method="random", dataset="demo-why").step_scores == value
        assert job_of(config, "attribute", dataset="demo-why").step_scores is None


def test_only_label_word_datasets_are_ranked_and_none_if_disabled(raw):
    config = load(raw)
    reason = "open generation has no label word that could flip"
    assert ranked_datasets(config) == {"demo-sentiment": True}
    assert job_of(config, "ranking").not_applicable is None
    assert job_of(config, "ranking", dataset="demo-why").not_applicable == reason
    assert job_of(config, "summarise_ranking").not_applicable == {"demo-why": reason}
    both = load(raw, ranking={"counterfactuals": "masked_model", "answer_deletion": True})
    assert ranked_datasets(both) == {"demo-sentiment": True, "demo-why": False}
    assert job_of(both, "ranking").masked_model is not None
    generated = job_of(both, "ranking", dataset="demo-why")
    assert (generated.masked_model, generated.not_applicable) == (None, None)
    without = load(raw, ranking=None)
    assert ranked_datasets(without) == {}
    with pytest.raises(BenchmarkError, match="ranking: is null"):
        job_of(without, "ranking")


def test_annotated_records_have_evidence(raw, tmp_path):
    path = write_eraser(tmp_path / "boolq", {"a1": ["One . "]}, {"a1": [(0, 1)]})
    source = {"kind": "file", "path": str(path), "format": "eraser"}
    eraser = {"rationales": {"extends": "boolq_eraser", "source": source}}
    catalogue = raw["catalogue"] | {"datasets": eraser}
    config = load(raw, catalogue=catalogue, datasets=["rationales", "sst2", *raw["datasets"]])
    with_evidence = [name for name, entry in config.datasets.items() if entry.has_evidence]
    assert with_evidence == ["rationales", *raw["datasets"]]


def test_only_methods_that_need_the_masked_model_depend_on_it(raw, monkeypatch):
    def attribute_settings(masked_model):
        return job_of(load(raw, masked_model=masked_model), "attribute").to_json()

    assert attribute_settings("demo-masked") == attribute_settings("roberta-base")
    monkeypatch.setattr(load_method("saliency"), "needs_masked_model", True)
    assert attribute_settings("demo-masked") != attribute_settings("roberta-base")


def test_tables_keep_selection_order_and_ranked_methods_have_a_family(raw):
    names = ["saliency", "attention", "random"]
    display = job_of(load(raw, methods=names), "display")
    assert list(display.methods) == [*names, "grad_ellm_selected"]
    display = job_of(load(raw), "display")
    assert set(display.families) == set(display.methods)
    assert display.families["random"] == "baseline"
    assert display.families["grad_ellm_selected"] == display.families["grad_ellm"] == "gradient"


def test_a_model_may_be_restricted_to_some_methods_or_datasets(raw):
    config = load(raw, restrictions={"demo-llama": {"methods": ["saliency", "random"]}})
    display = job_of(config, "display")
    assert list(display.methods_on("demo-llama")) == ["random", "saliency"]
    assert job_of(config, "compare", model="demo-llama").methods == ("random", "saliency")
    assert len(display.methods_on("demo-mistral")) > 2
    assert "grad_ellm_selected" in set(display.methods) - set(display.methods_on("demo-mistral"))
    display = job_of(load(raw, restrictions={"demo-llama": {"datasets": ["demo-why"]}}), "display")
    assert list(display.datasets_on("demo-llama")) == ["demo-why"]
    assert display.every({"model": "demo-llama"})["dataset"] == ("demo-why",)
    assert display.every({"model": "demo-mistral"})["dataset"] == ("demo-sentiment", "demo-why")


def test_a_demo_model_below_98_percent_accuracy_is_refused(raw):
    config = load(raw)
    for model in config.models:
        assert job_of(config, "train", model=model).source.required_accuracy >= 0.98
