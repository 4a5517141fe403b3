"""The table of what a model makes of inputs of which random tokens are taken away."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from pisoft.displays import display
from pisoft.statistics.off_distribution import CLEAN, OPERATORS
from pisoft.statistics.reading import of_cell
from pisoft.tables.layout import Block, Entry, Row, Table, mean_entry, sample_note
from pisoft.units import NOTHING
from pisoft.views import View

COLUMNS = {
    "entropy": "Entropy, nats",
    "label_probability": "Probability of label words",
    "attention": "Attention on these tokens",
    "clean_attention": "Before",
    "hidden_norm": "Norm of the last layer",
}
SHOWN = (0.1, 0.5, 0.9)  # retaining probabilities, or those of the grid nearest to them


@display(
    title="Is a perturbed input still language?",
    by=("protocol", "model"),
    reads={"off_distribution": "summary/off_distribution"},
    cells="inspected",
)
def table(view: View) -> Table:
    """Build the table of one protocol and model."""
    files, settings, cell = view.files, view.settings, view.cell
    rows = of_cell(files.rows("off_distribution"), cell)
    return language_table(rows, where=settings.where(cell), datasets=settings.datasets)


def language_table(rows: pd.DataFrame, *, where: str, datasets: Mapping[str, str]) -> Table:
    """Build the table of measures by operator and π, a block per dataset.

    Args:
        rows: `language` rows of one protocol and model.
        where: model and protocol, for the title.
        datasets: label of each dataset; those that were not inspected are left out.
    """
    grid = np.sort(rows["pi"].unique())
    shown = list(dict.fromkeys(float(grid[np.abs(grid - pi).argmin()]) for pi in SHOWN))
    operators = [name for name in OPERATORS if name in set(rows["operator"])]
    known = {name: label for name, label in datasets.items() if name in set(rows["dataset"])}
    by_cell = rows.set_index(["dataset", "operator", "pi", "measure"]).sort_index()

    def row(label: str, dataset: str, operator: str, pi: float, measures: Mapping[str, str]) -> Row:
        found = by_cell.loc[(dataset, operator, pi)]
        entries = (
            mean_entry(found.loc[measures[column]], 3) if column in measures else Entry(NOTHING)
            for column in COLUMNS
        )
        return Row(label, tuple(entries))

    # The clean input's own numbers stand in the rows of every operator and π.
    clean = {name.removeprefix("clean_"): name for name in CLEAN[:2]}
    every = {name: name for name in COLUMNS}
    blocks = tuple(
        Block(
            label,
            (
                row("Nothing", dataset, operators[0], shown[0], clean),
                *(
                    row(f"{OPERATORS[operator]}, π = {pi:g}", dataset, operator, pi, every)
                    for operator in operators
                    for pi in shown
                ),
            ),
        )
        for dataset, label in known.items()
    )
    return Table(
        title=f"Is a perturbed input still language? · {where}",
        corner="Done to random tokens",
        columns=tuple(COLUMNS.values()),
        blocks=blocks,
        notes=(*_NOTES, sample_note(rows[rows["measure"] == "entropy"], known)),
        values=rows.drop(columns=["protocol", "model"]),
    )


_NOTES = (
    "What the model makes of inputs of which random tokens are taken away, whatever the methods: "
    "each perturbable token is kept with probability π. Means over a few masks, a sample's "
    "explained steps, and samples; in brackets, 95 % bootstrap interval over samples. No column "
    "is better high or low: they tell how far such inputs are from the clean one (Nothing).",
    "Entropy and probability are of the next token; attention is what the last position pays to "
    "the tokens that are taken away, mean over heads and layers, and before, to the same tokens "
    "of the clean input; the norm is that of the last layer's output at the last position, in "
    f"that of the clean input. {NOTHING}: no value. Under fixed routing attention is held and not "
    "read; open text has no label words.",
)
