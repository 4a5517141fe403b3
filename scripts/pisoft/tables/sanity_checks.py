"""The table of how much of methods' scores stays when the model knows less, or reads others."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from pisoft.displays import display
from pisoft.statistics.reading import present
from pisoft.tables.layout import (
    Block,
    Row,
    Table,
    dataset_columns,
    mean_entry,
    sample_note,
)
from pisoft.views import View

UNMOVED = 0.9  # ρ from which on scores are said to have stayed what they were
OTHERS = {"labels": "Shuffled labels", "input": "Another input"}  # checks that draw no layers anew


@display(
    title="Do scores change with model and input?",
    by=("model",),
    reads={"sanity_checks": "summary/sanity_checks"},
    cells="sanity",
)
def table(view: View) -> Table:
    """Build the table of one model."""
    files, settings, cell = view.files, view.settings, view.cell
    rows = files.rows("sanity_checks", **cell)
    return sanity_table(
        rows,
        where=settings.where(cell),
        methods=present(settings.methods, rows),
        datasets=settings.datasets,
    )


def sanity_table(
    rows: pd.DataFrame, *, where: str, methods: Mapping[str, str], datasets: Mapping[str, str]
) -> Table:
    """Build the table of rank correlations, a block for each dataset.

    Args:
        rows: `sanity` rows of one model.
        where: model, for the title.
        methods: label of each method, in the order of the rows.
        datasets: label of each dataset; those that were not checked are left out.
    """
    known, checks = set(rows["dataset"]), set(rows["check"])
    shown = {name: label for name, label in datasets.items() if name in known}
    layers = sorted(rows.loc[rows["check"] == "layers", "layers"].unique())
    columns = {("layers", k): f"Last {k} layers" if k > 1 else "Last layer" for k in layers}
    columns |= {(check, 0): OTHERS[check] for check in OTHERS if check in checks}
    by_cell = rows.set_index(["dataset", "method", "check", "layers"])
    blocks = tuple(
        Block(
            label,
            tuple(
                Row(
                    methods[name],
                    tuple(mean_entry(by_cell.loc[(dataset, name, *key)], 2) for key in columns),
                )
                for name in methods
            ),
        )
        for dataset, label in dataset_columns(shown).items()
    )
    means = by_cell["value"].xs(list(dataset_columns(shown))[-1], level="dataset")
    stayed = {
        f"with {layers[-1]} layers drawn anew, and so do not depend on what these have learnt": (
            "layers",
            layers[-1],
        ),
        "with shuffled labels, and so do not depend on what labels have taught": ("labels", 0),
        "with another input, and so depend on a token's place alone": ("input", 0),
    }
    return Table(
        title=f"Do scores change with model and input? · {where}",
        corner="Method",
        columns=tuple(columns.values()),
        blocks=blocks,
        notes=(
            *(
                f"Methods whose mean ρ is {UNMOVED} or more {words}: "
                f"{_unmoved(means.xs(key, level=['check', 'layers']), methods)}."
                for words, key in stayed.items()
                if key in columns
            ),
            *(note for check, note in _NOTES.items() if check in checks),
            "In brackets: 95 % bootstrap interval over samples. Random scores depend on no model: "
            "their ρ is 1 on any, and about 0 with another input.",
            sample_note(rows, shown),
        ),
        values=rows.drop(columns="model"),
    )


def _unmoved(means: pd.Series, methods: Mapping[str, str]) -> str:
    """List the labels of methods whose mean, by method, says that their scores stay."""
    return ", ".join(methods[name] for name in methods if means[name] >= UNMOVED) or "none"


_NOTES = {
    "layers": "Last layers: Spearman's ρ between a method's scores and those that it gives for the "
    "same answer when so many of the model's last decoder layers have weights drawn anew (normal, "
    "with each weight matrix's own mean and deviation; embeddings and output head stay); mean over "
    "samples. Lower says more: scores that stay what they were do not explain what the layers do. "
    "A low ρ alone does not make a method faithful.",
    "labels": "Shuffled labels: the same with a twin of the model, trained on answers that were "
    "shuffled over the same records: of the task it knows how often each answer is given. Lower "
    "says more: scores that stay do not explain what the model has learnt from the answers.",
    "input": "Another input: Spearman's ρ between the scores of a text and the mean of the other "
    "texts' scores at the same relative position. Lower says more: near 1, the scores are the same "
    "whatever a text says.",
}
