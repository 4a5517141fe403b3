"""The part of README.md that shows what a run found: a table in Markdown, and a figure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pisoft.errors import BenchmarkError
from pisoft.statistics.metrics import AUC_METRICS, AVERAGE, METRICS
from pisoft.statistics.results import select
from pisoft.tables.grid import blocks, columns, each, ranked
from pisoft.tables.layout import Block, Entry
from pisoft.views.view import Results

BEGIN = "<!-- written by `make readme`: begin -->"
END = "<!-- written by `make readme`: end -->"


def result_text(
    results: Results, *, model: str, shown: Collection[str], figure: str, page: str
) -> str:
    """Return table and figure with what they show, as Markdown.

    Args:
        results: `statistics` of one model and protocol.
        model: label of its model.
        shown: methods with a row of their own, besides the best of each column.
        figure: path of the figure from README.md.
        page: path of the page with all numbers of the run.
    """
    best = set(select(results.rows, dataset=AVERAGE)["best"])
    rows = {n: label for n, label in results.methods.items() if n in shown or n in best}
    areas = {name: METRICS[name].label for name in AUC_METRICS}
    cells = columns("metric", areas, ranked, dataset=AVERAGE)
    share = f"{len(rows)} of the {len(results.methods)} rows"
    (block,) = blocks(results, {"": {}}, each("method", rows), cells)
    return "\n".join(
        [
            _line(["Method", *areas.values()]),
            _line(["---", *["--:"] * len(areas)]),
            *map(_line, markdown_rows(block)),
            "",
            f"{share} of {model}, dynamic routing: area under the",
            f"curve over π (AUC), mean over samples ({sample_counts(results)}) and",
            "datasets, with 95 % confidence intervals. Bold: best of all methods. ≈: not",
            "significantly different from it (paired test). The figure shows both",
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


def markdown_rows(block: Block) -> list[tuple[str, ...]]:
    """Return the lines of a block: label and numbers."""
    return [(row.label, *map(_entry_text, row.entries)) for row in block.rows]


def sample_counts(results: Results) -> str:
    """Return the samples in the means of each dataset, of the method that has most."""
    largest = select(results.rows, metric=AUC_METRICS).groupby("dataset")["n"].max()
    return ", ".join(f"{label} {largest[name]}" for name, label in results.datasets.items())


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _entry_text(entry: Entry) -> str:
    """Return a number with its marks, and its interval in small type, unbroken."""
    number = f"**{entry.text}**" if entry.strong else entry.text
    mark = f" {entry.mark}" if entry.mark else ""
    interval = f" <sub>{entry.interval}</sub>" if entry.interval else ""
    return f"{number}{mark}{interval}".replace(" ", "&nbsp;")
