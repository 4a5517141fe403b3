"""Studies: depths of the layer study, controls, randomised models and operators."""

import itertools
import re

import pytest

from pisoft.attribution import load_method
from pisoft.config.cells import Cell
from pisoft.config.jobs.cells import AttributeJob, EvaluateJob, InspectJob
from pisoft.config.jobs.displays import DisplayJob
from pisoft.config.jobs.summaries import SanityChecksJob, SummariseJob
from pisoft.config.jobs.training import TrainJob
from pisoft.config.layer_study import decoder_layers, study_depths
from pisoft.config.loading import load_config
from pisoft.config.methods import ScoresFile
from pisoft.config.models import HubModel, LocalModel, TrainedModel
from pisoft.config.studies import Control, LayerStudy, MetricValidation, Permuted
from pisoft.config.validation import read_yaml
from pisoft.errors import BenchmarkError

MADE = ("demo-sentiment", "demo-why")
AT = {"model": "demo-llama", "dataset": "demo-why", "part": "demo-why"}
HUB = HubModel(kind="hub", repository="o/large")
ONE_MODEL = {"depths": [2], "token_weights": ["loosened"], "models": ["demo-llama"]}
TRAINED = TrainedModel(kind="trained", architecture="llama", datasets=("made",), layers=4)


@pytest.fixture
def local(tmp_path):
    """A function that returns a local model with a given config.json."""

    def write(text):
        (tmp_path / "config.json").write_text(text)
        return LocalModel(kind="local", path=str(tmp_path))

    return write


@pytest.fixture
def load(root, monkeypatch):
    """Load the demonstration's run file with another layer study and other keys."""
    monkeypatch.chdir(root)
    studies = dict.fromkeys(("metric_validation", "sanity_checks", "operators"))
    raw = read_yaml(root / "config/config.yaml") | studies

    def load_changed(study, **changes):
        run = raw | changes | {"layer_study": study}
        return load_config(run, root / "config/catalogue", "run.yaml", load_method)

    return load_changed


def depths(source, methods=None, **study):
    """Return a model's depths, each with its method unless an entry is equivalent."""
    return study_depths(LayerStudy(**study), "m", source, methods or {}, load_method)


def numbers(of_study):
    """Return depth, `candidate` and `fixed` of each."""
    loosened = [depth for depth, _ in of_study if depth.token_weights == "loosened"]
    return [(depth.depth, depth.candidate, depth.fixed) for depth in loosened]


def all_depths(config):
    return config.studies["layer_study"].depths


# Depths ---------------------------------------------------------------------------------------


def test_depths_that_clip_to_the_same_number_are_evaluated_once(local):
    requested = (1, 4, 8, 16)
    four_layers = depths(TRAINED, depths=requested)
    assert numbers(four_layers) == [(1, True, False), (4, True, True)]
    assert len(four_layers) == 2 * 2  # token weightings
    six_layers = depths(local('{"num_hidden_layers": 6}'), depths=requested)
    assert numbers(six_layers) == [(1, True, False), (4, True, False), (6, True, True)]


def test_depths_of_a_hub_model_are_clipped_when_it_is_loaded():
    hub_depths = depths(HUB, depths=(1, 4))
    assert numbers(hub_depths) == [(1, True, False), (4, True, False), (None, False, True)]
    names = [f"grad_ellm-loosened-{depth}" for depth in ("01", "04", "all")]
    assert [depth.name for depth, _ in hub_depths[:3]] == names
    options = load_method("grad_ellm").Options
    for depth, method in hub_depths:
        parsed = options.model_validate(method.options)
        assert parsed.clip_layers
        assert (parsed.layers, parsed.token_weights) == (depth.depth, depth.token_weights)
        assert parsed.heads == "merged"


def test_a_fixed_depth_is_selected_only_if_it_is_a_candidate():
    among = depths(HUB, depths=(1, 4), fixed_depth=4)
    assert numbers(among) == [(1, True, False), (4, True, True)]
    apart = depths(TRAINED, depths=(1, 4), fixed_depth=3)
    assert numbers(apart) == [(1, True, False), (3, False, True), (4, True, False)]


def test_incomplete_local_configurations_defer_clipping_and_broken_are_named(
    local,
):
    for unusual in ("{}", '{"num_hidden_layers": null}'):
        assert decoder_layers(local(unusual)) is None
    for broken in ("{", "[]"):
        with pytest.raises(BenchmarkError, match=r"config\.json: is not a model's configuration"):
            decoder_layers(local(broken))


