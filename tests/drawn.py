"""Rows of curves over π, made by hand."""

from __future__ import annotations

from typing import Any

import pandas as pd

from pisoft.figures.lines import PI_SOFT

GRID = [0.1, 0.3, 0.5, 0.7, 0.9]
METHODS = {
    "random": "Random",
    "attention": "Attention",
    "grad_ellm": "Grad-ELLM",
    "mine": "$ Mine_{ <b>",
}
CELL = {"protocol": "dynamic", "model": "llama", "dataset": "sst2"}
SETTINGS = {"models": {"llama": "Llama"}, "datasets": {"sst2": "SST2"}, "methods": METHODS}
WHERE = "Llama · SST2 · dynamic routing"


def curve_rows(methods=tuple(METHODS), n=20) -> list[dict[str, Any]]:
    """Return rows of `soft_curves`: lines through 0, each method's steeper than the one before."""
    return [
        {
            **CELL,
            "method": method,
            "metric": metric,
            "pi": pi,
            "mean": pi * (1 + position / 10) if n else None,
            "standard_error": 0.05 if n > 1 else None,
            "n": n,
            "n_failed": 0,
        }
        for position, method in enumerate(methods)
        for metric in PI_SOFT
        for pi in GRID
    ]


def frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Return rows as a reader of the summary file gives them."""
    return pd.DataFrame(rows).astype({"mean": float, "standard_error": float})
