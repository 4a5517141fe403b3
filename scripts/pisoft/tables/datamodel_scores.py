"""The table of datamodel scores: how well scores predict the effect of random masks."""

from __future__ import annotations

from pisoft.statistics.metrics import DATAMODEL_METRICS
from pisoft.tables import grid, notes
from pisoft.tables.ranking import ranking
from pisoft.views.view import View, display


@display(
    title="Do scores predict the effect of random masks?",
    by=("protocol", "model"),
    reads=("statistics", "coverage"),
    cells="drawn",
)
def table(view: View) -> grid.Table:
    """Build the table of one protocol and model."""
    meaning = notes.about("datamodel_scores")
    return ranking(view, DATAMODEL_METRICS, DATAMODEL_METRICS[0], meaning)
