"""Slices: a job's settings hold what it depends on, and nothing else."""

import json
from pathlib import Path

import pytest

from helpers.eraser_dataset import write_eraser
from pisoft.attribution import load_method
from pisoft.config import jobs as of_jobs
from pisoft.config.jobs import ranked_datasets
from pisoft.config.loading import load_config
from pisoft.config.validation import read_yaml
from pisoft.errors import BenchmarkError

ROOT = Path(__file__).parents[3]


def maker(name):
    """Return a function that makes a slice of wildcards in the order of their names in `KEYS`."""
    return lambda config, *wanted: of_jobs.JOBS[name].of(
        config, **dict(zip(KEYS.get(name, ()), wanted, strict=True))
    )


KEYS = {
    **dict.fromkeys(("fetch",), ("dataset",)),
    **dict.fromkeys(("sample",), ("part",)),
    **dict.fromkeys(("train", "compare"), ("model",)),
    **dict.fromkeys(("make_masked",), ("masked_model",)),
    **dict.fromkeys(("prompt", "generate", "ranking"), ("model", "dataset")),
    **dict.fromkeys(("attribute", "import"), ("model", "method", "dataset")),
    **dict.fromkeys(("construct",), ("method",)),
    **dict.fromkeys(("evaluate",), ("protocol", "model", "method", "dataset", "part")),
}
MAKE = {name: maker(name) for name in of_jobs.JOBS}
JOBS = {
    "fetch": ("demo-sentiment",),
    "sample": ("demo-sentiment",),
    "train": ("demo-llama",),
    "make_masked": ("demo-masked",),
    "prompt": ("demo-llama", "demo-sentiment"),
    "generate": ("demo-llama", "demo-sentiment"),
    "attribute": ("demo-llama", "saliency", "demo-sentiment"),
    "import": ("demo-llama", "saliency", "demo-sentiment"),
    "evaluate": ("dynamic", "demo-llama", "saliency", "demo-sentiment", "demo-sentiment"),
    "ranking": ("demo-llama", "demo-sentiment"),
    "export": (),
    "summarise": (),
    "summarise_ranking": (),
    "uncertainty": (),
    "resampling": (),
    "construct": ("saliency-permuted-1",),
    "metric_validation": (),
    "permuted": (),
    "sanity_checks": (),
    "density": (),
    "sensitivity": (),
    "evidence": (),
    "layer_study": (),
    "display": (),
    "compare": ("demo-llama",),
    "index": (),
    "published": (),
    "explorer": (),
}


@pytest.fixture
def raw(monkeypatch):
    monkeypatch.chdir(ROOT)
    demo, trust = (read_yaml(ROOT / f"config/{name}.yaml") for name in ("config", "demo-trust"))
    sections = ("metric_validation", "operators", "sanity_checks", "layer_study")
    return demo | {name: trust[name] for name in sections} | {"restrictions": {}}


def settings_of(raw):
    config = load_config(raw, ROOT / "config/catalogue", "test", load_method)
    return {name: MAKE[name](config, *wanted).to_json() for name, wanted in JOBS.items()}


def changed(raw, **changes):
    before, after = settings_of(raw), settings_of(raw | changes)
    return {name for name in before if before[name] != after[name]}


def test_settings_are_read_back_as_they_were(raw):
    config = load_config(raw, ROOT / "config/catalogue", "test", load_method)
    for name in JOBS:
        made = MAKE[name](config, *JOBS[name])
        assert type(made).model_validate_json(made.to_json()) == made


