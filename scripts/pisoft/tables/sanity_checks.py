"""The table of how similar scores stay when the model is randomised, or reads another input."""

from __future__ import annotations

from pisoft.displays import display
from pisoft.tables import notes
from pisoft.tables.grid import Column, blocks, each, grid_table, with_interval
from pisoft.tables.layout import Table
from pisoft.views import View

UNCHANGED = 0.9  # ρ from which on scores count as unchanged


@display(
    title="Do scores change with model and input?",
    by=("model",),
    reads=("sanity_checks",),
    cells="sanity",
)
def table(view: View) -> Table:
    """Build the table of one model."""
    results = view.results("sanity_checks")
    parts = set(results.rows["part"])
    layers = sorted(results.select(part="layers").rows["position"].unique())
    labels = {k: f"Last {k:g} layers" if k > 1 else "Last layer" for k in layers}
    checks = each("position", labels, part="layers")
    further = {"labels": "Shuffled labels", "input": "Another input"}
    checks |= each("part", {part: label for part, label in further.items() if part in parts})
    grid = [Column(label, keys, with_interval(2)) for label, keys in checks.items()]
    strongest = {keys["part"]: keys for keys in checks.values()}  # most layers
    unchanged = []
    for part, keys in strongest.items():
        numbers = results.numbers(dataset=results.summary, **keys)
        names = [results.methods[name] for name in numbers if numbers[name].value >= UNCHANGED]
        condition = notes.UNCHANGED[part].format(layers[-1])
        listed = ", ".join(names) or "none"
        unchanged.append(f"Methods whose mean ρ is {UNCHANGED} or more {condition}: {listed}.")
    made = blocks(
        results, each("dataset", results.with_average), each("method", results.methods), grid
    )
    below = [
        *unchanged,
        *(notes.SANITY_CHECKS[part] for part in strongest),
        notes.SANITY_CHECKS_OF_RANDOM,
        notes.samples(results.rows, results.datasets),
    ]
    return grid_table(view, results, grid, made, below)
