"""The part of README.md that shows what a run found: a table in Markdown, and a figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from pisoft.errors import BenchmarkError
from pisoft.pages.findings import Numbers, answer
from pisoft.statistics.metrics import AUC_METRICS, AVERAGE, CONTROL, METRICS
from pisoft.statistics.results import select
from pisoft.tables.grid import blocks, columns, each, ranked
from pisoft.tables.layout import Block, Entry, rank_text
from pisoft.views.view import Results

BEGIN = "<!-- written by `make readme`: begin -->"
END = "<!-- written by `make readme`: end -->"
LEADING = 3  # rows of the table, besides random scores


def result_text(numbers: Numbers, *, protocol: str, figure: str, page: str) -> Iterator[str]:
    """Yield the lines of table, answer and figure, as Markdown.

    Args:
        numbers: statistics and comparisons of one model.
        protocol: whose numbers.
        figure: path of the figure from README.md.
        page: path of the page with all numbers of the run.
    """
    results = numbers.results("statistics", protocol=protocol)
    orders = {name: numbers.order(metric=name, protocol=protocol) for name in AUC_METRICS}
    (model,) = numbers.labels.models.values()
    areas = {name: METRICS[name].label for name in AUC_METRICS}
    yield _line(["#", "Method", *areas.values()])
    yield _line(["--:", "---", *["--:"] * len(areas)])
    ranks = orders[AUC_METRICS[0]].rows["rank"]
    labels = {name: results.methods[name] for name in ranks.index}
    cells = columns("metric", areas, ranked, dataset=AVERAGE)
    (block,) = blocks(results, {"": {}}, each("method", labels), cells)
    rows = [(rank_text(rank), *row) for rank, row in zip(ranks, markdown_rows(block), strict=True)]
    places = [n for n, method in enumerate(ranks.index) if n < LEADING or method == CONTROL]
    for place, following in pairwise([*places, len(rows)]):
        yield _line(rows[place])
        if following > place + 1:
            yield _line(["…", *[""] * (1 + len(areas))])
    n = select(results.rows, metric=AUC_METRICS, dataset=AVERAGE)["n"].max()
    yield f"""
*{model}, n = {n} prompts ({sample_counts(results)}),
{protocol} routing; {len(rows)} methods, ordered by π-Soft-NS. Area under the curve over π (AUC),
mean over datasets, with its 95 % interval. **Bold**: best. ≈: not significantly different from it.*

**{answer(orders)}**
One small model says little about larger ones, and a difference that is not significant at this n
may still exist: [all numbers, and which of the paper's findings they confirm]({page}).

![π-Soft-NS and π-Soft-NC of {model} over the retaining probability π]({figure})

*Both metrics over π on one dataset. In colour: the best method, those not significantly different
from it (at most four), Grad-ELLM, random scores and the worst.*"""


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