def test_each_key_reaches_only_the_jobs_it_concerns(raw):
    assert changed(raw, run="other") == {"index", "explorer"}  # their titles
    assert changed(raw, max_samples=3) == {"sample"}
    assert changed(raw, seed=2) == {
        "sample", "attribute", "construct", "evaluate", "ranking", "layer_study", "uncertainty",
        "resampling", "density", "metric_validation", "permuted", "sanity_checks",
        "sensitivity",
    }  # fmt: skip
    more = {**raw["evaluation"], "draws": 3}
    assert changed(raw, evaluation=more) == {"evaluate", "published"}
    everywhere = {**raw["evaluation"], "scope": "all"}
    of_scores = {"display", "explorer"}
    assert (
        changed(raw, evaluation=everywhere)
        == {
            "construct",
            "evaluate",
            "ranking",
            "compare",
            "density",
            "evidence",
            "published",
            "sanity_checks",
        }
        | of_scores
    )
    assert changed(raw, qualitative={"top_share": 0.2}) == {"display"}
    clamped = {**raw["evaluation"], "clamp": "mean"}
    assert changed(raw, evaluation=clamped) == {
        "summarise", "sensitivity", "layer_study", "display", "published",
    }  # fmt: skip
    resampled = {"uncertainty", "resampling", "density", "permuted", "sanity_checks", "sensitivity"}
    assert changed(raw, statistics={"resamples": 500}) == resampled
    assert changed(raw, explorer={"samples": 3}) == {"explorer"}
    assert changed(raw, ranking={"operator": "zero"}) == {"ranking", "published"}
    assert changed(raw, block_size=4) == {
        "generate", "attribute", "evaluate", "ranking",
    }  # fmt: skip
    louder = {**raw["metric_validation"], "noise": [0.5, 3]}
    assert changed(raw, metric_validation=louder) == {"metric_validation", "display"}
    assert changed(raw, prompts={"max_tokens": 99}) == {"prompt", "published"}
    assert changed(raw, methods=["saliency"]) == {
        "compare", "index", "published",
        "permuted",  # of other methods are none then
        "layer_study",  # whose deepest method no longer goes by the name of the run's own
    } | of_scores  # fmt: skip
    assert changed(raw, generation={**raw["generation"], "step_interval": 7}) == {
        "generate",
        "published",
    }


def test_steps_that_are_evaluated_concern_no_attribution(raw):
    fewer = {**raw["evaluation"], "step_interval": 10}
    of_scores = {"density", "evidence", "compare", "sanity_checks", "display", "explorer"}
    assert changed(raw, evaluation=fewer) == {"evaluate", "published"} | of_scores


def test_the_target_reaches_what_explains_label_words_and_nothing_of_open_text(raw):
    on_open = JOBS | {
        name: (*(key.replace("sentiment", "why") for key in JOBS[name]),)
        for name in ("attribute", "import", "evaluate")
    }
    shown = {"export", "display", "explorer", "published"}
    explained = {"attribute", "import", "evaluate"}
    assert changed(raw, target="generated") == shown | explained
    before, after = (
        load_config(raw | {"target": target}, ROOT / "config/catalogue", "test", load_method)
        for target in ("label", "generated")
    )
    for name in explained:
        assert MAKE[name](before, *on_open[name]) == MAKE[name](after, *on_open[name])


def test_a_method_may_explain_another_token_than_the_run(raw):
    own = {"generated": {"method": "saliency", "target": "generated"}}
    catalogue = {"methods": {**raw["catalogue"]["methods"], **own}}
    config = load_config(
        raw | {"catalogue": catalogue, "metric_validation": {"permuted_methods": ["generated"]}},
        *(ROOT / "config/catalogue", "test", load_method),
    )
    for method in ("generated", "generated-permuted-1"):
        assert config.target(method, "demo-sentiment") == "generated"
    for method in ("saliency", "oracle"):
        assert config.target(method, "demo-sentiment") == "label"
    assert MAKE["attribute"](config, "demo-llama", "generated", "demo-sentiment").target == (
        "generated"
    )
    others = of_jobs.DatamodelJob.of(config).other_targets
    assert others == {"demo-sentiment": ("generated",), "demo-why": ()}
    assert MAKE["display"](config).targets == {
        "demo-sentiment": ("label", "generated"), "demo-why": ("generated",),
    }  # fmt: skip


def test_only_random_scores_depend_on_whether_a_sample_has_one_heatmap(raw):
    made = [
        {
            method: MAKE["attribute"](config, "demo-llama", method, "demo-why")
            for method in ("random", "saliency")
        }
        for how in ("own", "aggregated")
        for given in [raw | {"evaluation": {**raw["evaluation"], "step_scores": how}}]
        for config in [load_config(given, ROOT / "config/catalogue", "test", load_method)]
    ]
    assert made[0]["saliency"] == made[1]["saliency"]
    assert [of["random"].step_scores for of in made] == ["own", "aggregated"]


