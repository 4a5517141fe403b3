"""The table of counterfactuals: the share of tokens replaced until the answer flips."""

from __future__ import annotations

from pisoft.statistics.metrics import (
    AVERAGE,
    CONTROL,
    LEVEL,
    METRICS,
    NO_CONTROL,
    NOT_FLIPPED,
    TOKENS_CHANGED,
)
from pisoft.statistics.results import in_both_orders, select
from pisoft.tables import grid, notes
from pisoft.tables.ranking import ranking
from pisoft.views.view import View, display


@display(
    title="How many tokens flip the answer?",
    by=("model",),
    reads=("statistics", "comparisons", "ranks", "coverage"),
    cells="replaced",
)
def table(view: View) -> grid.Table:
    """Build the table of one model."""
    on_metrics = [notes.about("counterfactuals"), _against_random(view), _agreement(view)]
    return ranking(view, (TOKENS_CHANGED, NOT_FLIPPED), "deletion_auc", *on_metrics)


def _against_random(view: View) -> str:
    """Name the methods that flip the answer with significantly fewer tokens than random scores."""
    pairs = view.results_if_any("comparisons").select(metric=TOKENS_CHANGED, dataset=AVERAGE)
    compared = select(in_both_orders(pairs.rows), other=CONTROL)
    if compared.empty:
        return NO_CONTROL
    fewer = compared[(compared["value"] < 0) & (compared["p_adjusted"] < LEVEL)]["method"]
    listed = ", ".join(pairs.methods[name] for name in fewer) or "no method"
    return f"Significantly fewer tokens than in random order (p < {LEVEL}): {listed}."


def _agreement(view: View) -> str:
    """Give Kendall's τ with the orders of the methods by π-Soft, averaged over datasets."""
    ranks = view.results_if_any("ranks").select(metric=TOKENS_CHANGED, dataset=AVERAGE)
    taus = [
        f"by {METRICS[row.other].name} ({row.protocol} routing) {grid.number_text(row.value, 2)} "
        f"{grid.interval_text(row.low, row.high, 2) or ''}".rstrip()
        for row in ranks.select(part="kendall_tau").rows.itertuples()
    ]
    return f"Kendall's τ-b with the ranking {'; '.join(taus)}." if taus else ""
