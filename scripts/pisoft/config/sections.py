"""The studies of a run, which its sections add to the evaluation of the selected methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import chain

from pisoft.config.cells import SHUFFLED_LABELS, Study
from pisoft.config.layer_study import decoder_layers, layer_study
from pisoft.config.methods import LoadMethod, Method
from pisoft.config.references import unfit_for_checks
from pisoft.config.resolved import Config
from pisoft.config.studies import (
    HIDE,
    RANDOM,
    MetricValidation,
    Operators,
    Permuted,
    SanityChecks,
    StudySection,
    allowed,
)
from pisoft.config.validation import selected
from pisoft.errors import BenchmarkError


def with_studies(
    config: Config, available: list[str], load_method: LoadMethod, origin: str
) -> Config:
    """Return a configuration with the studies of its run file, `main` first.

    Raises:
        BenchmarkError: an unknown or duplicate name, or a section that cannot be evaluated.
    """
    sections: dict[str, Callable[..., dict[str, Study]]] = {
        "layer_study": partial(layer_study, load_method),
        "metric_validation": _metric_validation,
        "operators": _operators,
        "sanity_checks": _sanity_checks,
    }
    studies = {"main": Study({m: config.methods_of(m) for m in config.models}, (*config.datasets,))}
    for key, studies_of in sections.items():
        if (section := getattr(config.run_file, key)) is None:
            continue
        where = f"{origin}: {key}"
        added = studies_of(config, section, _part(config, section, available, where), where)
        new_methods = {method for study in added.values() for method in study.added}
        for name in sorted(new_methods & {*config.methods}):
            raise BenchmarkError(
                f"{where}: evaluates a method by the name '{name}', which is that of another "
                "method of the run; rename its entry"
            )
        studies |= added
    return config.model_copy(update={"studies": studies})


def _part(config: Config, section: StudySection, available: list[str], where: str) -> Study:
    """Return the part of the run that a section covers, without models outside it."""
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
    methods = {m: tuple(n for n in config.methods_of(m) if n in names) for m in evaluated}
    if not any(methods.values()):
        present = dict.fromkeys(chain.from_iterable(map(config.methods_of, evaluated)))
        raise BenchmarkError(
            f"{where}.{key}: leaves nothing to do: the run has none of {', '.join(names)} for "
            f"{', '.join(evaluated)}; allowed: {', '.join(present)}"
        )
    return Study(methods, tuple(datasets))


def _metric_validation(
    config: Config, validation: MetricValidation, part: Study, where: str
) -> dict[str, Study]:
    """Return the studies of constructed scores and of permuted scores."""
    with_evidence = tuple(name for name in part.datasets if config.datasets[name].has_evidence)
    if not (validation.permutations or with_evidence):
        raise BenchmarkError(
            f"{where}: leaves nothing to do: none of its datasets ({', '.join(part.datasets)}) has "
            "evidence, and permutations is 0"
        )
    controls = {control.name: Method.from_control(control) for control in validation.controls}
    permuted = {
        name: tuple(f"{name}-permuted-{k}" for k in range(1, validation.permutations + 1))
        for name in chain.from_iterable(part.methods.values())
    }
    added = {
        new: Method(
            label=f"{config.methods[name].label}, permuted",
            family=config.methods[name].family,
            source=Permuted(method=name, number=number),
            target=config.methods[name].target,
            half_shards=config.methods[name].half_shards,
        )
        for name, names in permuted.items()
        for number, new in enumerate(names, start=1)
    }
    by_model = {m: tuple(chain(*(permuted[n] for n in names))) for m, names in part.methods.items()}
    # Controls are compared with random scores.
    with_random = {m: (*controls,) for m in part.methods if RANDOM in config.methods_of(m)}
    return {
        "controls": Study(with_random, with_evidence, added=controls),
        "permuted": Study(by_model, part.datasets, added=added),
    }


def _operators(config: Config, operators: Operators, part: Study, where: str) -> dict[str, Study]:
    protocols = chain(*(config.allowed(model, "protocols") for model in part.methods))
    if not any(allowed(protocol, operators.others) for protocol in protocols):
        raise BenchmarkError(
            f"{where}.others: leaves nothing to do: '{HIDE}' is not allowed with fixed routing, "
            "the only one of its models; allowed with it are mean, unknown and zero"
        )
    inputs = Study(dict.fromkeys(part.methods, ("",)), part.datasets)  # independent of the method
    return {"operators": replace(part, operators=operators.others), "inputs": inputs}


def _sanity_checks(
    config: Config, checks: SanityChecks, part: Study, where: str
) -> dict[str, Study]:
    variants = {}  # by model and variant, the number of re-initialised layers
    for name in part.methods:
        for problem in unfit_for_checks(name, config.models[name], checks):
            raise BenchmarkError(f"{where}.{problem}")
        depth = decoder_layers(config.models[name].source)
        layers = sorted({min(count, depth or count) for count in checks.layers})
        shuffled = {SHUFFLED_LABELS: None} if checks.labels else {}
        variants[name] = {**{f"reinit-{count}": count for count in layers}, **shuffled}
    attributed = {
        model: tuple(name for name in names if config.methods[name].file is not None)
        for model, names in part.methods.items()
    }
    if not any(attributed.values()):
        raise BenchmarkError(
            f"{where}.methods: leaves nothing to do: the scores of "
            f"{', '.join(dict.fromkeys(chain(*part.methods.values())))} are not computed"
        )
    return {"sanity_checks": replace(part, methods=attributed, variants=variants)}
