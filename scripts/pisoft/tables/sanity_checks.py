"""The table of the similarity of scores after randomising the model or changing the input."""

from __future__ import annotations

from pisoft.tables import grid, notes
from pisoft.views.labels import sanity_checks
from pisoft.views.titles import UNCHANGED
from pisoft.views.view import View, display


@display(
    title="Do scores depend on the model and the input?",
    by=("model",),
    reads=("sanity_checks",),
    cells="sanity_checks",
)
def table(view: View) -> grid.Table:
    """Build the table of one model."""
    results = view.results("sanity_checks")
    checks, layers = sanity_checks(results.rows), results.rows["position"].max()
    columns = [
        grid.Column(label, keys, grid.with_interval, ascending=True)
        for label, keys in checks.items()
    ]
    strongest = {keys["part"]: keys for keys in checks.values()}  # most layers
    unchanged = []
    for part, keys in strongest.items():
        numbers = results.numbers(dataset=results.summary, **keys)
        names = [results.methods[name] for name in numbers if numbers[name].value >= UNCHANGED]
        condition = notes.TEXTS["unchanged"][part].format(layers=layers)
        listed = ", ".join(names) or "none"
        unchanged.append(f"Methods whose mean ρ is {UNCHANGED} or more {condition}: {listed}.")
    titles, lines = grid.each("dataset", results.with_average), grid.each("method", results.methods)
    blocks = grid.blocks(results, titles, lines, columns, columns[0])
    meaning = [notes.about("sanity_checks"), notes.text("interval")]
    below = [*unchanged, *meaning, notes.samples(results)]
    return grid.table(view, results, columns, blocks, below)
