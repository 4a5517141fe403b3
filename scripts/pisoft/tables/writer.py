"""One writer for every table, so that its CSV, LaTeX and HTML files never disagree."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, chain, pairwise
from pathlib import Path
from textwrap import wrap
from typing import Any
from urllib.parse import urlencode

import jinja2

from pisoft.tables.grid import Block, Table

EXPLORER = "Explorer"  # title of the page of single samples


def write(
    table: Table,
    csv: Path,
    tex: Path,
    html: Path,
    warning: str = "",
    pages: Mapping[str, str] | None = None,
) -> None:
    """Write a table's numbers as CSV and its layout as LaTeX and HTML.

    A warning stands above the HTML table and is the first note below the LaTeX one; `pages` are the
    bar of links above both (:func:`addresses`). The LaTeX file is for `\\input` in a document with
    booktabs: floats one column wide, or two where the table needs them. The HTML file needs no
    other file; where rows have families, a button groups them.
    """
    table.values.to_csv(csv, index=False, lineterminator="\n")
    warned = replace(table, notes=(warning, *table.notes)) if warning else table
    tex.write_text(render_latex("table.tex.jinja", table=warned), encoding="utf-8")
    families = any(row.family for block in table.blocks for row in block.rows)
    values = {"table": table, "warning": warning, "families": families, "pages": pages or {}}
    html.write_text(render_html("table.html.jinja", **values), "utf-8")


def addresses(pages: Mapping[str, str], page: Path) -> dict[str, str]:
    """Return the relative addresses of the run's pages, by title, from one of them (empty)."""
    return {
        title: "" if address == str(page) else os.path.relpath(address, page.parent)
        for title, address in pages.items()
    }


def explorer_links(
    explorer: str, models: Mapping[str, str], datasets: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """Return links to samples in the explorer, by labels of model and dataset.

    `explorer` is its address relative to the page of the table; empty: no explorer.
    """
    return {
        model_label: {
            dataset_label: f"{explorer}#{urlencode({'model': model, 'dataset': dataset})}"
            for dataset, dataset_label in datasets.items()
        }
        for model, model_label in models.items()
        if explorer
    }


def render_html(template: str, **values: Any) -> str:
    """Return one of the HTML templates filled with values, whose markup is escaped."""
    return _HTML.get_template(template).render(**values)


def render_latex(template: str, **values: Any) -> str:
    """Return one of the LaTeX templates filled with values."""
    return _LATEX.get_template(template).render(**values)


# Pages also hold tables and include the layout of one.
_ROOM = Path(__file__).parents[1]
TEMPLATE_FOLDERS = [_ROOM / "tables/templates", _ROOM / "pages/templates"]
COLUMNS = 18  # of a float in LaTeX as wide as a page, of numbers such as −.12
LINES = 40  # of a float in LaTeX, besides heading and notes
_LATEX_CHARACTERS = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        **{character: f"{{{character}}}" for character in "[]*"},  # after \\ they are arguments
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "π": r"$\pi$",
        "α": r"$\alpha$",
        "ρ": r"$\rho$",
        "τ": r"$\tau$",
        "₀": r"$_0$",
        "↑": r"$\uparrow$",
        "↓": r"$\downarrow$",
        "·": r"$\cdot$",
        "≈": r"$\approx$",
        "≡": r"$\equiv$",
        "≤": r"$\leq$",
        "≥": r"$\geq$",
        "…": r"\ldots{}",
        "\N{MULTIPLICATION SIGN}": r"$\times$",
        "\N{PLUS-MINUS SIGN}": r"$\pm$",
        "\N{MINUS SIGN}": "$-$",
        "\N{EN DASH}": "--",
        "\N{EM DASH}": "---",
    }
)


def _latex(text: str) -> str:
    """Escape text for LaTeX; non-ASCII letters are left to the input encoding."""
    return " ".join(text.split()).translate(_LATEX_CHARACTERS)


def _latex_lines(text: str, letters: int, side: str, align: str = "t", below: bool = False) -> str:
    """Escape text for LaTeX, wrapped to a number of letters to limit the width of its column.

    Lines are aligned at `side`, `l`, `c` or `r`; the top (`t`) or bottom (`b`) line stands beside
    other columns. With `below`, the row has a second line that takes the second line of the text.
    """
    lines = wrap(" ".join(text.split()), letters, break_long_words=False)
    if len(lines) < 2:
        return _latex(text)
    stacked = r" \\ ".join(map(_latex, lines))
    code = rf"\begin{{tabular}}[{align}]{{@{{}}{side}@{{}}}}{stacked}\end{{tabular}}"
    return rf"\raisebox{{0pt}}[\height][0pt]{{{code}}}" if below and len(lines) == 2 else code


def _latex_floats(table: Table) -> Iterator[Table]:
    """Yield the parts of a table that each fit a page, the last with the notes."""
    parts: list[Table] = []
    for part in _latex_widths(table):
        parts.append(replace(part, blocks=()))
        for block in chain.from_iterable(map(_pieces, part.blocks)):
            before = parts[-1].blocks
            if before and sum(map(_lines, [*before, block])) > LINES:
                parts.append(replace(part, blocks=(block,)))
            else:
                parts[-1] = replace(part, blocks=(*before, block))
    for number, part in enumerate(parts, start=1):
        title = table.title if number == 1 else f"{table.title} (continued)"
        yield replace(part, title=title, notes=table.notes if number == len(parts) else ())


def _latex_widths(table: Table) -> Iterator[Table]:
    """Yield parts of a table with similar numbers of columns; tables with spanners stay whole."""
    count = max(1, len(table.columns))
    width = count if table.spanners else -(-count // -(-count // COLUMNS))
    for first in range(0, count, width):
        chosen = slice(first, first + width)
        blocks = [
            replace(block, rows=tuple(replace(r, entries=r.entries[chosen]) for r in block.rows))
            for block in table.blocks
        ]
        yield replace(table, columns=table.columns[chosen], blocks=tuple(blocks))


def _pieces(block: Block) -> Iterator[Block]:
    """Yield the parts of a block that each fit a page, such as all pairs of eleven methods."""
    size = max(1, len(block.rows) * LINES // max(LINES, _lines(block)))
    for first in range(0, max(1, len(block.rows)), size):
        yield replace(block, rows=block.rows[first : first + size])


def _lines(block: Block) -> int:
    """Return the number of lines of a block; intervals have their own."""
    intervals = (any(entry.interval for entry in row.entries) for row in block.rows)
    return bool(block.title) + len(block.rows) + sum(intervals)


def _column_spans(spanners: Sequence[tuple[str, int]]) -> list[tuple[int, int]]:
    """Return the first and last column of each spanning heading; labels are column 1."""
    ends = accumulate((width for _, width in spanners), initial=1)
    return [(before + 1, last) for before, last in pairwise(ends)]


def _unbroken(heading: str) -> str:
    return heading.replace(" ↑", "\N{NO-BREAK SPACE}↑").replace(" ↓", "\N{NO-BREAK SPACE}↓")


def _environment(**syntax: Any) -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATE_FOLDERS),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **syntax,
    )


_HTML = _environment(autoescape=True)
_LATEX = _environment(
    autoescape=False,  # braces and percent signs belong to LaTeX
    block_start_string="((%",
    block_end_string="%))",
    variable_start_string="(((",
    variable_end_string=")))",
    comment_start_string="((#",
    comment_end_string="#))",
)
_HTML.filters.update(unbroken=_unbroken)
_LATEX.filters.update(latex=_latex, lines=_latex_lines, floats=_latex_floats, spans=_column_spans)
