"""Draw how far the methods agree on one model's tokens."""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from pisoft.commandline import FIGURE, display_parser, run
from pisoft.config.slices.display import DisplaySlice
from pisoft.figures.method_agreement import plot_method_agreement
from pisoft.figures.style import save_figure
from pisoft.statistics.reading import load_rows


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = display_parser(__doc__, FIGURE, "model")
    line.add_argument(
        "--agreement",
        required=True,
        nargs="+",
        type=Path,
        metavar="FILE",
        help="…/{model}/{dataset}.parquet",
    )
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
