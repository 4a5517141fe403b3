"""Check a run file before Snakemake, whose errors do not name an unreadable file."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.attribution import load_method
from pisoft.config.commandline import run_file, run_file_parser
from pisoft.config.loading import load_run
from pisoft.workflow.commandline import run

CONFIG_FOLDER = Path(__file__).parents[1] / "config"


def main(arguments: argparse.Namespace) -> None:
    """Validate the run file and the catalogue entries that it selects; print nothing.

    Raises:
        BenchmarkError: any of them is invalid.
    """
    load_run(*run_file(arguments), CONFIG_FOLDER, load_method)


if __name__ == "__main__":
    run(main, run_file_parser(__doc__, CONFIG_FOLDER / "config.yaml"))
