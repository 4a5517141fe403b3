"""Rows of curves over π, made by hand."""

from __future__ import annotations

from typing import Any

from helpers.views import view_of
from pisoft.statistics.metrics import CURVE_METRICS
from pisoft.views.view import View

GRID = [0.1, 0.3, 0.5, 0.7, 0.9]
METHODS = {
    "random": "Random",
    "attention": "Attention",
    "grad_ellm": "Grad-ELLM",
    "mine": "$ Mine_{ <b>",
}
CELL = {"protocol": "dynamic", "model": "llama", "dataset": "sst2"}
WHERE = "Llama · SST2 · dynamic routing"


def view(methods: dict[str, str] = METHODS, **rows: list[dict[str, Any]]) -> View:
    """Return a view of the cell's results, by question."""
    labels = {"models": {"llama": "Llama"}, "datasets": {"sst2": "SST2"}, "methods": methods}
    return view_of(labels, CELL, **rows)


def curve_rows(methods=tuple(METHODS), n=20, error=0.1) -> list[dict[str, Any]]:
    """Return rows of `curves`: lines through 0, each method's steeper than the one before."""
    rows = []
    for place, method in enumerate(methods):
        for metric in CURVE_METRICS:
            for pi in GRID:
                value = pi * (1 + place / 10) if n else None
                ends = {"low": value - error, "high": value + error} if n > 1 else {}
                keys = {**CELL, "method": method, "metric": metric, "position": pi}
                rows.append({**keys, "value": value, **ends, "n": n, "n_failed": 0})
    return rows
