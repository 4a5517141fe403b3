"""Typesetting of tables with a real LaTeX, for tests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from pisoft.tables.layout import Table
from pisoft.tables.writer import write

needs_latex = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not on PATH")


def assert_latex_compiles(table: Table, folder: Path) -> None:
    """Check that a document with booktabs and xcolor alone can read a table's LaTeX file."""
    write(table, *(folder / f"table.{kind}" for kind in ("csv", "tex", "html")))
    typeset(folder / "table.tex")


def typeset(path: Path) -> str:
    """Return what LaTeX says of a document with booktabs and xcolor that reads a file."""
    (path.parent / "document.tex").write_text(
        "\\documentclass{article}\n\\usepackage{booktabs,xcolor}\n"
        f"\\begin{{document}}\n\\input{{{path.name}}}\n\\end{{document}}\n",
        encoding="utf-8",
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "document.tex"]
    result = subprocess.run(command, cwd=path.parent, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-2000:]
    return result.stdout
