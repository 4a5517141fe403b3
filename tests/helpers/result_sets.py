"""Small result sets for every table and figure, with labels full of markup."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from helpers import explained_rows
from helpers.script_runs import display_settings
from pisoft.config.cells import Cell
from pisoft.config.jobs.displays import DisplayJob
from pisoft.statistics import published
from pisoft.statistics.context_use import BY_CHANCE, DEPTHS
from pisoft.statistics.context_use import METRICS as CONTEXT_METRICS
from pisoft.statistics.estimates import TESTED
from pisoft.statistics.metrics import LEVEL, METRICS
from pisoft.statistics.results import KEYS
from pisoft.statistics.soft import NOISE_METRICS, SAMPLE_METRICS
from pisoft.store.parquet import write_rows
from pisoft.store.schemas import FILES, RESULT, SCHEMAS
from pisoft.views.registry import Display

CELL = {"protocol": "dynamic", "model": "llama", "dataset": "sst2"}
DATASETS = ("sst2", "imdb")
METHODS = ("random", "saliency", "mine")
CONTROLS = ("oracle", "oracle-noise-1", "uniform", "position", "first-token", "anti-oracle")
OVER = ("noisy", "random", "position", "uniform", "first-token")
AREAS = ("auc_pi_soft_ns", "auc_pi_soft_nc")
CURVES = ("pi_soft_ns", "pi_soft_nc")
GRID = (0.1, 0.3, 0.5, 0.9)
EVIDENCE = ("top_1_in_evidence", "recovery_at_k", "mass_on_evidence", "evidence_auprc")
SAMPLES = ("s0", "s1", "s2", "s3")
TEXTS = [" a", " <b>", " $ x_{", " film", " \\", " was", " not", " bad", " &", "."]
HOSTILE = "<q> $x_{\\&5%#"


@dataclass(frozen=True)
class Case:
    """The contents of a result set; all displays are drawn from each."""

    methods: tuple[str, ...] = METHODS
    datasets: tuple[str, ...] = DATASETS
    samples: tuple[str, ...] = SAMPLES
    failed: tuple[str, ...] = ()  # methods without any value
    prompts: bool = True  # False: none could be built, so later stages have no samples
    labels: Mapping[str, str] = field(default_factory=dict)  # other labels are full of markup
    models: Mapping[str, str] = field(default_factory=lambda: {"llama": f"Llama {HOSTILE}"})
    uneven: bool = False  # whether :func:`uneven` changes the numbers
    other_settings: Mapping[str, Any] = field(default_factory=dict)  # of the displays

    @property
    def settings(self) -> DisplayJob:
        """The displays' settings."""
        return display_settings(
            models=self.models,
            datasets={name: self.label(name) for name in self.datasets},
            methods={name: self.label(name) for name in self.methods},
            controls={name: self.label(name) for name in CONTROLS},
            **self.other_settings,
        )

    def label(self, name: str) -> str:
        """Return the label of a method or dataset."""
        return self.labels.get(name, f"{name} {HOSTILE}")


