"""Tables of the page "Against the paper"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from pisoft.statistics.against_paper import OUTSIDE, SECONDS
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.published import COLUMN, DATASETS, METHODS, METRICS, MODELS, VARIANTS
from pisoft.tables.layout import Block, Entry, Row, Table
from pisoft.units import NOTHING

ROWS = {**DATASETS, AVERAGE: "Average"}
_COUNTS = {
    "compared": "Compared",
    "inside": "Inside",
    "outside": "Outside",
    "no_interval": "No interval",
}
_DIFFERENCE, _RATIO = "Run minus paper", "Run divided by paper"
_LINES = (
    "Paper",
    "This run",
    "95 % interval, from",
    "95 % interval, to",
    _DIFFERENCE,
    "Paper's number",
    "n (failed)",
)
_TIMES_NOTE = (
    "A ratio of times is one of machines and of algorithms, not of methods. Here, samples and "
    "steps share batches, gradients of all explained steps of a sample come from one forward "
    "pass, and value zeroing is computed in closed form, without a forward pass for each token; "
    "the paper explains token by token. The ratio says what to expect of a run here."
)
_MINUS = "\N{MINUS SIGN}"


def where(model: str, protocol: str) -> str:
    """Return the label of a published model and, if there is one, the protocol."""
    return MODELS[model] + (f" · {protocol} routing" if protocol else "")


def tau_text(tau: float) -> str:
    """Return Kendall's τ as text."""
    return NOTHING if pd.isna(tau) else f"{tau:.2f}".replace("-", _MINUS)


def summary_table(agreements: pd.DataFrame) -> Table:
    """Build the table of how many numbers of each column agree, and how far its orders do.

    Args:
        agreements: rows of :func:`pisoft.statistics.against_paper.agreement`.
    """
    datasets = [name for name in ROWS if name in set(agreements["dataset"])]
    blocks = tuple(
        Block(
            MODELS[model],
            tuple(
                _summary_row(metric, protocol, column.set_index("dataset").reindex(datasets))
                for (protocol, metric), column in columns.groupby(
                    ["protocol", "metric"], sort=False
                )
            ),
        )
        for model, columns in agreements.groupby("model", sort=False)
    )
    return Table(
        title="Published numbers inside this run's intervals, and agreement of the orders",
        corner="Metric",
        columns=(*_COUNTS.values(), *(f"τ {ROWS[name]}" for name in datasets)),
        blocks=blocks,
        notes=(
            "Compared: published numbers with one of this run beside them. Inside, outside: of "
            "this run's 95 % interval.",
            "τ: Kendall's τ-b between the published order of the methods and this run's, over the "
            f"methods that both have; {NOTHING} below two.",
        ),
        values=agreements,
    )


def cell_tables(cells: pd.DataFrame) -> Iterator[Table]:
    """Yield one table for each protocol, model and metric: every published number and the run's.

    Args:
        cells: rows of :func:`pisoft.statistics.against_paper.compare`.
    """
    for (protocol, model, metric), column in cells.groupby(COLUMN, sort=False):
        methods = list(column["method"].unique())
        yield Table(
            title=f"{METRICS[metric].label} · {where(model, protocol)}",
            corner="Dataset",
            columns=tuple({**METHODS, **VARIANTS}[name] for name in methods),
            blocks=tuple(
                _cell_block(ROWS[dataset], rows.set_index("method"), methods)
                for dataset, rows in column.groupby("dataset", sort=False)
            ),
            notes=(
                f"The paper's table: {column['table'].iloc[0]}.",
                *([_TIMES_NOTE] if metric == SECONDS else []),
            ),
            values=column,
            spanner="Methods",
        )


def robustness_tables(robustness: pd.DataFrame) -> Iterator[Table]:
    """Yield one table for each model and protocol: ranks with each dataset left out.

    Args:
        robustness: rows of :func:`pisoft.statistics.against_paper.published_robustness`.
    """
    for (protocol, model), part in robustness.groupby(["protocol", "model"], sort=False):
        methods = list(part["method"].unique())
        yield Table(
            title=f"Ranks of the published means · {where(model, protocol)}",
            corner="Datasets",
            columns=("Kendall's τ", "Best", *(METHODS[name] for name in methods)),
            blocks=tuple(
                Block(METRICS[metric].label, tuple(_robustness_rows(column, methods)))
                for metric, column in part.groupby("metric", sort=False)
            ),
            notes=(),
            values=part,
        )


def _summary_row(metric: str, protocol: str, column: pd.DataFrame) -> Row:
    """Return one row from what :func:`agreement` says of each dataset."""
    counts = (Entry(f"{column[name].sum():.0f}") for name in _COUNTS)
    taus = (Entry(tau_text(tau)) for tau in column["kendall_tau"])
    label = METRICS[metric].label + (f" · {protocol}" if protocol else "")
    return Row(label, (*counts, *taus))


def _cell_block(title: str, cells: pd.DataFrame, methods: Sequence[str]) -> Block:
    """Return the lines of one dataset; a method that is not printed for it has none."""
    printed = {str(cell.Index): _cell_texts(cell) for cell in cells.itertuples()}
    nothing = (NOTHING,) * len(_LINES)
    ratio = (cells["metric"] == SECONDS).all()
    by_line = zip(*(printed.get(name, nothing) for name in methods), strict=True)
    return Block(
        title,
        tuple(
            Row(
                _RATIO if ratio and label == _DIFFERENCE else label,
                tuple(Entry(text, strong=text == OUTSIDE) for text in texts),
            )
            for label, texts in zip(_LINES, by_line, strict=True)
        ),
    )


def _cell_texts(cell: Any) -> tuple[str, ...]:
    """Return the texts of one cell, line by line; whole numbers get one digit more."""
    shown = max(cell.decimals, 1)
    values = (cell.value, cell.low, cell.high)
    failed = f" ({cell.n_failed:.0f})" if cell.n_failed > 0 else ""
    return (
        f"{cell.published:.{cell.decimals}f}",
        *(NOTHING if pd.isna(value) else f"{value:.{shown}f}" for value in values),
        _comparison(cell, shown),
        cell.outcome,
        NOTHING if pd.isna(cell.n) else f"{cell.n:.0f}{failed}",
    )


def _comparison(cell: Any, shown: int) -> str:
    """Return how far the run's number is from the published one; of times, how many times it."""
    if pd.isna(cell.value):
        return NOTHING
    if cell.metric == SECONDS:
        return f"{cell.value / cell.published:.2g}" if cell.published else NOTHING
    return f"{cell.difference:+.{shown}f}".replace("-", _MINUS)


def _robustness_rows(column: pd.DataFrame, methods: Sequence[str]) -> Iterator[Row]:
    """Yield the ranks of one metric: on all datasets, then without each."""
    for left_out, part in column.groupby("left_out", dropna=False, sort=False):
        ranks = part.set_index("method")["rank"].reindex(methods)
        order = part.iloc[0]
        best = ", ".join(METHODS[name] for name in order["best"])
        yield Row(
            "All" if pd.isna(left_out) else f"Without {DATASETS[left_out]}",
            (
                Entry(tau_text(order["kendall_tau"])),
                Entry(best or NOTHING, strong=bool(order["best_changes"])),
                *(Entry(NOTHING if pd.isna(rank) else f"{rank:g}") for rank in ranks),
            ),
        )
