"""One writer for every table, so that its CSV, LaTeX and HTML files never disagree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2

from pisoft.tables.layout import Table


def write(table: Table, csv: Path, tex: Path, html: Path, warning: str = "") -> None:
    """Write a table's numbers as CSV and its layout as LaTeX and HTML.

    A warning stands above the HTML table, and is the first note below the LaTeX one.
    The LaTeX file is to be read by `\\input` in a document with booktabs and xcolor; the HTML
    file needs no other file.
    """
    table.values.to_csv(csv, index=False, lineterminator="\n")
    warned = replace(table, notes=(warning, *table.notes)) if warning else table
    tex.write_text(render_latex("table.tex.jinja", table=warned), encoding="utf-8")
    html.write_text(render_html("table.html.jinja", table=table, warning=warning), "utf-8")


def render_html(template: str, **values: Any) -> str:
    """Return one of the HTML templates filled with values, whose markup is escaped."""
    return _HTML.get_template(template).render(**values)


def render_latex(template: str, **values: Any) -> str:
    """Return one of the LaTeX templates filled with values."""
    return _LATEX.get_template(template).render(**values)


# Pages hold tables, too, and include the layout of one.
_ROOM = Path(__file__).parents[1]
TEMPLATE_FOLDERS = [_ROOM / "tables/templates", _ROOM / "pages/templates"]
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
        "ρ": r"$\rho$",
        "τ": r"$\tau$",
        "₀": r"$_0$",
        "↑": r"$\uparrow$",
        "↓": r"$\downarrow$",
        "·": r"$\cdot$",
        "≈": r"$\approx$",
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
    """Escape text for LaTeX; letters beyond ASCII are left to the document's input encoding."""
    return " ".join(text.split()).translate(_LATEX_CHARACTERS)


def _latex_bold(code: str, strong: bool) -> str:
    return rf"\textbf{{{code}}}" if strong else code


def _latex_tied(code: str, tied: bool) -> str:
    return rf"{code}\,$\approx$" if tied else code


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
_LATEX.filters.update(latex=_latex, bold=_latex_bold, tied=_latex_tied)