def test_only_datasets_of_label_words_are_ranked_and_none_if_switched_off(raw):
    config = load_config(raw, ROOT / "config/catalogue", "test", load_method)
    reason = "open generation has no label word that could flip"
    assert ranked_datasets(config) == ("demo-sentiment",)
    assert MAKE["ranking"](config, "demo-llama", "demo-sentiment").not_applicable is None
    assert MAKE["ranking"](config, "demo-llama", "demo-why").not_applicable == reason
    assert MAKE["summarise_ranking"](config).not_applicable == {"demo-why": reason}
    without = load_config(raw | {"ranking": None}, ROOT / "config/catalogue", "test", load_method)
    assert ranked_datasets(without) == ()
    with pytest.raises(BenchmarkError, match="ranking: is null"):
        MAKE["ranking"](without, "demo-llama", "demo-sentiment")


def test_evidence_is_known_of_records_that_say_which_words_decide(raw, tmp_path):
    path = write_eraser(tmp_path / "boolq", {"a1": ["One . "]}, {"a1": [(0, 1)]})
    eraser = {
        "extends": "boolq_eraser",
        "source": {"kind": "file", "path": str(path), "format": "eraser"},
    }
    added = {**raw["catalogue"], "datasets": {"rationales": eraser}}
    chosen = {"catalogue": added, "datasets": ["rationales", "sst2", *raw["datasets"]]}
    config = load_config(raw | chosen, ROOT / "config/catalogue", "test", load_method)
    found = [name for name, entry in config.datasets.items() if entry.has_evidence]
    assert found == ["rationales", *raw["datasets"]]


def test_only_methods_that_need_the_masked_model_depend_on_it(raw, monkeypatch):
    def attribute_settings(masked_model):
        config = load_config(
            raw | {"masked_model": masked_model}, ROOT / "config/catalogue", "test", load_method
        )
        return MAKE["attribute"](config, "demo-llama", "saliency", "demo-sentiment").to_json()

    assert attribute_settings("demo-masked") == attribute_settings("roberta-base")
    monkeypatch.setattr(load_method("saliency"), "needs_masked_model", True)
    assert attribute_settings("demo-masked") != attribute_settings("roberta-base")


def test_tables_follow_the_order_of_selection(raw):
    names = ["saliency", "attention", "random"]
    display = json.loads(settings_of(raw | {"methods": names})["display"])
    assert list(display["methods"]) == [*names, "grad_ellm_selected"]


def test_every_method_that_is_ranked_has_a_family(raw):
    shown = json.loads(settings_of(raw)["display"])
    assert set(shown["families"]) == set(shown["methods"])
    assert shown["families"]["random"] == "baseline"
    assert shown["families"]["grad_ellm_selected"] == shown["families"]["grad_ellm"] == "gradient"


def test_a_model_may_have_some_of_the_methods(raw):
    restrictions = {"demo-llama": {"methods": ["saliency", "random"]}}
    config = load_config(
        raw | {"restrictions": restrictions}, ROOT / "config/catalogue", "test", load_method
    )
    shown = MAKE["display"](config)
    assert list(shown.methods_on("demo-llama")) == ["random", "saliency"]
    assert MAKE["compare"](config, "demo-llama").methods == ("random", "saliency")
    assert len(shown.methods_on("demo-mistral")) > 2
    assert "grad_ellm_selected" in set(shown.methods) - set(shown.methods_on("demo-mistral"))


def test_a_tiny_model_that_answers_less_than_98_percent_is_refused(raw):
    config = load_config(raw, ROOT / "config/catalogue", "test", load_method)
    for model in config.models:
        assert MAKE["train"](config, model).source.required_accuracy >= 0.98


def test_a_model_may_have_some_of_the_datasets(raw):
    restrictions = {"demo-llama": {"datasets": ["demo-why"]}}
    config = load_config(
        raw | {"restrictions": restrictions}, ROOT / "config/catalogue", "test", load_method
    )
    shown = MAKE["display"](config)
    assert list(shown.datasets_on("demo-llama")) == ["demo-why"]
    assert shown.every({"model": "demo-llama"})["dataset"] == ("demo-why",)
    assert shown.every({"model": "demo-mistral"})["dataset"] == ("demo-sentiment", "demo-why")
