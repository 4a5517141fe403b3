"""Results of four methods with their ranks, made by hand."""

from __future__ import annotations

from helpers.result_rows import comparison_rows, left_out_rows, rank_rows, ranked_rows
from pisoft.statistics.metrics import AUC_METRICS

DATASETS = {"sst2": "SST2", "imdb": "IMDb"}
METHODS = {"random": "Random", "attention": "Attention", "grad_ellm": "Grad-ELLM", "mine": "$ M_{"}
RANKS = {"random": 4.0, "attention": 2.0, "grad_ellm": 1.0, "mine": 3.0}
TOGETHER = [("grad_ellm", "attention"), ("attention", "mine")]
LEFT_OUT = {
    "": RANKS,
    "sst2": {"random": 4.0, "attention": 1.5, "grad_ellm": 1.5, "mine": 3.0},
    "imdb": {"random": 1.0, "attention": 2.0, "grad_ellm": 3.0, "mine": None},
}
SETTINGS = {"models": {"llama": "Llama"}, "datasets": DATASETS, "methods": METHODS}
CELL = {"protocol": "dynamic", "model": "llama"}


def both(make, *given, **more):
    """The rows of both metrics."""
    return [row for metric in AUC_METRICS for row in make(metric, *given, **more)]


def all_rows(ranks=RANKS, left_out=LEFT_OUT, together=TOGETHER):
    """The rows of all questions about ranks, of the average and of one dataset."""
    return {
        "statistics": both(ranked_rows, ranks) + both(ranked_rows, ranks, dataset="sst2"),
        "comparisons": both(comparison_rows, ranks, together),
        "ranks": both(rank_rows, ranks) + both(left_out_rows, left_out),
    }
