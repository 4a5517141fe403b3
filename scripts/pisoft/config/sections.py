"""The studies of a run: what its sections evaluate besides the selected methods."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from pisoft.config.cells import Study, Variant
from pisoft.config.methods import LoadMethod, given_method
from pisoft.config.metric_validation import RANDOM, MetricValidation, controls, permutations
from pisoft.config.operators import Operators
from pisoft.config.resolved import Config
from pisoft.config.sanity_checks import SanityChecks
from pisoft.config.studies import LayerStudy, decoder_layers, study_methods
from pisoft.config.validation import selected
from pisoft.errors import BenchmarkError


def with_studies(
    config: Config, available: Iterable[str], load_method: LoadMethod, origin: str
) -> Config:
    """Return a configuration with the studies of its run file, `main` first.

    Args:
        config: without any.
        available: names of all methods that a section may list, whether the run has them or not.
        load_method: looks methods up.
        origin: name of the run file.

    Raises:
        BenchmarkError: an unknown name, a name that is taken, or a section that cannot be done.
    """
    methods, run_file = list(available), config.run_file
    every = {name: config.methods_of(name) for name in config.models}
    config = _with(config, {"main": Study(methods=every, datasets=tuple(config.datasets))})
    if (study := run_file.layer_study) is not None:
        config = _with_layer_study(config, study, methods, load_method, origin)
    if (validation := run_file.metric_validation) is not None:
        config = _with_validation(config, validation, methods, origin)
    if (operators := run_file.operators) is not None:
        config = _with_operators(config, operators, methods, origin)
    if (checks := run_file.sanity_checks) is not None:
        config = _with_sanity_checks(config, checks, methods, origin)
    return config


def _with(config: Config, studies: dict[str, Study], **changes: Any) -> Config:
    return config.model_copy(update={"studies": {**config.studies, **studies}, **changes})


def _selection(
    section: BaseModel, config: Config, methods: list[str], where: str, key: str = "methods"
) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Return a section's models that have any of its datasets, each with its methods; these."""
    models, datasets = (
        tuple(selected(getattr(section, kind), getattr(config, kind), f"{where}.{kind}"))
        for kind in ("models", "datasets")
    )
    evaluated = [model for model in models if {*datasets} & {*config.datasets_of(model)}]
    if not evaluated:
        raise BenchmarkError(
            f"{where}: leaves nothing to do: `restrictions` allow none of its models "
            f"({', '.join(models)}) any of its datasets ({', '.join(datasets)})"
        )
    names = selected(getattr(section, key, "all"), methods, f"{where}.{key}")
    of_models = {
        model: tuple(name for name in config.methods_of(model) if name in names)
        for model in evaluated
    }
    return of_models, datasets


def _check_free(names: Iterable[str], taken: Iterable[str], user: str, origin: str) -> None:
    for name in sorted(set(names) & set(taken)):
        raise BenchmarkError(
            f"{origin}: methods: '{name}' is a name that {user} uses; rename this entry"
        )


def _with_layer_study(
    config: Config, study: LayerStudy, methods: list[str], load_method: LoadMethod, origin: str
) -> Config:
    models, datasets = _selection(study, config, methods, f"{origin}: layer_study")
    sources = {name: config.models[name].source for name in models}
    studied = study_methods(study, sources, load_method)
    _check_free([method.name for method in studied], config.methods, "the layer study", origin)
    shared = tuple(
        method.shared({name: config.methods[name] for name in config.methods_of(method.model)})
        for method in studied
    )
    of_models = {name: tuple(m.name for m in shared if m.model == name) for name in models}
    layers = Study(methods=of_models, datasets=datasets)
    return _with(config, {"layer_study": layers}, study_methods=shared)


def _with_validation(
    config: Config, validation: MetricValidation, methods: list[str], origin: str
) -> Config:
    """Return a configuration with constructed scores and permutations of its methods' scores."""
    where = f"{origin}: metric_validation"
    permutable, datasets = _selection(validation, config, methods, where, "permuted_methods")
    with_evidence = tuple(name for name in datasets if config.datasets[name].has_evidence)
    if not (validation.permutations or with_evidence):
        raise BenchmarkError(
            f"{where}: leaves nothing to do: none of its datasets ({', '.join(datasets)}) has "
            "evidence, and permutations is 0"
        )
    constructed = {
        name: given_method(control, control.label, "control")
        for name, control in controls(validation).items()
    }
    to_permute = [name for name in config.methods if any(name in of for of in permutable.values())]
    permuted = {}
    for name, permutation in permutations(validation, to_permute).items():
        of = config.methods[permutation.method]
        permuted[name] = given_method(permutation, f"{of.label}, permuted", of.family)
    names = [*constructed, *permuted]
    _check_free(names, config.evaluated_methods, "`metric_validation`", origin)
    # Controls are compared with random scores.
    with_random = {
        model: tuple(constructed) for model in permutable if RANDOM in config.methods_of(model)
    }
    of_models = {model: tuple(permutations(validation, of)) for model, of in permutable.items()}
    studies = {
        "controls": Study(methods=with_random, datasets=with_evidence),
        "permuted": Study(methods=of_models, datasets=datasets),
    }
    return _with(config, studies, controls=constructed, permuted=permuted)


def _with_operators(
    config: Config, operators: Operators, methods: list[str], origin: str
) -> Config:
    of_models, datasets = _selection(operators, config, methods, f"{origin}: operators")
    studies = {
        "operators": Study(methods=of_models, datasets=datasets, operators=operators.others),
        # Perturbed inputs depend on no method.
        "inputs": Study(methods=dict.fromkeys(of_models, ("",)), datasets=datasets),
    }
    return _with(config, studies)


def _with_sanity_checks(
    config: Config, checks: SanityChecks, methods: list[str], origin: str
) -> Config:
    where = f"{origin}: sanity_checks"
    of_models, datasets = _selection(checks, config, methods, where)
    variants = {model: _variants(config, checks, model, where) for model in of_models}
    attributed = {
        model: tuple(name for name in names if config.methods[name].file is not None)
        for model, names in of_models.items()
    }
    names = {model: tuple(variant.name for variant in of) for model, of in variants.items()}
    study = Study(methods=attributed, datasets=datasets, variants=names)
    by_name = {variant.name: variant for of in variants.values() for variant in of}
    return _with(config, {"sanity_checks": study}, variants=by_name)


def _variants(config: Config, checks: SanityChecks, model: str, where: str) -> list[Variant]:
    """Return the randomised versions of a model."""
    entry = config.models[model]
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
    layers = sorted({min(count, decoder_layers(entry.source) or count) for count in checks.layers})
    shuffled = [Variant(reinitialised_layers=None)] if checks.labels else []
    return [*(Variant(reinitialised_layers=count) for count in layers), *shuffled]