LABELS = published.METHODS | published.DATASETS
FURTHER = ("random", "saliency", "attention", "grad_ellm", "grad_ellm_selected", "given", "mine")
CASES = {
    "several": Case(),
    "uneven": Case(
        FURTHER,
        failed=("mine",),
        labels=LABELS | {"mine": "Mine", "grad_ellm_selected": "Grad-ELLM (selected)"},
        models={"llama": "Llama", "mistral": "Mistral"},
        uneven=True,
        other_settings={
            "methods_of": {"llama": FURTHER[:-1], "mistral": FURTHER},
            **{"baselines": ("random",), "imported": ("given",)},
            **{"clamp": "none", "equivalence_margin": 0.05, "pi_per_step": 2},
        },
    ),
    "no value": Case(failed=METHODS),
    "no prompt": Case(failed=METHODS, prompts=False),
    "one sample": Case(datasets=DATASETS[:1], samples=SAMPLES[:1]),
    "one method": Case(methods=("mine",)),
    "no random scores": Case(("saliency", "mine"), DATASETS[:1]),
    "as many as in the paper": Case(
        (*published.METHODS, "mine"), tuple(published.DATASETS), labels=LABELS
    ),
}
REPLACED = ("tokens_changed", "not_flipped")
ANSWERS = ("answer_deletion", "rise", "mas")
WITHOUT_ROUTING = ("deletion_auc", "insertion_auc", *EVIDENCE)
PLAIN = {**CELL, "status": "ok", "best": "mine", "device": "cpu", "n": 20, "n_failed": 1}
PLAIN |= {"n_clusters": None}
ESTIMATED = {"low", "high", "standard_error", "skewness", *TESTED}
NUMBERS = ESTIMATED | {"value", "rank"}
FAILURE, FAILED_PROMPT = "nonfinite_attribution", "prompt_too_long"
BESIDE = {"low": -0.05, "high": 0.05}  # offsets of other numbers
LEVELS = (-0.25, 0.0, 0.0625, 0.5, 0.5, 0.75, 0.9996, 1.0)
VALUES = {
    "timings": (0.0000213, 0.00996, 0.3104, 9.996, 45.2, 1234.5, 16_000.0),
    "variance_components": (0.0, 0.002, 0.5, 1.0),
    "ranks": (0.0, 0.0625, 0.5, 1.0),
}
P_VALUES = (None, 0.0001, 0.02, LEVEL, 0.6)
WHY = {"depths": f"2 {FAILURE}", "sensitivity": "a single draw is stored"}
RESULTS = [kind for kind, file in FILES.items() if file.columns is RESULT]


