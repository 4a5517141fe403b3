"""The table of answer deletion: the drop of a generated answer's log-probability."""

from __future__ import annotations

from pisoft.statistics.metrics import ANSWER_METRICS
from pisoft.tables import grid, notes
from pisoft.tables.ranking import ranking
from pisoft.views.view import View, display


@display(
    title="How far does deletion lower the probability of the answer?",
    by=("model",),
    reads=("statistics", "coverage"),
    cells="generated",
)
def table(view: View) -> grid.Table:
    """Build the table of one model."""
    return ranking(view, ANSWER_METRICS, "rise", notes.about("answer_deletion"))
