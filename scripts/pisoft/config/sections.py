"""Run-file sections that add methods of their own: layer study, trust, sanity checks."""

from __future__ import annotations

from collections.abc import Iterable

from pisoft.config.methods import (
    LoadMethod,
    given_method,
)
from pisoft.config.operators import Operators
from pisoft.config.resolved import Config
from pisoft.config.sanity import Sanity, randomised
from pisoft.config.studies import LayerStudy, decoder_layers, study_methods
from pisoft.config.trust import SEARCH, Trust, controls, twins
from pisoft.config.validation import selected
from pisoft.errors import BenchmarkError

SEARCHED = "Best of random masks"


def with_layer_study(
    config: Config, study: LayerStudy, load_method: LoadMethod, origin: str
) -> Config:
    """Resolve the layer study's selections, which are among those of the run."""
    where = f"{origin}: layer_study"
    models = selected(study.models, config.models, f"{where}.models")
    datasets = selected(study.datasets, config.datasets, f"{where}.datasets")
    sources = {name: config.models[name].source for name in models}
    own = study_methods(study, sources, load_method)
    for name in sorted({method.name for method in own} & set(config.methods)):
        raise BenchmarkError(
            f"{origin}: methods: '{name}' is a name that the layer study uses; rename this entry"
        )
    shared = tuple(
        method.shared({name: config.methods[name] for name in config.methods_of(method.model)})
        for method in own
    )
    return config.model_copy(update={"study_methods": shared, "study_datasets": tuple(datasets)})


def with_trust(config: Config, trust: Trust, available: Iterable[str], origin: str) -> Config:
    """Resolve the selections of the test of the metrics, and make its controls and twins."""
    where = f"{origin}: trust"
    models = selected(trust.models, config.models, f"{where}.models")
    datasets = selected(trust.datasets, config.datasets, f"{where}.datasets")
    wanted = selected(trust.twin_methods, available, f"{where}.twin_methods")
    own = [name for name in config.methods if name in wanted]
    found = {
        name: given_method(control, SEARCHED if name == SEARCH else control.label, "control")
        for name, control in controls(trust).items()
    }
    permuted = {
        name: given_method(
            twin,
            f"{config.methods[twin.method].label}, permuted",
            config.methods[twin.method].family,
        )
        for name, twin in twins(trust, own).items()
    }
    for name in sorted((found.keys() | permuted.keys()) & config.evaluated_methods.keys()):
        raise BenchmarkError(
            f"{origin}: methods: '{name}' is a name that `trust` uses; rename this entry"
        )
    if trust.search and config.run_file.evaluation.mask != "token":
        raise BenchmarkError(
            f"{where}.search: is {trust.search}, but evaluation.mask is not 'token', and the masks "
            "that it compares keep the same number of whole tokens; set it to 0"
        )
    known = any(config.datasets[name].has_evidence for name in datasets)
    if not (trust.twins or trust.search or known):
        raise BenchmarkError(
            f"{where}: leaves nothing to do: none of its datasets ({', '.join(datasets)}) has "
            "known evidence, and twins and search are 0"
        )
    changes = {"trust_models": tuple(models), "trust_datasets": tuple(datasets)}
    return config.model_copy(update={"controls": found, "twins": permuted, **changes})


def with_operators(
    config: Config, operators: Operators, available: Iterable[str], origin: str
) -> Config:
    """Resolve the selections of what is done by other operators, which are among the run's.

    Raises:
        BenchmarkError: an unknown name.
    """
    where = f"{origin}: operators"
    wanted = selected(operators.methods, available, f"{where}.methods")
    changes = {
        "operator_models": tuple(selected(operators.models, config.models, f"{where}.models")),
        "operator_methods": tuple(name for name in config.methods if name in wanted),
        "operator_datasets": tuple(
            selected(operators.datasets, config.datasets, f"{where}.datasets")
        ),
    }
    return config.model_copy(update=changes)


def with_sanity(config: Config, sanity: Sanity, available: Iterable[str], origin: str) -> Config:
    """Resolve the selections of the sanity checks, which are among those of the run."""
    where = f"{origin}: sanity"
    models = selected(sanity.models, config.models, f"{where}.models")
    datasets = selected(sanity.datasets, config.datasets, f"{where}.datasets")
    wanted = selected(sanity.methods, available, f"{where}.methods")
    found = {}
    for model in models:
        entry = config.models[model]
        if entry.quantization != "none":
            raise BenchmarkError(
                f"{where}.models: the weights of '{model}' are quantised ({entry.quantization}), "
                "so they cannot be drawn anew"
            )
        if sanity.labels and entry.source.kind != "trained":
            raise BenchmarkError(
                f"{where}.labels: is true, but the source of model '{model}' is of kind "
                f"'{entry.source.kind}', not 'trained': a twin of it cannot be trained here; leave "
                "it out of sanity.models, or set labels to false"
            )
        layers = sorted({min(k, decoder_layers(entry.source) or k) for k in sanity.layers})
        found[model] = {
            name: randomised(name, config.methods[name], layers, labels=sanity.labels)
            for name in config.methods_of(model)
            if name in wanted and config.methods[name].file is not None
        }
    own = {name for methods in found.values() for names in methods.values() for name in names}
    for name in sorted(own & config.evaluated_methods.keys()):
        raise BenchmarkError(
            f"{origin}: methods: '{name}' is a name that `sanity` uses; rename this entry"
        )
    return config.model_copy(update={"sanity": found, "sanity_datasets": tuple(datasets)})
