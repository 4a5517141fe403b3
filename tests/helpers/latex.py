"""Typeset tables with a real LaTeX, for tests."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

needs_latex = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not on PATH")
# Two columns of 7.7 cm on a page of 24.7 cm, like the narrow styles of conferences.
PREAMBLE = """\\documentclass[twocolumn]{article}
\\usepackage{booktabs}
\\setlength{\\textwidth}{16cm}
\\setlength{\\columnsep}{6mm}
\\setlength{\\textheight}{24.7cm}
\\setlength{\\topmargin}{-2cm}
"""
# Log lines about boxes wider than their column or longer than their page.
TOO_LARGE = re.compile(r"Overfull \\[hv]box .*|.*Float too large.*")


def typeset(*paths: Path) -> str:
    """Typeset files in a two-column paper, check that all fit, and return the log."""
    document = paths[0].with_suffix(".paper.tex")
    read = "\n".join(f"\\input{{{path}}}\n\\clearpage" for path in paths)
    document.write_text(
        f"{PREAMBLE}\\begin{{document}}\n{read}\n\\end{{document}}\n", encoding="utf-8"
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", document.name]
    result = subprocess.run(command, cwd=document.parent, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-2000:]
    assert TOO_LARGE.findall(result.stdout) == [], paths
    return result.stdout
