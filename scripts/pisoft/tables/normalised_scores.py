"""The table of how far methods are on the way from random scores to the oracle.

Where the run searches random masks, the way to the best of them has a block of its own below.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from pisoft.config.trust import SEARCH
from pisoft.displays import display
from pisoft.statistics.controls import ORACLE
from pisoft.statistics.metrics import METRICS
from pisoft.statistics.reading import present
from pisoft.tables.layout import Block, Entry, Row, Table, mean_entry, sample_note
from pisoft.units import NOTHING
from pisoft.views import View

SHOWN = ("auc_pi_soft_ns", "auc_pi_soft_nc", "soft_ns", "soft_nc", "deletion_auc", "insertion_auc")


@display(
    title="From random scores to the oracle",
    by=("model",),
    reads={"normalised_scores": "summary/normalised_scores"},
    cells="scaled",
)
def table(view: View) -> Table:
    """Build the table of one model."""
    files, settings, cell = view.files, view.settings, view.cell
    rows = files.rows("normalised_scores", **cell)
    return oracle_scale_table(
        rows,
        where=settings.where(cell),
        methods=present(settings.methods | settings.controls, rows),
        datasets=settings.datasets,
    )


def oracle_scale_table(
    rows: pd.DataFrame, *, where: str, methods: Mapping[str, str], datasets: Mapping[str, str]
) -> Table:
    """Build the table of shares of the way.

    Args:
        rows: `oracle_scale` rows of one model.
        where: model, for the title.
        methods: label of each method and control.
        datasets: label of each dataset; those without any such way are left out.
    """
    rows = rows.assign(protocol=rows["protocol"].fillna(""))
    shown = {name: label for name, label in datasets.items() if name in set(rows["dataset"])}
    known = set(zip(rows["protocol"], rows["metric"], strict=True))
    protocols = dict.fromkeys(sorted(rows["protocol"].unique(), key=lambda name: name or "~"))
    columns = [(of, name) for of in protocols for name in SHOWN if (of, name) in known]
    by_cell = rows.set_index(["dataset", "end", "protocol", "metric", "method"]).sort_index()
    ends = rows.groupby("end")["masks"].min()  # the oracle first
    ways = [(of, end) for of in shown for end in ends.index if (of, end) in by_cell.index]
    blocks = tuple(
        Block(
            f"{shown[way[0]]}, to {_END[way[1]]}",
            tuple(
                Row(methods[name], tuple(_entry(by_cell, (*way, *key, name)) for key in columns))
                for name in _best_first(
                    present(methods, by_cell.loc[way].reset_index()), by_cell, (*way, *columns[0])
                )
            ),
        )
        for way in ways
    )
    notes = (_SHARE, *(_NOTES[end].format(masks) for end, masks in ends.items()))
    labels = [METRICS[name].label.rstrip(" ↑↓") for _, name in columns]
    return Table(
        title=f"From random scores to the oracle · {where}",
        corner="Method",
        columns=tuple(labels),
        blocks=blocks,
        notes=(*notes, sample_note(rows, shown)),
        values=rows.drop(columns="model"),
        spanners=tuple(
            (f"{of} routing" if of else "any routing", [key[0] for key in columns].count(of))
            for of in protocols
        ),
    )


def _best_first(
    methods: Mapping[str, str], by_cell: pd.DataFrame, key: tuple[str, ...]
) -> list[str]:
    """Return the methods in the order of the first column; those without a value come last."""
    values = by_cell.loc[key, "value"].reindex(list(methods))
    return list(values.sort_values(ascending=False, na_position="last", kind="stable").index)


def _entry(by_cell: pd.DataFrame, key: tuple[str, ...]) -> Entry:
    if key not in by_cell.index:
        return Entry(NOTHING)
    return mean_entry(by_cell.loc[key], 2)


_SHARE = (
    "Share of the way from random scores to the end that a block names: the difference of the "
    "method's mean to that of random scores, divided by that of the end; higher is better for "
    "every metric. 0 is no better than random scores, 1 as good as the end. In brackets: 95 % "
    "bootstrap interval over samples. No value: the end is not told apart from random scores, or "
    "there is none for the metric."
)
_END = {ORACLE: "the oracle", SEARCH: "the best of random masks"}
_NOTES = {
    ORACLE: "The oracle knows the evidence; a model that decides by other tokens lets methods come "
    "out above 1.",
    SEARCH: "The best of random masks is no oracle: at every step and π it is the best of at least "
    "{:.0f} masks that keep, or remove, as many tokens, drawn at random and the same for all "
    "methods. The more masks, the better the best of them and the smaller all shares. A better "
    "mask may exist, which lets methods come out above 1; and no single scores need reach it, as "
    "it may be another mask at every π. Where both ends are known, each has a row on the way to "
    "the other.",
}