# Run file -------------------------------------------------------------------------------------


def test_a_run_without_the_section_has_no_layer_study(load):
    config = load(None)
    assert list(config.studies) == ["main"]
    assert config.evaluated_methods == config.methods


def test_an_empty_section_is_the_papers_study_on_all_models_and_datasets(load):
    config = load({})
    assert config.run_file.layer_study.depths == (1, 4, 8, 16, 32)
    assert config.run_file.layer_study.development_share == 0.25
    assert {depth.token_weights for depth in all_depths(config)} == {"loosened", "original"}
    assert {depth.model for depth in all_depths(config)} == {*config.models}
    assert config.studies["layer_study"].datasets == tuple(config.datasets)


def test_the_main_tables_show_only_the_selected_depths(load):
    shown = {"methods": ["saliency"], "restrictions": {}}
    with_study, without = load({"depths": [1, 2]}, **shown), load(None, **shown)
    assert set(with_study.evaluated_methods) - set(without.evaluated_methods) == {
        f"grad_ellm-{weights}-{depth}"
        for weights in ("loosened", "original")
        for depth in ("01", "02", "04")  # all 4 layers are the fixed depth
    }
    methods, before = (DisplayJob.from_config(c).methods.items() for c in (with_study, without))
    more = methods - before
    assert dict(more) == {
        "grad_ellm_selected": "Grad-ELLM (depth selected)",
        "grad_ellm_original_selected": "Grad-ELLM (original, depth selected)",
    }
    assert SummariseJob.from_config(with_study) == SummariseJob.from_config(without)


def test_all_layers_are_evaluated_once_for_study_and_main_tables(load):
    config = load(ONE_MODEL, restrictions={})
    (below, whole) = all_depths(config)
    assert (below.name, below.depth, below.all_layers) == ("grad_ellm-loosened-02", 2, False)
    assert (whole.name, whole.depth, whole.all_layers) == ("grad_ellm", 4, True)
    assert whole.fixed
    further = set(config.cells("layer_study")) - set(config.cells())
    assert {cell.method for cell in further} == {"grad_ellm-loosened-02"}
    assert set(config.evaluated_methods) - set(config.methods) == {"grad_ellm-loosened-02"}
    job = AttributeJob.from_config(config, method="grad_ellm", **AT)
    assert job == AttributeJob.from_config(load(None, restrictions={}), method="grad_ellm", **AT)


BELOW, WHOLE = "grad_ellm-loosened-02", "grad_ellm-loosened-04"


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, [BELOW, "alike"]),  # as is the default
        ({"layers": None, "heads": "merged"}, [BELOW, "alike"]),
        ({"clip_layers": True}, [BELOW, "alike"]),  # all layers never exceed the model's
        ({"layers": 2, "clip_layers": True}, ["alike", WHOLE]),
        ({"heads": "per_head"}, [BELOW, WHOLE]),
        ({"token_weights": "original"}, [BELOW, WHOLE]),
        ({"layers": 2}, [BELOW, WHOLE]),  # refuses a model with fewer layers
        ({"layers": 2, "heads": "per_head", "clip_layers": True}, [BELOW, WHOLE]),
    ],
)
def test_an_entry_with_equivalent_options_replaces_a_depth(load, options, names):
    catalogue = {"methods": {"alike": {"method": "grad_ellm", "options": options}}}
    config = load(ONE_MODEL, methods=["saliency", "alike"], catalogue=catalogue, restrictions={})
    assert [depth.name for depth in all_depths(config)] == names
    assert config.evaluated_methods["alike"].options == options


def test_another_method_with_equal_options_does_not_replace_a_depth(load):
    (*_, (_, whole)) = depths(HUB, depths=(1,))
    other = whole.model_copy(update={"file": "saliency"})
    (*_, (depth, method)) = depths(HUB, {"other": other, "same": whole}, depths=(1,))
    assert (depth.name, method) == ("same", None)


def test_a_model_without_the_equivalent_entry_evaluates_its_depths(load):
    restrictions = {"demo-llama": {"methods": ["saliency"]}}
    config = load({**ONE_MODEL, "models": "all"}, restrictions=restrictions)
    fixed = {depth.model: depth.name for depth in all_depths(config) if depth.fixed}
    assert fixed == {"demo-llama": "grad_ellm-loosened-04", "demo-mistral": "grad_ellm"}


