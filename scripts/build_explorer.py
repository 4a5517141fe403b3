"""Write the attribution explorer, one HTML page for the whole run."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.commandline import run
from pisoft.config.slices.pages import ExplorerSlice
from pisoft.files import whole_files
from pisoft.pages.explorer import explorer_data, explorer_page

FILES = {
    "prompts": "…/{model}/{dataset}.parquet",
    "generations": "…/{model}/{dataset}.parquet",
    "attributions": "…/{model}/{method}/{dataset}.parquet",
    "soft": "…/{model}/{method}/{dataset}.parquet, of one protocol",
    "soft_samples": "of all cells",
}


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("--settings", required=True, help="ExplorerSlice as JSON")
    for name, form in FILES.items():
        option = f"--{name.replace('_', '-')}"
        line.add_argument(option, required=True, nargs="+", type=Path, metavar="FILE", help=form)
    for option in ("--evidence-samples", "--stored-samples"):
        line.add_argument(option, nargs="*", default=[], type=Path, metavar="FILE")
    line.add_argument("--warning", nargs="?", const="", default="", help="what numbers do not show")
    line.add_argument("--output", required=True, type=Path)
    return line


def main(arguments: argparse.Namespace) -> None:
    """Read the scores of the first samples of every cell and write the page."""
    settings = ExplorerSlice.model_validate_json(arguments.settings)
    names = (*FILES, "evidence_samples", "stored_samples")
    files = {name: getattr(arguments, name) for name in names}
    data = explorer_data(**files, settings=settings)
    with whole_files(arguments.settings, arguments.output) as (path,):
        path.write_text(explorer_page(data, arguments.warning), encoding="utf-8")


if __name__ == "__main__":
    run(main, parser())
