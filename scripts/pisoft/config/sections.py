"""Run-file sections that add methods of their own: layer study, trust, sanity checks."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel

from pisoft.config.methods import LoadMethod, Method, given_method
from pisoft.config.resolved import Config
from pisoft.config.sanity import Sanity, randomised
from pisoft.config.studies import decoder_layers, study_methods
from pisoft.config.trust import Trust, controls, twins
from pisoft.config.validation import selected
from pisoft.errors import BenchmarkError


def with_sections(
    config: Config, available: Iterable[str], load_method: LoadMethod, origin: str
) -> Config:
    """Return a configuration with what its sections add; their selections are among the run's.

    Raises:
        BenchmarkError: an unknown name, a name that is taken, or a section that cannot be done.
    """
    methods, run_file = list(available), config.run_file
    if (study := run_file.layer_study) is not None:
        models, datasets, _ = _chosen(study, config, methods, f"{origin}: layer_study")
        sources = {name: config.models[name].source for name in models}
        own = study_methods(study, sources, load_method)
        _check_free([method.name for method in own], config.methods, "the layer study", origin)
        shared = tuple(
            method.shared({name: config.methods[name] for name in config.methods_of(method.model)})
            for method in own
        )
        config = config.model_copy(update={"study_methods": shared, "study_datasets": datasets})
    if (trust := run_file.trust) is not None:
        config = _with_trust(config, trust, methods, origin)
    if (operators := run_file.operators) is not None:
        models, datasets, wanted = _chosen(operators, config, methods, f"{origin}: operators")
        changes = {"operator_models": models, "operator_methods": wanted}
        config = config.model_copy(update=changes | {"operator_datasets": datasets})
    if (sanity := run_file.sanity) is not None:
        models, datasets, wanted = _chosen(sanity, config, methods, f"{origin}: sanity")
        found = {model: _less_known(config, sanity, model, wanted, origin) for model in models}
        names = {name for of in found.values() for own in of.values() for name in own}
        _check_free(names, config.evaluated_methods, "`sanity`", origin)
        config = config.model_copy(update={"sanity": found, "sanity_datasets": datasets})
    return config


def _chosen(
    section: BaseModel, config: Config, methods: list[str], where: str
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return a section's models, datasets, and those of the run's methods that it wants."""
    of: dict[str, Iterable[str]] = {"models": config.models, "datasets": config.datasets}
    models, datasets = (
        tuple(selected(getattr(section, kind), own, f"{where}.{kind}")) for kind, own in of.items()
    )
    key = "twin_methods" if isinstance(section, Trust) else "methods"
    wanted = selected(getattr(section, key, "all"), methods, f"{where}.{key}")
    return models, datasets, tuple(name for name in config.methods if name in wanted)


def _check_free(names: Iterable[str], taken: Iterable[str], user: str, origin: str) -> None:
    for name in sorted(set(names) & set(taken)):
        raise BenchmarkError(
            f"{origin}: methods: '{name}' is a name that {user} uses; rename this entry"
        )


def _with_trust(config: Config, trust: Trust, methods: list[str], origin: str) -> Config:
    """Return a configuration with the controls and twins of the test of its metrics."""
    where = f"{origin}: trust"
    models, datasets, own = _chosen(trust, config, methods, where)
    found = {
        name: given_method(control, control.label, "control")
        for name, control in controls(trust).items()
    }
    permuted = {}
    for name, twin in twins(trust, own).items():
        of = config.methods[twin.method]
        permuted[name] = given_method(twin, f"{of.label}, permuted", of.family)
    _check_free([*found, *permuted], config.evaluated_methods, "`trust`", origin)
    known = any(config.datasets[name].has_evidence for name in datasets)
    if not (trust.twins or known):
        raise BenchmarkError(
            f"{where}: leaves nothing to do: none of its datasets ({', '.join(datasets)}) has "
            "known evidence, and twins is 0"
        )
    changes = {"trust_models": models, "trust_datasets": datasets}
    return config.model_copy(update={"controls": found, "twins": permuted, **changes})


def _less_known(
    config: Config, sanity: Sanity, model: str, wanted: Iterable[str], origin: str
) -> dict[str, dict[str, Method]]:
    """Return the names of a model's methods on the model as it knows less, by method."""
    where, entry = f"{origin}: sanity", config.models[model]
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
    return {
        name: randomised(name, config.methods[name], layers, labels=sanity.labels)
        for name in config.methods_of(model)
        if name in wanted and config.methods[name].file is not None
    }
