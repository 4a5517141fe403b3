"""Samples of a layer study, made by hand."""

from __future__ import annotations

from pisoft.statistics.metrics import AUC_METRICS


def study_rows(values, *, fixed=2, weights="loosened", dataset="sst2", candidates=(1, 2, 4)):
    """Rows of `layer_study`; `values` = {depth: {"development": […], "rest": […]}}.

    Metrics have equal values. A value of None is a failed sample.
    """
    of_weights = {"protocol": "dynamic", "model": "llama", "token_weights": weights}
    rows = []
    for depth, parts in values.items():
        of_depth = {"depth": depth, "candidate": depth in candidates, "fixed": depth == fixed}
        of_depth |= of_weights | {"method": f"grad_ellm-{weights}-{depth}", "dataset": dataset}
        for part, numbers in parts.items():
            for position, value in enumerate(numbers):
                row = {**of_depth, "sample_id": f"{part}-{position}", "part": part, "value": value}
                row["status"] = "nonfinite_attribution" if value is None else "ok"
                rows += [{**row, "metric": metric} for metric in AUC_METRICS]
    return rows


DISAGREEING = {
    1: {"development": [0.9, 0.7], "rest": [0.1, 0.2, 0.3]},
    2: {"development": [0.5, 0.5], "rest": [0.6, 0.7, 0.5]},
    4: {"development": [0.1, 0.1], "rest": [0.8, 0.9, 1.0]},
}


TOO_SMALL = [("development", 1), ("rest", 1), ("rest", 0)]
"""Parts, and how many of their samples are too few."""


def with_small_part(part, kept):
    """Return rows of which one part has so few samples."""
    values = {d: {**parts, part: parts[part][:kept]} for d, parts in DISAGREEING.items()}
    return study_rows(values)


def without_number_of_layers():
    """Return rows whose fixed depth is all layers of a model that has an unknown number of them."""
    rows = study_rows(DISAGREEING, fixed=4, candidates=(1, 2))
    return [{**row, "depth": None if row["depth"] == 4 else row["depth"]} for row in rows]
