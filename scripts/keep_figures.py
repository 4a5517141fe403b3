"""Keep the figures of a finished run that the page "How to read these numbers" shows."""

from __future__ import annotations

import argparse
import re
import shutil
from pathlib import Path

from pisoft.commandline import run
from pisoft.errors import BenchmarkError

PAGE = Path("docs/explanation/pitfalls.md")
FOLDER = Path("docs/assets/how-to-read")
SHOWN = re.compile(rf"!\[[^\]]+\]\(\.\./{FOLDER.relative_to('docs').as_posix()}/([\w/.-]+\.svg)\)")


def main(arguments: argparse.Namespace) -> None:
    """Copy what the page shows from the run's figures, and delete what it no longer shows."""
    shown = SHOWN.findall(PAGE.read_text(encoding="utf-8"))
    drawn = {FOLDER / name: arguments.figures / name for name in shown}
    for figure in drawn.values():
        if not figure.is_file():
            raise BenchmarkError(f"{figure}: not found; the run has to be finished")
    shutil.rmtree(FOLDER, ignore_errors=True)
    for kept, figure in drawn.items():
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(figure, kept)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", type=Path, required=True, help="folder of the run's figures")
    return parser


if __name__ == "__main__":
    run(main, parser())
