"""The table of evidence recovery."""

from __future__ import annotations

from pisoft.statistics.metrics import EVIDENCE_METRICS
from pisoft.tables import grid, notes
from pisoft.tables.ranking import ranking
from pisoft.views.view import View, display

# Metrics of uninformative scores, and the numbers that they are the chance level of.
CHANCE = {"evidence_by_chance": "the first three", "auprc_by_chance": "AUPRC"}


@display(
    title="Do methods find the evidence?",
    by=("model",),
    reads=("statistics", "coverage"),
    cells="evidence",
)
def table(view: View) -> grid.Table:
    """Build the table of one model."""
    rows = view.results("statistics", metric=CHANCE).rows
    totals = rows.groupby(["metric", "method"])["n"].sum()
    chance = {  # on the samples of the method with most of them
        f"Uninformative scores: {label}": {"metric": name, "method": totals[name].idxmax()}
        for name, label in CHANCE.items()
    }
    meaning = notes.about("evidence_recovery")
    return ranking(view, EVIDENCE_METRICS, EVIDENCE_METRICS[0], meaning, chance=chance)