def test_all_layers_have_an_equivalent_entry_even_for_unknown_depths(load):
    names = [depth.name for depth, _ in depths(HUB, load(None).methods, depths=(4,))]
    assert names[::2] == ["grad_ellm-loosened-04", "grad_ellm-original-04"]
    assert names[1::2] == ["grad_ellm", "grad_ellm_original"]


def test_a_study_method_is_attributed_like_any_other(load):
    job = AttributeJob.from_config(load({"depths": [2]}), method="grad_ellm-original-02", **AT)
    assert job.method == "grad_ellm"
    options = {"layers": 2, "clip_layers": True, "token_weights": "original", "heads": "merged"}
    assert job.options == options


def test_a_study_respects_a_models_datasets(load):
    restrictions = {"demo-llama": {"datasets": ["demo-why"]}}
    sections = {
        "metric_validation": {"datasets": ["demo-why"]},
        "sanity_checks": {"layers": [1], "labels": True, "datasets": ["demo-sentiment"]},
        "operators": {},
    }
    config = load({"depths": [1]}, restrictions=restrictions, **sections)
    cells = [cell for study in config.studies for cell in config.cells(study)]
    allowed = {("demo-llama", "demo-why"), *(("demo-mistral", name) for name in MADE)}
    assert {(cell.model, cell.dataset) for cell in cells} == allowed
    assert {cell.model for cell in config.cells("sanity_checks")} == {"demo-mistral"}


# Metric validation ------------------------------------------------------------------------------

PLAIN = {"restrictions": {}, "catalogue": {}}
VALIDATION = {"noise": [1], "permutations": 2, "permuted_methods": ["saliency", "attention"]}


def cells_by_kind(config):
    return {
        study: {(cell.model, cell.method, cell.dataset) for cell in config.cells(study)}
        for study in ("controls", "permuted")
    }


def test_controls_need_evidence_and_permutations_need_their_method(load):
    datasets = [*MADE, "sst2"]
    chosen = {"models": ["demo-llama"], "datasets": datasets, "methods": ["random", "saliency"]}
    config = load(None, metric_validation=VALIDATION, **chosen, **PLAIN)
    cells = cells_by_kind(config)
    controls = ("oracle", "oracle-noise-1", "anti-oracle", "position", "uniform", "first-token")
    assert cells["controls"] == {*itertools.product(["demo-llama"], controls, MADE)}
    permuted = ("saliency-permuted-1", "saliency-permuted-2")
    assert cells["permuted"] == {*itertools.product(["demo-llama"], permuted, datasets)}
    assert set(config.sources(Control, Permuted)) == {*controls, *permuted}
    main = {cell.method for cell in config.cells()}
    assert not main & {*controls, *permuted}, "not in the main tables"


def test_similar_noise_levels_have_different_names(load):
    config = load(None, metric_validation={"noise": [0.5, 0.5000000001, 2]}, **PLAIN)
    noisy = ["0.5", "0.5000000001", "2"]
    validation = config.run_file.metric_validation
    ladder = validation.ladder
    assert ladder == ("oracle", *(f"oracle-noise-{noise}" for noise in noisy))
    assert validation.middle == ladder[2]
    assert MetricValidation(noise=(0.5, 2)).middle == "oracle-noise-0.5"
    labels = [config.evaluated_methods[name].label for name in ladder[1:]]
    assert labels == [f"Oracle, noise {noise}" for noise in noisy]


def test_without_random_scores_there_are_only_permutations(load):
    cells = cells_by_kind(load(None, metric_validation=VALIDATION, methods=["saliency"], **PLAIN))
    assert not cells["controls"]
    assert {name for _, name, _ in cells["permuted"]} == {f"saliency-permuted-{n}" for n in (1, 2)}


def test_a_control_can_be_a_method_of_the_main_tables(load):
    oracle = {"source": {"kind": "control", "scores": "oracle", "noise": 0.5}}
    catalogue = {"methods": {"known": oracle}}
    config = load(None, methods=["random", "known"], restrictions={}, catalogue=catalogue)
    method = config.methods["known"]
    assert (method.label, method.family) == ("Oracle, noise 0.5", "control")
    assert list(config.sources(Control, Permuted)) == ["known"]
    assert config.sources(ScoresFile) == {}


