"""Summary files of four methods with their ranks, made by hand."""

from __future__ import annotations

from pisoft.contracts import write_rows
from pisoft.tables.ranks import METRICS
from uncertainty import comparison_rows, left_out_rows, ranked_rows

DATASETS = {"sst2": "SST2", "imdb": "IMDb"}
METHODS = {"random": "Random", "attention": "Attention", "grad_ellm": "Grad-ELLM", "mine": "$ M_{"}
RANKS = {"random": 4.0, "attention": 2.0, "grad_ellm": 1.0, "mine": 3.0}
TOGETHER = [("grad_ellm", "attention"), ("attention", "mine")]
LEFT_OUT = {
    None: RANKS,
    "sst2": {"random": 4.0, "attention": 1.5, "grad_ellm": 1.5, "mine": 3.0},
    "imdb": {"random": 1.0, "attention": 2.0, "grad_ellm": 3.0, "mine": None},
}
SETTINGS = {"models": {"llama": "Llama"}, "datasets": DATASETS, "methods": METHODS}
CELL = {"protocol": "dynamic", "model": "llama"}


def both(make, *given, **more):
    """The rows of both metrics."""
    return [row for metric in METRICS for row in make(metric, *given, **more)]


def write_files(folder, *kinds):
    """Write summary files, with rows of another protocol and model, and return them by kind."""
    rows = {
        "statistics": both(ranked_rows, RANKS),
        "comparisons": both(comparison_rows, RANKS, TOGETHER),
        "leave_one_out": both(left_out_rows, LEFT_OUT),
    }
    files = {kind: folder / f"{kind}.parquet" for kind in kinds}
    for kind, path in files.items():
        fixed = [{**row, "protocol": "fixed"} for row in rows[kind]]
        mistral = [{**row, "model": "mistral"} for row in rows[kind]]
        write_rows(path, kind, rows[kind] + fixed + mistral, {})
    return files
