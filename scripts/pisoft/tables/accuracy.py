"""The table of the models' accuracy."""

from __future__ import annotations

from pisoft.formatting import NOTHING
from pisoft.store.parquet import TOO_MANY_WORDS
from pisoft.tables import grid, notes
from pisoft.views.view import Number, View, display


def record_count(number: Number) -> grid.Entry:
    """Show a number of records out of all in the dataset."""
    count = grid.number_text(number.value, 0)
    return grid.Entry(count if count == NOTHING else f"{count} of {number.n}")


COLUMNS = (
    grid.Column("Accuracy ↑", {"metric": "accuracy"}, grid.with_interval),
    grid.Column("Greedy is label", {"metric": "greedy_is_label"}, grid.with_interval),
    grid.Column("Margin", {"metric": "mean_margin"}, grid.plain(2)),
    grid.Column("Too long", {"metric": TOO_MANY_WORDS}, record_count),
    grid.Column("Truncated", {"metric": "truncated"}, grid.plain(0)),
    grid.Column("Prompt tokens", {"metric": "mean_prompt_tokens"}, grid.plain(1)),
    grid.Column("Output tokens", {"metric": "mean_output_tokens"}, grid.plain(1)),
    grid.Column("Samples", {"metric": "truncated"}, grid.plain(0, "n")),
    grid.Column("Failed", {"metric": "truncated"}, grid.plain(0, "n_failed")),
)


@display(title="Accuracy of the models", reads=("accuracy",))
def table(view: View) -> grid.Table:
    """Build the table of the run."""
    results = view.results("accuracy")
    titles, lines = grid.each("model", view.settings.models), grid.each("dataset", results.datasets)
    blocks = grid.blocks(results, titles, lines, COLUMNS, sparse=True)
    below = [notes.text("accuracy"), notes.clusters(results)]
    return grid.table(view, results, COLUMNS, blocks, below, "Dataset")