def values_of(case: Case) -> dict[str, dict[Any, Any]]:
    """Return column values by kind; columns in a tuple vary together, all others are crossed."""
    methods, datasets = case.methods, case.datasets
    informed, shown = tuple(name for name in methods if name != "random"), (*datasets, "average")
    return {
        "accuracy": {
            "dataset": datasets,
            "metric": (
                *("accuracy", "greedy_is_label", "too_many_words", "truncated"),
                *("mean_margin", "mean_prompt_tokens", "mean_output_tokens"),
            ),
        },
        "advantage": {
            "metric": CURVES, "dataset": shown, "method": informed if "random" in methods else (),
            ("part", "position"): [
                *(("at", pi) for pi in GRID),
                *((part, None) for part in ("lower", "upper", "upper_minus_lower")),
            ],
        },
        "method_agreement": {
            ("method", "other"): list(itertools.combinations(methods, 2)),
            "metric": ("kendall_tau", "top_overlap"),
        },
        "comparisons": {
            "metric": AREAS, "dataset": shown,
            ("method", "other"): list(itertools.combinations(methods, 2)),
        },
        "context_use": {
            "protocol": ("",),
            "metric": (*CONTEXT_METRICS, *BY_CHANCE.values(), "perturbable_tokens"),
            "other": ("needle",),
            ("part", "position"): [("all", None), *(("depth", depth) for depth in DEPTHS)],
            "dataset": shown, "method": methods,
        },
        "coverage": {
            "method": methods,
            ("metric", "dataset", "part", "text"): [
                *(
                    (metric, dataset, part, "")
                    for metric in ("identity", "lds_given_count", EVIDENCE[0], "deletion_auc")
                    for dataset in datasets[: 1 if metric == "deletion_auc" else None]
                    for part in ("ok", "nonfinite_attribution")
                ),
                *(
                    ("deletion_auc", name, "not_applicable", f"it has no labels {HOSTILE}")
                    for name in datasets[1:]
                ),
            ],
        },
        "density": {"dataset": shown, "method": methods, "metric": ("mean_score", "gini")},
        "density_correlations": {
            "metric": AREAS, "dataset": shown, "other": ("mean_score", "gini"),
            "part": ("all", "without random"),
        },
        "metric_validation": {
            ("metric", "position"): [
                *itertools.product(CURVES, GRID), *((name, None) for name in AREAS),
            ],
            "dataset": datasets,
            ("part", "method"): [
                *(("mean", name) for name in ("random", *CONTROLS)),
                *((f"oracle_over_{name}", "") for name in OVER),
                *((name, "") for name in ("ladder", "means_in_order", "samples_needed")),
                *((name, "") for name in ("noisy_over_random", "random_over_anti-oracle")),
            ],
        },
        "off_distribution": {
            ("metric", "part", "operator", "position"): [
                *(
                    (*measure, operator, pi)
                    for measure in (
                        *((name, "") for name in ("entropy", "label_probability", "attention")),
                        *(("hidden_norm", ""), ("attention", "clean")),
                    )
                    for operator in ("zero", "mean") for pi in GRID
                ),
                *((name, "clean", "", None) for name in ("entropy", "label_probability")),
            ],
            "dataset": shown,
        },
        "depths": {
            "metric": AREAS, "dataset": datasets, "method": ("loosened", "original"),
            ("part", "position"): [
                *itertools.product(("development", "rest"), (1, 2, 4)),
                *(("selected", 2), ("fixed", None), ("leaky", 4)),
            ],
        },
        "noise": {"metric": () if case.failed == methods else ("identity", *NOISE_METRICS)},
        "normalised_scores": {
            "metric": AREAS, "dataset": datasets, "method": (*informed, *CONTROLS[1:]),
        },
        "permutation_baseline": {
            "metric": (*AREAS, "soft_ns", "soft_nc"), "dataset": shown, "method": informed,
            "part": ("method", "permuted", "gain"),
        },
        "ranks": {
            "metric": AREAS, "dataset": ("average",),
            ("part", "other"): [
                *((part, "") for part in ("rank", "mean_rank", "best_share")),
                *(("without", other) for other in ("", *datasets)),
            ],
            "method": methods,
        },
        "sanity_checks": {
            "dataset": shown, "method": methods, "metric": ("rho",),
            ("part", "position", "variant"): [
                *(("layers", count, f"reinit-{count}") for count in (1, 2)),
                *(("labels", None, "shuffled-labels"), ("input", None, "")),
            ],
        },
        "decisions": {
            "metric": AREAS, "dataset": datasets[:1] if case.uneven else datasets,
            ("method", "other"): list(itertools.combinations(methods, 2)),
            ("part", "text"): [("", "higher"), ("by_test", "not significant")],
        },
        "sensitivity": {
            "metric": AREAS, "dataset": shown,
            "part": ("operator_mean", "median", "single_draw", "half_samples")[
                : 4 if case.uneven else 3
            ],
            ("other", "text"): [
                *(("", ""), ("n_methods", ""), ("rank_change", "")),
                ("best_changes", "mine, saliency"),
            ],
        },
        "curves": {"method": methods, "dataset": datasets, "metric": CURVES, "position": GRID},
        "soft_samples": {
            "method": methods, "dataset": datasets, "sample_id": case.samples,
            "metric": tuple(SAMPLE_METRICS),
        },
        "statistics": {
            "metric": tuple(name for name in METRICS if name not in REPLACED + ANSWERS),
            "dataset": shown, "method": methods,
        },
        "timings": {
            "method": methods, "dataset": datasets,
            "metric": ("seconds_per_sample", "peak_memory_mb", "peak_device_memory_mb"),
            "text": (f"cpu {HOSTILE}",),
        },
        "variance_components": {
            "metric": AREAS, "dataset": datasets, "method": methods,
            "part": ("total", "between_samples", "monte_carlo", "numerical"),
        },
    }  # fmt: skip


