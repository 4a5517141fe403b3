"""A small result set that every table and figure can be made from, with labels full of markup."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

import explained
from pisoft.columns import FILES, RESULT, SCHEMAS
from pisoft.contracts import write_rows
from pisoft.displays import Display
from pisoft.statistics.metrics import METRICS
from pisoft.statistics.soft import NOISE_METRICS, SAMPLE_METRICS
from rooms import display_settings

CELL = {"protocol": "dynamic", "model": "llama", "dataset": "sst2"}
DATASETS = ("sst2", "imdb")
METHODS = ("random", "saliency", "mine")
CONTROLS = ("oracle", "oracle-noise-1", "uniform", "position", "first-token", "anti-oracle")
OVER = ("noisy", "random", "position", "uniform", "first-token")
SHOWN = (*DATASETS, "average")
AREAS = ("auc_pi_soft_ns", "auc_pi_soft_nc")
CURVES = ("pi_soft_ns", "pi_soft_nc")
GRID = (0.1, 0.3, 0.5, 0.9)
EVIDENCE = ("top_1_in_evidence", "recovery_at_k", "mass_on_evidence", "evidence_auprc")
SAMPLES = ("s0", "s1", "s2", "s3")
TEXTS = [" a", " <b>", " $ x_{", " film", " \\", " was", " not", " bad", " &", "."]
HOSTILE = "<q> $ x_{ \\ & 5 % #"
SETTINGS = display_settings(
    models={"llama": f"Llama {HOSTILE}"},
    datasets={name: f"{name} {HOSTILE}" for name in DATASETS},
    methods={name: f"{name} {HOSTILE}" for name in METHODS},
    controls={name: f"{name} {HOSTILE}" for name in (*CONTROLS, "search")},
)
# By kind, the values that a column takes, or several columns take together; all are crossed.
VALUES: dict[str, dict[Any, Any]] = {
    "accuracy": {"dataset": DATASETS},
    "advantage": {
        "metric": CURVES,
        "dataset": SHOWN,
        "method": METHODS[1:],
        ("part", "pi"): [
            *(("at", pi) for pi in GRID),
            *((part, None) for part in ("lower", "upper", "upper_minus_lower")),
        ],
    },
    "agreement": {
        ("method", "other"): list(itertools.combinations(METHODS, 2)),
        "statistic": ("kendall_tau", "top_overlap"),
    },
    "comparisons": {
        "metric": AREAS,
        "dataset": SHOWN,
        ("method", "other"): list(itertools.combinations(METHODS, 2)),
    },
    "coverage": {
        "method": METHODS,
        ("metric", "dataset", "part", "text"): [
            *(
                (metric, dataset, part, "")
                for metric in ("identity", "lds_given_count", EVIDENCE[0], "deletion_auc")
                for dataset in DATASETS[: 1 if metric == "deletion_auc" else None]
                for part in ("ok", "nonfinite_attribution")
            ),
            ("deletion_auc", DATASETS[1], "not_applicable", f"it has no labels {HOSTILE}"),
        ],
    },
    "cost": {("rule", "model"): [("fetch_dataset", None), ("evaluate_soft", "llama")]},
    "density": {"dataset": SHOWN, "method": METHODS, "measure": ("mean_score", "gini")},
    "density_correlations": {
        "metric": AREAS,
        "dataset": SHOWN,
        "measure": ("mean_score", "gini"),
        "with_random": (True, False),
    },
    "metric_validation": {
        ("metric", "pi"): [*itertools.product(CURVES, GRID), *((name, None) for name in AREAS)],
        "dataset": DATASETS,
        ("statistic", "method"): [
            *(("mean", name) for name in ("random", *CONTROLS)),
            *((f"oracle_over_{name}", None) for name in OVER),
            *((name, None) for name in ("ladder", "means_in_order", "samples_needed")),
            *((name, None) for name in ("noisy_over_random", "random_over_anti-oracle")),
        ],
    },
    "off_distribution": {
        "measure": (
            *("entropy", "label_probability", "attention", "hidden_norm"),
            *("clean_entropy", "clean_label_probability", "clean_attention"),
        ),
        "dataset": SHOWN,
        "operator": ("zero", "mean"),
        "pi": GRID,
    },
    "layer_study": {
        ("method", "token_weights", "depth", "candidate", "fixed"): [
            (f"grad_ellm-loosened-{depth:02}", "loosened", depth, True, depth == 2)
            for depth in (1, 2, 4)
        ],
        "dataset": DATASETS,
        ("part", "sample_id"): [
            ("development", "s0"),
            ("development", "s1"),
            ("rest", "s2"),
            ("rest", "s3"),
        ],
        "metric": AREAS,
    },
    "noise": {"metric": ("identity", *NOISE_METRICS)},
    "normalised_scores": {
        "metric": AREAS,
        "dataset": DATASETS,
        "method": (*METHODS[1:], *CONTROLS, "search"),
        "end": ("oracle", "search"),
    },
    "permutation_baseline": {
        "metric": (*AREAS, "soft_ns", "soft_nc"),
        "dataset": SHOWN,
        "method": METHODS[1:],
        "part": ("method", "permuted", "gain"),
    },
    "ranks": {
        "metric": AREAS,
        "dataset": ("average",),
        ("part", "other"): [
            *((part, "") for part in ("rank", "mean_rank", "best_share")),
            *(("without", other) for other in ("", *DATASETS)),
        ],
        "method": METHODS,
    },
    "sanity_checks": {
        "dataset": SHOWN,
        "method": METHODS,
        ("check", "layers"): [("layers", 1), ("layers", 2), ("labels", 0), ("input", 0)],
    },
    "sensitivity": {
        "metric": AREAS,
        "dataset": SHOWN,
        "alternative": ("squared_distance", "median", "single_draw"),
    },
    "soft_curves": {"method": METHODS, "dataset": DATASETS, "metric": CURVES, "pi": GRID},
    "soft_samples": {
        "method": METHODS,
        "dataset": DATASETS,
        "sample_id": SAMPLES,
        "metric": tuple(SAMPLE_METRICS),
    },
    "statistics": {"metric": tuple(METRICS), "dataset": SHOWN, "method": METHODS},
    "timings": {"method": METHODS, "dataset": DATASETS},
    "variance_components": {
        "metric": AREAS,
        "dataset": DATASETS,
        "method": METHODS,
        "part": ("total", "between_samples", "monte_carlo", "numerical"),
    },
}
WITHOUT_ROUTING = ("deletion_auc", "insertion_auc", *EVIDENCE)
PLAIN = {**CELL, "status": "ok", "best": "mine", "device": "cpu", "n": 20, "n_failed": 1}
BESIDE = {"low": -0.05, "high": 0.05}  # other numbers
RESULTS = [kind for kind, file in FILES.items() if file.columns is RESULT]


def rows_of(kind: str) -> list[dict[str, Any]]:
    """Return rows of a kind: the same numbers every time, and what is text or optional left out."""
    numbers = random.Random(kind)
    values = VALUES[kind]
    rows = []
    for chosen in itertools.product(*values.values()):
        row: dict[str, Any] = {}
        for keys, value in zip(values, chosen, strict=True):
            row |= dict(zip(keys, value, strict=True)) if isinstance(keys, tuple) else {keys: value}
        number = numbers.uniform(0.2, 0.8)
        for column in SCHEMAS[kind]:
            row.setdefault(column.name, plain(kind, column, number))
        if "protocol" in row and row.get("metric") in WITHOUT_ROUTING:
            row["protocol"] = ""
        rows.append(row)
    return rows


def plain(kind: str, column: pa.Field, number: float) -> Any:
    """Return what a column holds that is not listed; keys of results are then empty."""
    is_result = kind in RESULTS
    if is_result and column.name in ("dataset", "position"):
        return {"dataset": "", "position": None}[column.name]
    if column.name in PLAIN:
        return PLAIN[column.name]
    if pa.types.is_floating(column.type):
        return number + BESIDE.get(column.name, 0)
    return 1 if pa.types.is_integer(column.type) else "" if is_result else None


def samples_of(kind: str, method: str, numbers: random.Random) -> list[dict[str, Any]]:
    """Return rows of single samples of a model and dataset, and of a method where it has some."""
    if kind == "prompts":
        return [explained.prompt(name, TEXTS, evidence=[1, 2]) for name in SAMPLES]
    if kind == "generations":
        return [explained.answer(name) for name in SAMPLES]
    scores = {name: [numbers.random() for _ in TEXTS] for name in SAMPLES}
    if kind == "attributions":
        return [explained.attribution(name, raw) for name, raw in scores.items()]
    return [row for name, raw in scores.items() for row in explained.soft(name, raw, GRID)]


def write_results(folder: Path, displays: Iterable[Display]) -> dict[str, str]:
    """Write the files that displays read, and return their patterns by kind."""
    patterns = {kind: path for display in displays for kind, path in display.reads.items()}
    for kind, pattern in patterns.items():
        for method, dataset in itertools.product(METHODS, DATASETS):
            names = {**CELL, "method": method, "dataset": dataset, "part": dataset}
            path = f"{pattern}.parquet".format(**names)
            schema = "soft_samples" if kind == "selected_samples" else kind
            if schema not in VALUES:
                rows = samples_of(kind, method, random.Random(path))
            elif "{dataset}" in pattern:
                rows = [row | {"dataset": dataset} for row in rows_of(schema)]
            else:
                rows = rows_of(schema)
            if not (folder / path).exists():
                write_rows(folder / path, schema, rows, {})
    return {kind: f"{folder}/{pattern}.parquet" for kind, pattern in patterns.items()}
