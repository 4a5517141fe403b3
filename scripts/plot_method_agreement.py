"""Draw how far the methods agree on one model's tokens."""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from pisoft.analysis.agreement_figures import plot_method_agreement
from pisoft.analysis.style import save_figure
from pisoft.analysis.summary import load_rows
from pisoft.commandline import run
from pisoft.display_settings import DisplaySlice


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("--settings", required=True, help="DisplaySlice as JSON")
    line.add_argument(
        "--agreement",
        required=True,
        nargs="+",
        type=Path,
        metavar="FILE",
        help="…/{model}/{dataset}.parquet",
    )
    line.add_argument("--model", required=True)
    for kind in ("pdf", "svg", "png"):
        line.add_argument(f"--{kind}", required=True, type=Path)
    return line


def main(arguments: argparse.Namespace) -> None:
    """Read the agreement on every dataset and draw it."""
    settings = DisplaySlice.model_validate_json(arguments.settings)
    agreement = pd.concat([load_rows(path, "agreement") for path in arguments.agreement])
    where = settings.models[arguments.model]
    figure = plot_method_agreement(agreement, settings.methods, settings.datasets, where)
    save_figure(figure, [arguments.pdf, arguments.svg, arguments.png])


if __name__ == "__main__":
    run(main, parser())