def values_of_further_metrics(case: Case) -> dict[str, dict[Any, Any]]:
    """Return the same for metrics that are off by default, which change no other row's number."""
    shown = (*case.datasets, "average")
    return {
        "comparisons": {
            "protocol": ("",), "metric": REPLACED[:1], "dataset": shown,
            ("method", "other"): list(itertools.combinations(case.methods, 2)),
        },
        "ranks": {
            "metric": REPLACED[:1], "dataset": ("average",), "part": ("kendall_tau",),
            "other": AREAS,
        },
        "statistics": {
            "protocol": ("",), "metric": REPLACED + ANSWERS, "dataset": shown,
            "method": case.methods,
        },
        "coverage": {
            "method": case.methods, "metric": ("rise",), "dataset": case.datasets[-1:],
            "part": ("ok", "answer_not_less_likely"), "text": ("",),
        },
    }  # fmt: skip


def rows_of(kind: str, case: Case, values: dict[Any, Any]) -> list[dict[str, Any]]:
    """Return a case's rows of a kind, always with the same numbers, without texts and options."""
    numbers = random.Random(kind)
    rows = []
    if "model" in SCHEMAS[kind].names:
        values = {"model": (*case.models,), **values}
    for chosen in itertools.product(*values.values()):
        row: dict[str, Any] = {}
        for keys, value in zip(values, chosen, strict=True):
            row |= dict(zip(keys, value, strict=True)) if isinstance(keys, tuple) else {keys: value}
        number = numbers.uniform(0.2, 0.8)
        names = {row.get(key) for key in ("method", "other", "dataset", "sample_id")}
        failed = not names.isdisjoint(case.failed)
        if kind == "coverage" and failed and row["part"] == "ok":
            continue
        if row.get("part") in ("rank", "mean_rank"):
            number += case.methods.index(row["method"]) + 0.5
        for column in SCHEMAS[kind]:
            row.setdefault(column.name, plain(kind, column, number))
        if "protocol" in row and row.get("metric") in WITHOUT_ROUTING:
            row["protocol"] = ""
        if failed and kind != "coverage":
            row |= dict.fromkeys(NUMBERS & row.keys()) | {"n": 0, "n_failed": 21}
            row |= {"status": FAILURE} if "status" in row else {}
        elif len(case.samples) == 1:
            row |= dict.fromkeys(ESTIMATED & row.keys()) | {"n": 1}
        if row.get("best") in case.failed:
            row["best"] = METHODS[1]
        rows.append({name: row[name] for name in SCHEMAS[kind].names})
    return uneven(kind, rows) if case.uneven else rows


