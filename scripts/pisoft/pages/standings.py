"""The front page's table: the rank of every method for each model, metric and protocol."""

from __future__ import annotations

from pisoft.formatting import NOTHING
from pisoft.pages.findings import SHORT, Numbers
from pisoft.statistics.metrics import AUC_METRICS, AVERAGE
from pisoft.tables.grid import Column, blocks, each, mark
from pisoft.tables.layout import Entry, Table, rank_text
from pisoft.views.view import Number

_NOTE = (
    "Rank by the AUC's mean over the model's datasets; 1 is best. Bold: best of its column. ≈: not "
    f"significantly different from it. ≡: equivalent to it. ?: not tested. {NOTHING}: not run, or "
    "no value. Sorted by the first "
    "model's mean rank."
)


def standings_table(numbers: Numbers) -> Table:
    """Build the table of ranks, the best method of the first model first."""
    results = numbers.results("statistics", dataset=AVERAGE, metric=AUC_METRICS)
    averages, labels = results.rows, numbers.labels
    means = averages.pivot_table(index="method", columns="model", values="rank", sort=False)
    models = [name for name in labels.models if name in means]
    means = means.reindex([name for name in labels.methods if name in means.index])
    ordered = means.sort_values(models, kind="stable").index
    columns, spanners = [], []
    for model in models:
        cells = [
            {"model": model, "metric": metric, "protocol": protocol}
            for metric in SHORT
            for protocol in averages.loc[averages["model"] == model, "protocol"].unique()
        ]
        columns += [Column(f"{SHORT[c['metric']]}, {c['protocol']}", c, place) for c in cells]
        spanners.append((labels.models[model], len(cells)))
    notes = [_NOTE]
    if numbers.restricted:
        notes.append(f"{numbers.restrictions} Ranks on different datasets are not comparable.")
    if missing := [label for name, label in labels.methods.items() if name not in ordered]:
        notes.append(f"Without a rank: {', '.join(missing)}.")
    lines = each("method", {name: labels.methods[name] for name in ordered})
    return Table(
        title="Ranks",
        corner="Method",
        columns=tuple(column.label for column in columns),
        blocks=blocks(results, {"": {}}, lines, columns),
        notes=tuple(notes),
        values=averages,
        spanners=tuple(spanners),
    )


def place(number: Number) -> Entry:
    """Show a rank; mark the best, and how others compare with it."""
    return Entry(rank_text(number.rank), strong=number.is_best, mark=mark(number))
