"""The table of what the models answered."""

from __future__ import annotations

from pisoft.formatting import NOTHING
from pisoft.store.parquet import TOO_MANY_WORDS
from pisoft.tables import notes
from pisoft.tables.grid import Column, blocks, each, grid_table, plain, with_interval
from pisoft.tables.layout import Entry, Table, number_text
from pisoft.views.view import Number, View, display


def of_records(number: Number) -> Entry:
    """Show how many of a dataset's records there are of a kind."""
    count = number_text(number.value, 0)
    return Entry(count if count == NOTHING else f"{count} of {number.n}")


COLUMNS = (
    Column("Accuracy ↑", {"metric": "accuracy"}, with_interval),
    Column("Greedy is label", {"metric": "greedy_is_label"}, with_interval),
    Column("Margin", {"metric": "mean_margin"}, plain(2)),
    Column("Too long", {"metric": TOO_MANY_WORDS}, of_records),
    Column("Truncated", {"metric": "truncated"}, plain(0)),
    Column("Prompt tokens", {"metric": "mean_prompt_tokens"}, plain(1)),
    Column("Output tokens", {"metric": "mean_output_tokens"}, plain(1)),
    Column("Samples", {"metric": "truncated"}, lambda number: Entry(number_text(number.n, 0))),
    Column(
        "Failed", {"metric": "truncated"}, lambda number: Entry(number_text(number.n_failed, 0))
    ),
)


@display(title="Accuracy of the models", reads=("accuracy",))
def table(view: View) -> Table:
    """Build the table of the run."""
    results = view.results("accuracy")
    lines = each("dataset", results.datasets)
    made = blocks(results, each("model", view.settings.models), lines, COLUMNS, sparse=True)
    below = [notes.text("accuracy"), notes.clusters(results)]
    return grid_table(view, results, COLUMNS, made, below, "Dataset")