def uneven(kind: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows with ties, negative numbers, gaps and failures, and ranks of their values.

    One row in 16 is missing, and one in 16 has no value. Counts of samples and clusters differ, and
    p-values are missing, far from the significance level, or equal to it.
    """
    numbers = random.Random(f"uneven {kind}")
    kept = []
    for row in rows:
        fate = numbers.randrange(16)
        if kind == "ranks" and row["part"] != "without":
            fate = 2  # a method has all of its numbers or none
        is_count = kind == "coverage" or row.get("part") in ("rank", "mean_rank")
        if row.get("value") is not None and not is_count:
            row["value"] = numbers.choice(VALUES.get(kind, LEVELS))
            row |= {name: numbers.choice(P_VALUES) for name in row if name.startswith("p_")}
            reach = numbers.choice((0.003, 0.0625, 0.3))
            ends = {"low": row["value"] - reach, "high": row["value"] + reach}
            row |= {name: end for name, end in ends.items() if name in row}
        if "n_clusters" in row and row.get("value") is not None:
            n = numbers.choice((20, 20, 19, 1))
            row |= {"n": n, "n_failed": 20 - n, "skewness": numbers.choice((0.1, -3.0))}
            row["n_clusters"] = 9 if row["dataset"] == DATASETS[1] else None
        if fate == 1 and kind != "coverage":
            row |= dict.fromkeys(NUMBERS & row.keys()) | {"n": 0, "n_failed": 20}
            row |= {"status": FAILURE} if "status" in row else {}
            row |= {"text": WHY[kind]} if kind in WHY else {}
        row |= {"rank": None, "best": ""} if "rank" in row else {}
        if row.get("other") == "best_changes":
            row["text"] = numbers.choice(("", "mine, saliency"))
        if fate:
            kept.append({name: row[name] for name in SCHEMAS[kind].names})
    return with_ranks(kept) if kind in ("statistics", "ranks") else kept


def with_ranks(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of results with the ranks of their values, and the best method."""
    frame = pd.DataFrame(rows)
    lowest = frame["metric"].map(lambda name: METRICS[name].best == "lowest")
    values = frame["value"].where(lowest, -frame["value"])
    groups = values.groupby([frame[key].fillna("") for key in KEYS if key != "method"])
    ranks = groups.rank()
    best = frame["method"].loc[groups.transform("idxmin").fillna(0).astype(int)].to_numpy()
    frame = frame.assign(rank=ranks, best=np.where(ranks.notna(), best, ""))
    frame["p_adjusted"] = frame["p_adjusted"].where(frame["method"] != frame["best"])
    return frame.astype(object).where(frame.notna(), None).to_dict("records")


def plain(kind: str, column: pa.Field, number: float) -> Any:
    """Return the default value of a column; it is empty for keys of results."""
    is_result = kind in RESULTS
    if is_result and column.name in ("dataset", "position"):
        return {"dataset": "", "position": None}[column.name]
    if column.name in PLAIN:
        return PLAIN[column.name]
    if column.name.startswith("p_"):
        return number**6  # on both sides of the significance level
    if pa.types.is_floating(column.type):
        return number + BESIDE.get(column.name, 0)
    return 1 if pa.types.is_integer(column.type) else "" if is_result else None


def samples_of(kind: str, case: Case, failed: bool, numbers: random.Random) -> list[dict[str, Any]]:
    """Return sample rows for a model and dataset, and for a method if the kind has methods."""
    status = "ok" if case.prompts else FAILED_PROMPT
    if kind == "prompts":
        rows = [explained_rows.prompt(name, TEXTS, [1, 2], status) for name in case.samples]
        lists = [name for name, value in rows[0].items() if isinstance(value, list)]
        return [row if case.prompts else {**row, **{name: [] for name in lists}} for row in rows]
    if kind == "generations":
        steps = (0,) if case.prompts else ()
        return [explained_rows.answer(name, steps=steps, status=status) for name in case.samples]
    if status == "ok" and failed:
        status = FAILURE
    scores = {name: [numbers.random() for _ in TEXTS] for name in case.samples}
    if kind == "attributions":
        return [
            explained_rows.attribution(name, None if failed else raw, status=status)
            for name, raw in scores.items()
        ]
    return [
        row
        for name, raw in scores.items()
        for row in explained_rows.soft(name, raw, GRID, 0, status)
    ]


def write_results(folder: Path, displays: Iterable[Display], case: Case) -> dict[str, str]:
    """Write the files that displays read, and return their patterns by kind."""
    kinds = dict.fromkeys(kind for display in displays for kind in display.reads)
    patterns = {kind: FILES[kind].pattern for kind in kinds}
    values, further = values_of(case), values_of_further_metrics(case)
    for kind, pattern in patterns.items():
        for method, dataset in itertools.product(case.methods, case.datasets):
            names = {**Cell(**CELL, method=method).wildcards, "dataset": dataset, "part": dataset}
            path = f"{pattern}.parquet".format(**names)
            if (folder / path).exists():
                continue
            if kind in values:
                rows = rows_of(kind, case, values[kind])
                if kind in further:
                    rows += rows_of(kind, case, further[kind])
                if "{dataset}" in pattern:
                    rows = [row | {"dataset": dataset} for row in rows]
                if "{model}" in pattern:
                    rows = [row for row in rows if row["model"] == CELL["model"]]
            else:
                rows = samples_of(kind, case, method in case.failed, random.Random(path))
            write_rows(folder / path, kind, rows, {})
    return {kind: f"{folder}/{pattern}.parquet" for kind, pattern in patterns.items()}