# Sanity checks --------------------------------------------------------------------------------


def test_every_attributed_method_is_checked_against_the_models_layers(load):
    mine = {"source": {"kind": "control", "scores": "uniform"}}
    config = load(None, sanity_checks={"layers": [1, 3, 8, 16], "datasets": ["demo-why"]},
                  methods=["random", "saliency", "mine"], restrictions={},
                  catalogue={"methods": {"mine": mine}})  # fmt: skip
    assert config.cells("sanity_checks") == [
        Cell(model=model, variant=f"reinit-{layers}", method=method, dataset="demo-why")
        for model in config.models
        for layers in (1, 3, 4)
        for method in ("random", "saliency")
    ]
    randomised = AttributeJob.from_config(config, variant="reinit-4", method="saliency", **AT)
    assert randomised.reinitialised_layers == 4
    original = AttributeJob.from_config(config, method="saliency", **AT)
    assert original == randomised.model_copy(update={"reinitialised_layers": None})


def test_training_on_shuffled_labels_adds_a_variant(load):
    checks = {"layers": [1], "methods": ["saliency"], "datasets": ["demo-why"]}
    without = load(None, sanity_checks=checks, restrictions={})
    config = load(None, sanity_checks={**checks, "labels": True}, restrictions={})
    assert "shuffled-labels" not in {cell.variant for cell in without.cells("sanity_checks")}
    added = [cell for cell in config.cells("sanity_checks") if cell.variant == "shuffled-labels"]
    assert {*added} == {*config.cells("sanity_checks")} - {*without.cells("sanity_checks")}
    assert [cell.model for cell in added] == ["demo-llama", "demo-mistral"]
    shuffled = AttributeJob.from_config(config, variant="shuffled-labels", method="saliency", **AT)
    assert shuffled.model.name == "demo-llama-shuffled-labels"
    assert shuffled.reinitialised_layers is None
    assert AttributeJob.from_config(config, method="saliency", **AT) == AttributeJob.from_config(
        without, method="saliency", **AT
    )
    variants = SanityChecksJob.from_config(config).variants["demo-llama"]
    assert variants == {"reinit-1": 1, "shuffled-labels": None}
    original = TrainJob.from_config(config, model="demo-llama")
    assert original == TrainJob.from_config(without, model="demo-llama")
    retrained = TrainJob.from_config(config, model="demo-llama", variant="shuffled-labels")
    assert retrained == original.model_copy(update={"shuffled_labels": True})


def test_other_operators_have_separate_cells_and_settings(load):
    config = load(
        None, operators={"methods": ["random", "saliency"], "datasets": ["demo-why"]},
        methods=["random", "saliency", "attention"], protocols=["dynamic", "fixed"],
        models=["demo-llama"], restrictions={},
    )  # fmt: skip
    operators = {"dynamic": ("mean", "unknown", "hide"), "fixed": ("mean", "unknown")}
    assert config.cells("operators") == [
        Cell(protocol, operator, "demo-llama", "", method, "demo-why")
        for protocol in operators
        for operator in operators[protocol]
        for method in ("random", "saliency")
    ]
    names = {"protocol": "dynamic", "operator": "hide", "method": "saliency"}
    job = EvaluateJob.from_config(config, **names, **AT)
    assert (job.protocol, job.evaluation.operator) == ("dynamic", "hide")
    fixed = EvaluateJob.from_config(config, protocol="fixed", method="saliency", **AT)
    assert (fixed.protocol, fixed.evaluation.operator) == ("fixed", "zero")
    for protocol, others in operators.items():
        inspected = InspectJob.from_config(config, protocol=protocol, model="demo-llama")
        assert inspected.operators == ("zero", *others)
    assert load(None).cells("operators") == load(None).cells("inputs") == []


# Refusals -------------------------------------------------------------------------------------

