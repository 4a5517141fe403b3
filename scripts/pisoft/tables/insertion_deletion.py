"""The table of insertion and deletion (paper, app:insertion/deletion)."""

from __future__ import annotations

from pisoft.statistics.metrics import RANKING_METRICS
from pisoft.tables import grid, notes
from pisoft.tables.ranking import ranking
from pisoft.views.view import View, display


@display(
    title="Insertion and deletion", by=("model",), reads=("statistics", "coverage"), cells="flipped"
)
def table(view: View) -> grid.Table:
    """Build the table of one model."""
    return ranking(view, RANKING_METRICS, "deletion_auc", notes.about("insertion_deletion"))
