"""Draw the methods' ranks and critical differences for one model."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.commandline import FIGURE, display_parser, run
from pisoft.config.slices.display import DisplaySlice
from pisoft.figures.ranks import plot_ranks
from pisoft.figures.style import save_figure
from pisoft.statistics.reading import load_rows


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = display_parser(__doc__, FIGURE, "protocol", "model")
    for kind in ("statistics", "comparisons"):
        line.add_argument(f"--{kind}", required=True, type=Path, help=f"{kind} file")
    return line


def main(arguments: argparse.Namespace) -> None:
    """Read one cell's statistics and comparisons and draw its ranks."""
    settings = DisplaySlice.model_validate_json(arguments.settings)
    statistics = load_rows(
        arguments.statistics, "statistics", protocol=arguments.protocol, model=arguments.model
    )
    comparisons = load_rows(arguments.comparisons, "comparisons")  # of a single method: no pair
    of_cell = "protocol == @arguments.protocol and model == @arguments.model"
    where = f"{settings.models[arguments.model]} · {arguments.protocol} routing"
    figure = plot_ranks(statistics, comparisons.query(of_cell), settings.methods, where)
    save_figure(figure, [arguments.pdf, arguments.svg, arguments.png])


if __name__ == "__main__":
    run(main, parser())
