"""Run-file sections that add methods: layer study, metric validation, sanity checks."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel

from pisoft.config.methods import LoadMethod, Method, given_method
from pisoft.config.metric_validation import MetricValidation, controls, permutations
from pisoft.config.resolved import Config
from pisoft.config.sanity_checks import SanityChecks, reinitialised
from pisoft.config.studies import decoder_layers, study_methods
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
        studied = study_methods(study, sources, load_method)
        _check_free([method.name for method in studied], config.methods, "the layer study", origin)
        shared = tuple(
            method.shared({name: config.methods[name] for name in config.methods_of(method.model)})
            for method in studied
        )
        config = config.model_copy(update={"study_methods": shared, "study_datasets": datasets})
    if (validation := run_file.metric_validation) is not None:
        config = _with_validation(config, validation, methods, origin)
    if (operators := run_file.operators) is not None:
        models, datasets, chosen = _chosen(operators, config, methods, f"{origin}: operators")
        changes = {"operator_models": models, "operator_methods": chosen}
        config = config.model_copy(update=changes | {"operator_datasets": datasets})
    if (checks := run_file.sanity_checks) is not None:
        models, datasets, chosen = _chosen(checks, config, methods, f"{origin}: sanity_checks")
        checked = {model: _checked(config, checks, model, chosen, origin) for model in models}
        names = {name for of in checked.values() for variants in of.values() for name in variants}
        _check_free(names, config.evaluated_methods, "`sanity_checks`", origin)
        config = config.model_copy(update={"sanity": checked, "sanity_datasets": datasets})
    return config


def _chosen(
    section: BaseModel, config: Config, methods: list[str], where: str
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return a section's models that have any of its datasets, these, and its methods."""
    of: dict[str, Iterable[str]] = {"models": config.models, "datasets": config.datasets}
    models, datasets = (
        tuple(selected(getattr(section, kind), of_run, f"{where}.{kind}"))
        for kind, of_run in of.items()
    )
    evaluated = tuple(name for name in models if set(datasets) & {*config.datasets_of(name)})
    if not evaluated:
        raise BenchmarkError(
            f"{where}: leaves nothing to do: `restrictions` allow none of its models "
            f"({', '.join(models)}) any of its datasets ({', '.join(datasets)})"
        )
    key = "permuted_methods" if isinstance(section, MetricValidation) else "methods"
    names = selected(getattr(section, key, "all"), methods, f"{where}.{key}")
    return evaluated, datasets, tuple(name for name in config.methods if name in names)


def _check_free(names: Iterable[str], taken: Iterable[str], user: str, origin: str) -> None:
    for name in sorted(set(names) & set(taken)):
        raise BenchmarkError(
            f"{origin}: methods: '{name}' is a name that {user} uses; rename this entry"
        )


def _with_validation(
    config: Config, validation: MetricValidation, methods: list[str], origin: str
) -> Config:
    """Return a configuration with constructed scores and permutations of its methods' scores."""
    where = f"{origin}: metric_validation"
    models, datasets, chosen = _chosen(validation, config, methods, where)
    constructed = {
        name: given_method(control, control.label, "control")
        for name, control in controls(validation).items()
    }
    permuted = {}
    for name, permutation in permutations(validation, chosen).items():
        of = config.methods[permutation.method]
        permuted[name] = given_method(permutation, f"{of.label}, permuted", of.family)
    names = [*constructed, *permuted]
    _check_free(names, config.evaluated_methods, "`metric_validation`", origin)
    has_evidence = any(config.datasets[name].has_evidence for name in datasets)
    if not (validation.permutations or has_evidence):
        raise BenchmarkError(
            f"{where}: leaves nothing to do: none of its datasets ({', '.join(datasets)}) has "
            "evidence, and permutations is 0"
        )
    changes = {"validated_models": models, "validated_datasets": datasets}
    return config.model_copy(update={"controls": constructed, "permuted": permuted, **changes})


def _checked(
    config: Config, checks: SanityChecks, model: str, chosen: Iterable[str], origin: str
) -> dict[str, dict[str, Method]]:
    """Return a model's methods with their variants on the randomised model, by method."""
    where, entry = f"{origin}: sanity_checks", config.models[model]
    if entry.quantization != "none":
        raise BenchmarkError(
            f"{where}.models: the weights of '{model}' are quantised ({entry.quantization}), "
            "so they cannot be reinitialised"
        )
    if checks.labels and entry.source.kind != "trained":
        raise BenchmarkError(
            f"{where}.labels: is true, but the source of model '{model}' is of kind "
            f"'{entry.source.kind}', not 'trained': it cannot be trained on shuffled labels; "
            "leave it out of sanity_checks.models, or set labels to false"
        )
    layers = sorted({min(k, decoder_layers(entry.source) or k) for k in checks.layers})
    return {
        name: reinitialised(name, config.methods[name], layers, labels=checks.labels)
        for name in config.methods_of(model)
        if name in chosen and config.methods[name].file is not None
    }
