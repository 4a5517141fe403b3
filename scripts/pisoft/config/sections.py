"""The studies of a run: what its sections evaluate besides the selected methods."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from pisoft.config.cells import SHUFFLED_LABELS, Study
from pisoft.config.layer_study import decoder_layers, study_depths
from pisoft.config.methods import LoadMethod, Method
from pisoft.config.models import ModelEntry
from pisoft.config.resolved import Config
from pisoft.config.studies import (
    RANDOM,
    LayerStudy,
    MetricValidation,
    Operators,
    Permuted,
    SanityChecks,
    StudySection,
)
from pisoft.config.validation import selected
from pisoft.errors import BenchmarkError


def with_studies(
    config: Config, available: Iterable[str], load_method: LoadMethod, origin: str
) -> Config:
    """Return a configuration with the studies of its run file, `main` first.

    Args:
        config: without any.
        available: names of all methods that a section may list, whether the run has them or not.
        load_method, origin: as for :func:`pisoft.config.loading.load_config`.

    Raises:
        BenchmarkError: an unknown name, a name that is taken, or a section that cannot be done.
    """
    every = {name: config.methods_of(name) for name in config.models}
    config = config.model_copy(update={"studies": {"main": Study(every, tuple(config.datasets))}})
    sections: dict[str, Callable[..., _Added]] = {
        "layer_study": partial(_layer_study, load_method),
        "metric_validation": _metric_validation,
        "operators": _operators,
        "sanity_checks": _sanity_checks,
    }
    for name, add in sections.items():
        if (section := getattr(config.run_file, name)) is not None:
            selection = _selection(config, section, list(available), f"{origin}: {name}")
            added = add(config, section, selection)
            for taken in sorted(added.get("study_methods", {}).keys() & config.methods):
                raise BenchmarkError(
                    f"{selection.where}: evaluates a method by the name '{taken}', which is that "
                    "of another method of the run; rename its entry"
                )
            config = config.model_copy(
                update={key: {**getattr(config, key), **value} for key, value in added.items()}
            )
    return config


class _Selection(NamedTuple):
    """What a section is of; without models that have none of its datasets."""

    where: str  # the section stands, for messages
    methods: dict[str, tuple[str, ...]]  # by model
    datasets: tuple[str, ...]


# What a section adds to each of the configuration's mappings.
_Added = dict[str, dict[Any, Any]]


def _selection(
    config: Config, section: StudySection, available: list[str], where: str
) -> _Selection:
    models = selected(section.models, config.models, f"{where}.models")
    datasets = selected(section.datasets, config.datasets, f"{where}.datasets")
    evaluated = [model for model in models if {*datasets} & {*config.datasets_of(model)}]
    if not evaluated:
        raise BenchmarkError(
            f"{where}: leaves nothing to do: `restrictions` allow none of its models "
            f"({', '.join(models)}) any of its datasets ({', '.join(datasets)})"
        )
    key = "permuted_methods" if isinstance(section, MetricValidation) else "methods"
    names = selected(getattr(section, key, "all"), available, f"{where}.{key}")
    methods = {
        model: tuple(name for name in config.methods_of(model) if name in names)
        for model in evaluated
    }
    return _Selection(where, methods, tuple(datasets))


def _layer_study(
    load_method: LoadMethod, config: Config, study: LayerStudy, selection: _Selection
) -> _Added:
    names, depths = {}, {}
    further: dict[str, Method] = {}
    for model, of_model in selection.methods.items():
        entries = {name: config.methods[name] for name in of_model}
        source = config.models[model].source
        found = study_depths(study, model, source, entries, load_method)
        names[model] = tuple(depth.name for depth, _ in found)
        depths[model] = tuple(depth for depth, _ in found)
        further |= {depth.name: method for depth, method in found if method is not None}
    studies = {"layer_study": Study(names, selection.datasets)}
    return {"studies": studies, "study_methods": further, "study_depths": depths}


def _metric_validation(
    config: Config, validation: MetricValidation, selection: _Selection
) -> _Added:
    """Add constructed scores, and permutations of its methods' scores."""
    where, methods, datasets = selection
    with_evidence = tuple(name for name in datasets if config.datasets[name].has_evidence)
    if not (validation.permutations or with_evidence):
        raise BenchmarkError(
            f"{where}: leaves nothing to do: none of its datasets ({', '.join(datasets)}) has "
            "evidence, and permutations is 0"
        )
    constructed = {
        control.name: Method(label=control.label, family="control", source=control)
        for control in validation.controls
    }
    permuted = {
        model: {
            f"{name}-permuted-{number}": Method(
                label=f"{config.methods[name].label}, permuted",
                family=config.methods[name].family,
                source=Permuted(method=name, number=number),
            )
            for name in of_model
            for number in range(1, validation.permutations + 1)
        }
        for model, of_model in methods.items()
    }
    # Controls are compared with random scores.
    with_random = [model for model in methods if RANDOM in config.methods_of(model)]
    of_permuted = {model: tuple(of_model) for model, of_model in permuted.items()}
    studies = {
        "controls": Study(dict.fromkeys(with_random, tuple(constructed)), with_evidence),
        "permuted": Study(of_permuted, datasets),
    }
    return {"studies": studies, "study_methods": dict(ChainMap(constructed, *permuted.values()))}


def _operators(config: Config, operators: Operators, selection: _Selection) -> _Added:
    _, methods, datasets = selection
    # Perturbed inputs depend on no method.
    inputs = Study(dict.fromkeys(methods, ("",)), datasets)
    return {"studies": {"operators": Study(methods, datasets, operators.others), "inputs": inputs}}


def _sanity_checks(config: Config, checks: SanityChecks, selection: _Selection) -> _Added:
    where, methods, datasets = selection
    variants = {model: _variants(config.models[model], checks, model, where) for model in methods}
    attributed = {
        model: tuple(name for name in of_model if config.methods[name].file is not None)
        for model, of_model in methods.items()
    }
    names = {model: tuple(of_model) for model, of_model in variants.items()}
    return {
        "studies": {"sanity_checks": Study(attributed, datasets, variants=names)},
        "variants": {name: layers for of in variants.values() for name, layers in of.items()},
    }


def _variants(
    entry: ModelEntry, checks: SanityChecks, model: str, where: str
) -> dict[str, int | None]:
    """Return how many layers each randomised version of a model has reinitialised."""
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
    depth = decoder_layers(entry.source)
    layers = sorted({min(count, depth or count) for count in checks.layers})
    shuffled = {SHUFFLED_LABELS: None} if checks.labels else {}
    return {**{f"reinit-{count}": count for count in layers}, **shuffled}