OUT_OF_ORDER = "must increase (got [2, 1])"
NOTHING = "leaves nothing to do: "
MORE = {"datasets": [*MADE, "sst2"]}
ORACLE = {"methods": {"known": {"source": {"kind": "control", "scores": "oracle"}}}}
NOISY = {"methods": {"known": {"source": {"kind": "control", "scores": "uniform", "noise": 1}}}}
TAKEN = {"methods": {name: {"method": "saliency"} for name in ("oracle", "grad_ellm-loosened-02")}}
QUANTISED = {"models": {"small": {"extends": "demo-llama", "quantization": "nf4"}}}
KEY_CASES = [  # key, value, message, other changes
    ("layer_study.depths", [2, 1], OUT_OF_ORDER, {}),
    ("layer_study.models", ["demo-mistral"], "unknown name 'demo-mistral'; did you",
     {"models": ["demo-llama"]}),
    ("layer_study.datasets", ["demo-way"], "unknown name 'demo-way'; did you", {}),
    ("metric_validation.models", ["demo-lama"], "unknown name 'demo-lama'; did you", {}),
    ("metric_validation.permuted_methods", ["salency"], "unknown name 'salency'; did you", {}),
    ("metric_validation.noise", [2, 1], OUT_OF_ORDER, {}),
    ("sanity_checks.layers", [2, 1], OUT_OF_ORDER, {}),
    ("sanity_checks.methods", ["salency"], "unknown name 'salency'; did you", {}),
    ("sanity_checks.labels", True, "is true, but the source of model 'mistral-7b-instruct-v0.3' is "
     "of kind 'hub', not 'trained'", {"models": ["demo-llama", "mistral-7b-instruct-v0.3"]}),
    ("sanity_checks.models", ["small"], "the weights of 'small' are quantised (nf4), so they ",
     {"models": ["small"], "methods": ["saliency"], "catalogue": QUANTISED}),
    ("operators.methods", ["salency"], "unknown name 'salency'; did you", {}),
    ("operators.others", [], "nothing is selected", {}),
    ("operators.others", ["mean", "mean"], "listed twice: mean", {}),
    ("operators.others", ["zero"], "'zero' is the run's own", {}),
    ("operators.others", ["hide"], f"{NOTHING}'hide' is not allowed with fixed routing",
     {"protocols": ["fixed"]}),
    *((key, ["attention"], f"{NOTHING}the run has none of attention for demo-llama, demo-mistral; "
       "allowed: random, saliency", {"methods": ["random", "saliency"]})
      for key in ("operators.methods", "sanity_checks.methods",
                  "metric_validation.permuted_methods")),
]  # fmt: skip
REFUSED = [
    *(
        ({section: {name: value}, **more}, f"{section}.{name}: {message}")
        for key, value, message, more in KEY_CASES
        for section, name in [key.split(".")]
    ),
    ({"layer_study": {"models": ["demo-llama"], "datasets": ["demo-sentiment"]},
      "restrictions": {"demo-llama": {"datasets": ["demo-why"]}}},
     f"layer_study: {NOTHING}`restrictions` allow none of its models (demo-llama)"),
    ({"layer_study": {"depths": [2]}, "catalogue": TAKEN},
     "layer_study: evaluates a method by the name 'grad_ellm-loosened-02', which"),
    ({"metric_validation": {"permutations": 0, "datasets": ["sst2"]}, **MORE},
     f"metric_validation: {NOTHING}none of its datasets (sst2) has evidence"),
    ({"metric_validation": {}, "catalogue": TAKEN},
     "metric_validation: evaluates a method by the name 'oracle', which is that of another"),
    ({"catalogue": ORACLE, **MORE},
     "method 'known': source.scores: needs known evidence, which the records of dataset 'sst2'"),
    ({"catalogue": NOISY}, "known: source: noise: only `oracle` has noise, not `uniform`"),
    ({"sanity_checks": {}, "methods": ["known"], "catalogue": ORACLE},
     f"sanity_checks.methods: {NOTHING}the scores of known are not computed"),
    ({"operators": {}, "evaluation": {"mask": "element"}}, "others: 'hide' is not allowed with"),
    ({"evaluation": {"mask": "element", "operator": "hide"}}, "'hide' is not allowed with mask"),
    ({"evaluation": {"operator": "hide"}, "protocols": ["dynamic", "fixed"]},
     "protocols: 'fixed' is not allowed with evaluation.operator 'hide'"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=[text for _, text in REFUSED])
def test_an_invalid_study_is_refused(load, changes, message):
    keys = {**PLAIN, "masked_model": "roberta-base", **changes}
    with pytest.raises(BenchmarkError, match=re.escape(message)):
        load(keys.pop("layer_study", None), **keys)
