"""The table of how similar scores stay when the model is randomised, or reads another input."""

from __future__ import annotations

import math

from pisoft.tables import notes
from pisoft.tables.grid import Column, blocks, each, grid_table, with_interval
from pisoft.tables.layout import Table
from pisoft.views.registry import display
from pisoft.views.view import View

LABELS = {"labels": "Shuffled labels", "input": "Another input"}
UNCHANGED = 0.9  # ρ from which on scores count as unchanged


@display(
    title="Do scores change with model and input?",
    by=("model",),
    reads=("sanity_checks",),
    cells="sanity_checks",
)
def table(view: View) -> Table:
    """Build the table of one model."""
    results = view.results("sanity_checks")
    rows = results.rows.sort_values("position", kind="stable")
    kinds = rows[["part", "position", "variant"]].drop_duplicates()
    checks = {
        LABELS.get(part) or (f"Last {position:g} layers" if position > 1 else "Last layer"): {
            "part": part,
            "position": "" if math.isnan(position) else position,
            "variant": variant,
        }
        for part, position, variant in kinds.itertuples(index=False)
    }
    layers = kinds["position"].max()
    grid = [Column(label, keys, with_interval(2)) for label, keys in checks.items()]
    strongest = {keys["part"]: keys for keys in checks.values()}  # most layers
    unchanged = []
    for part, keys in strongest.items():
        numbers = results.numbers(dataset=results.summary, **keys)
        names = [results.methods[name] for name in numbers if numbers[name].value >= UNCHANGED]
        condition = notes.UNCHANGED[part].format(layers)
        listed = ", ".join(names) or "none"
        unchanged.append(f"Methods whose mean ρ is {UNCHANGED} or more {condition}: {listed}.")
    made = blocks(
        results, each("dataset", results.with_average), each("method", results.methods), grid
    )
    below = [
        *unchanged,
        *(notes.SANITY_CHECKS[part] for part in strongest),
        notes.SANITY_CHECKS_OF_ALL,
        notes.samples(results.rows, results.datasets),
    ]
    return grid_table(view, results, grid, made, below)
