"""The table of insertion and deletion (paper, app:insertion/deletion)."""

from __future__ import annotations

from dataclasses import replace

from pisoft.statistics.metrics import RANKING_METRICS
from pisoft.tables import notes
from pisoft.tables.layout import Table
from pisoft.tables.ranking import ranking
from pisoft.views.registry import display
from pisoft.views.view import View


@display(
    title="Insertion and deletion",
    by=("model",),
    reads=("statistics", "coverage"),
    cells="ranking",
)
def table(view: View) -> Table:
    """Build the table of one model."""
    ranked = ranking(view, RANKING_METRICS, "deletion_auc", [notes.of_table("insertion_deletion")])
    counted = view.results("coverage", metric="deletion_auc")
    reasons = counted.rows[counted.rows["text"] != ""].drop_duplicates("dataset")
    left_out = [
        f"Left out: {counted.datasets[row.dataset]}, because {row.text}."
        for row in reasons.itertuples()
    ]
    return replace(ranked, notes=(*ranked.notes, *left_out))
