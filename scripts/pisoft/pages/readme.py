"""The part of README.md that shows what a run found: a table in Markdown, and a figure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pandas as pd

from pisoft.errors import BenchmarkError
from pisoft.statistics.metrics import AUC_METRICS, AVERAGE, METRICS
from pisoft.tables.layout import Entry, statistic_entries

BEGIN = "<!-- written by `make readme`: begin -->"
END = "<!-- written by `make readme`: end -->"


def result_text(
    values: pd.DataFrame,
    *,
    model: str,
    methods: Mapping[str, str],
    shown: Collection[str],
    datasets: Mapping[str, str],
    figure: str,
    page: str,
) -> str:
    """Return table and figure with what they show, as Markdown.

    Args:
        values: `statistics` rows of one model and protocol.
        model: label of its model.
        methods: label of each method, in the order of the rows.
        shown: methods with a row of their own, besides the best of each column.
        datasets: label of each dataset.
        figure: path of the figure from README.md.
        page: path of the page with all numbers of the run.
    """
    averages = values[values["dataset"] == AVERAGE]
    rows = {
        name: label
        for name, label in methods.items()
        if name in shown or name in set(averages["best"])
    }
    sizes = sample_counts(values)
    counted = ", ".join(f"{label} {sizes[name]}" for name, label in datasets.items())
    return "\n".join(
        [
            _line(["Method", *(METRICS[metric].label for metric in AUC_METRICS)]),
            _line(["---", *["--:"] * len(AUC_METRICS)]),
            *map(_line, number_rows(values, [(name, AVERAGE) for name in AUC_METRICS], rows)),
            "",
            f"{len(rows)} of the {len(methods)} rows of {model}, dynamic routing: area under the",
            f"curve over π (AUC), mean over samples ({counted}) and",
            "datasets, with 95 % bootstrap intervals. Bold: best of all methods. ≈: not",
            "significantly different from it (paired permutation test). The figure shows both",
            "metrics over π on one dataset; in colour: the best, those not significantly different",
            "from it (at most four), Grad-ELLM, random scores and the worst.",
            "",
            f"![π-Soft-NS and π-Soft-NC of {model} over the retaining probability π]({figure})",
            "",
            "All numbers of this run, and which of the paper's findings it confirms:",
            f"[real numbers]({page}).",
        ]
    )


def put_between_markers(document: str, text: str, name: str) -> str:
    """Replace what stands between the two markers of a document.

    Args:
        document: text with :data:`BEGIN` and, behind it, :data:`END`, each on a line of its own.
        text: what is to stand there.
        name: of the document, for the error message.

    Raises:
        BenchmarkError: a marker is missing, there more than once, or in the wrong place.
    """
    lines = document.splitlines()
    if [line for line in lines if line in (BEGIN, END)] != [BEGIN, END]:
        raise BenchmarkError(f"{name}: needs one line '{BEGIN}' and, below it, one line '{END}'")
    head, tail = lines[: lines.index(BEGIN) + 1], lines[lines.index(END) :]
    return "\n".join([*head, text, *tail, ""])


def number_rows(
    values: pd.DataFrame, cells: Sequence[tuple[str, str]], methods: Mapping[str, str]
) -> list[tuple[str, ...]]:
    """Return a row for each method: its label, and a number of each metric and dataset.

    Args:
        values: `statistics` rows of one model and protocol.
        cells: metric and dataset of each column.
        methods: label of each method.
    """
    columns = [statistic_entries(values, *cell, 3, methods) for cell in cells]
    return [
        (label, *map(entry_text, row))
        for label, row in zip(methods.values(), zip(*columns, strict=True), strict=True)
    ]


def sample_counts(values: pd.DataFrame) -> dict[str, int]:
    """Return the samples in the means of each dataset, of the method that has most."""
    auc = values[values["metric"].isin(AUC_METRICS)]
    return {str(name): int(n) for name, n in auc.groupby("dataset")["n"].max().items()}


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def entry_text(entry: Entry) -> str:
    """Return a number with its marks, and its interval in small type, unbroken."""
    number = f"**{entry.text}**" if entry.strong else entry.text
    tied = " ≈" if entry.tied else ""
    interval = f" <sub>{entry.interval}</sub>" if entry.interval else ""
    return f"{number}{tied}{interval}".replace(" ", "&nbsp;")
