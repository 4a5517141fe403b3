"""Write the configuration's editor schemas and its reference page."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.attribution import available_methods, load_method
from pisoft.commandline import run
from pisoft.config.schema import documents


def main(arguments: argparse.Namespace) -> None:
    """Write every generated file below the configuration folder."""
    methods = {name: load_method(name) for name in available_methods()}
    for name, text in documents(methods).items():
        path = arguments.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("config"))
    return parser


if __name__ == "__main__":
    run(main, parser())
