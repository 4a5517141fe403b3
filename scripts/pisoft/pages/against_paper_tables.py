"""Tables of the page "Against the paper"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from pisoft.formatting import NOTHING
from pisoft.statistics.against_paper import SECONDS
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.published import COLUMN, DATASETS, METHODS, METRICS, MODELS, VARIANTS
from pisoft.tables.grid import blocks, columns, each, mark, plain
from pisoft.tables.layout import Block, Entry, Row, Table, interval_text, number_text, rank_text
from pisoft.views.view import Number, Results

ROWS = {**DATASETS, AVERAGE: "Average"}
_COUNTS = {
    "compared": "Compared",
    "inside": "Inside",
    "outside": "Outside",
    "no_interval": "No interval",
}
_DIFFERENCE, _RATIO = "Run minus paper", "Run divided by paper"
_TIMES_NOTE = (
    "A ratio of times is one of machines and of algorithms, not of methods. Here, samples and "
    "steps share batches, gradients of all explained steps of a sample come from one forward "
    "pass, and value zeroing is computed in closed form, without a forward pass for each token; "
    "the paper explains token by token. The ratio says what to expect of a run here."
)


def where(model: str, protocol: str) -> str:
    """Return the label of a published model and, if there is one, the protocol."""
    return MODELS[model] + (f" · {protocol} routing" if protocol else "")


def summary_table(agreements: pd.DataFrame) -> Table:
    """Build the table of how many numbers of each column agree, and how far its orders do.

    Args:
        agreements: rows of :func:`pisoft.statistics.against_paper.agreement`.
    """
    datasets = [name for name in ROWS if name in set(agreements["dataset"])]
    lines: dict[str, list[Row]] = {}
    for (model, protocol, metric), rows in agreements.groupby(
        ["model", "protocol", "metric"], sort=False
    ):
        taus = rows.set_index("dataset")["kendall_tau"].reindex(datasets)
        texts = [
            *(f"{rows[name].sum():.0f}" for name in _COUNTS),
            *(number_text(t, 2) for t in taus),
        ]
        label = METRICS[metric].label + (f" · {protocol}" if protocol else "")
        lines.setdefault(MODELS[model], []).append(Row(label, tuple(map(Entry, texts))))
    return Table(
        title="Published numbers inside this run's intervals, and agreement of the orders",
        corner="Metric",
        columns=(*_COUNTS.values(), *(f"τ {ROWS[name]}" for name in datasets)),
        blocks=tuple(Block(title, tuple(rows)) for title, rows in lines.items()),
        notes=(
            "Compared: published numbers with one of this run beside them. Inside, outside: of "
            "this run's 95 % interval.",
            "τ: Kendall's τ-b between the published order of the methods and this run's, over the "
            f"methods that both have; {NOTHING} below two.",
        ),
        values=agreements,
    )


def cell_tables(cells: pd.DataFrame, links: Mapping[str, Mapping[str, str]]) -> Iterator[Table]:
    """Yield one table for each protocol, model and metric: every published number and the run's.

    Args:
        cells: rows of :func:`pisoft.statistics.against_paper.compare`.
        links: where the scores of a dataset are shown, by the labels of model and dataset.
    """
    for (protocol, model, metric), column in cells.groupby(COLUMN, sort=False):
        difference = _RATIO if metric == SECONDS else _DIFFERENCE
        yield Table(
            title=f"{METRICS[metric].label} · {where(model, protocol)}",
            corner="Method",
            columns=("Paper", "This run", difference, "Paper's number", "n (failed)"),
            blocks=tuple(
                Block(ROWS[dataset], tuple(map(_cell_row, rows.itertuples())))
                for dataset, rows in column.groupby("dataset", sort=False)
            ),
            notes=(
                f"The paper's table: {column['table'].iloc[0]}.",
                *([_TIMES_NOTE] if metric == SECONDS else []),
            ),
            values=column,
            links={label: links[label] for label in (MODELS[model],) if label in links},
        )


def robustness_tables(robustness: pd.DataFrame) -> Iterator[Table]:
    """Yield one table for each model and protocol: ranks with each dataset left out.

    Args:
        robustness: rows of :func:`pisoft.statistics.against_paper.published_robustness`.
    """
    for (protocol, model), rows in robustness.groupby(["protocol", "model"], sort=False):
        results = Results(rows, METHODS, DATASETS)
        left_out = {name: f"Without {DATASETS[name]}" if name else "All" for name in rows["other"]}
        titles = {METRICS[name].label: {"metric": name} for name in rows["metric"]}
        methods = {name: METHODS[name] for name in rows["method"] if name}
        ranks = columns("other", left_out, place, part="without")
        taus = columns("other", left_out, plain(2), part="kendall_tau")
        made = zip(
            blocks(results, titles, each("method", methods), ranks, ranks[0], sparse=True),
            blocks(results, titles, {"Kendall's τ": {}}, taus),
            strict=True,
        )
        yield Table(
            title=f"Ranks of the published means · {where(model, protocol)}",
            corner="Method",
            columns=tuple(left_out.values()),
            blocks=tuple(Block(of.title, (*of.rows, *tau.rows)) for of, tau in made),
            notes=(),
            values=results.values,
        )


def place(number: Number) -> Entry:
    """Show a rank; mark the best, and how others compare with it."""
    return Entry(rank_text(number.rank), strong=number.is_best, mark=mark(number))


def _cell_row(cell: Any) -> Row:
    """Return one method's row of a dataset; whole numbers get one digit more."""
    shown = max(cell.decimals, 1)
    failed = f" ({cell.n_failed:.0f})" if cell.n_failed > 0 else ""
    difference = number_text(cell.difference, shown)
    if cell.difference >= 0:
        difference = f"+{difference}"
    if cell.metric == SECONDS and not pd.isna(cell.value):
        difference = f"{cell.value / cell.published:.2g}" if cell.published else NOTHING
    interval = interval_text(cell.low, cell.high, shown)
    return Row(
        {**METHODS, **VARIANTS}[cell.method],
        (
            Entry(f"{cell.published:.{cell.decimals}f}"),
            Entry(number_text(cell.value, shown), interval=interval),
            Entry(difference),
            Entry(cell.outcome),
            Entry(NOTHING if pd.isna(cell.n) else f"{cell.n:.0f}{failed}"),
        ),
    )
