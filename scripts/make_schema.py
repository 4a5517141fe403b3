"""Write the configuration's editor schemas and the generated pages of the docs."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.attribution import available_methods, load_method
from pisoft.commandline import run
from pisoft.config.schema import documents
from pisoft.pages.contracts import PAGE, contracts_page


def main(arguments: argparse.Namespace) -> None:
    """Write every generated file."""
    for name, text in generated().items():
        path = arguments.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def generated() -> dict[str, str]:
    """Return the text of every generated file by its path in the repository."""
    methods = {name: load_method(name) for name in available_methods()}
    return {**documents(methods), PAGE: contracts_page()}


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(), help="the repository")
    return parser


if __name__ == "__main__":
    run(main, parser())
