"""Keep the figures of finished runs that the page "How to read these numbers" shows."""

from __future__ import annotations

import argparse
import re
import shutil
from pathlib import Path

from pisoft.errors import BenchmarkError
from pisoft.workflow.commandline import run

PAGE = Path("docs/explanation/pitfalls.md")
FOLDER = Path("docs/assets/how-to-read")
SHOWN = re.compile(rf"!\[[^\]]+\]\(\.\./{FOLDER.relative_to('docs').as_posix()}/([\w/.-]+\.svg)\)")


def main(arguments: argparse.Namespace) -> None:
    """Copy what the page shows from the first run that has it; delete what is no longer shown."""
    shown = SHOWN.findall(PAGE.read_text(encoding="utf-8"))
    drawn = {}
    for name in shown:
        figures = [folder / name for folder in arguments.figures if (folder / name).is_file()]
        if not figures:
            folders = ", ".join(map(str, arguments.figures))
            raise BenchmarkError(f"{name}: not found in {folders}; the runs have to be finished")
        drawn[FOLDER / name] = figures[0]
    shutil.rmtree(FOLDER, ignore_errors=True)
    for kept, figure in drawn.items():
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(figure, kept)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--figures", type=Path, nargs="+", required=True, help="folders of the runs' figures"
    )
    return parser


if __name__ == "__main__":
    run(main, parser())
