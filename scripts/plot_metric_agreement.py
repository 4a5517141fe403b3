"""Draw how far the metrics agree on which methods are better, for one model."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.commandline import FIGURE, display_parser, run
from pisoft.config.slices.display import DisplaySlice
from pisoft.figures.metric_agreement import plot_metric_agreement
from pisoft.figures.style import save_figure
from pisoft.statistics.reading import load_rows


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = display_parser(__doc__, FIGURE, "model")
    line.add_argument("--statistics", required=True, type=Path, help="statistics file")
    return line


def main(arguments: argparse.Namespace) -> None:
    """Read the model's statistics and draw the agreement of its metrics."""
    settings = DisplaySlice.model_validate_json(arguments.settings)
    statistics = load_rows(arguments.statistics, "statistics", model=arguments.model)
    where = settings.models[arguments.model]
    figure = plot_metric_agreement(statistics, settings.datasets, where)
    save_figure(figure, [arguments.pdf, arguments.svg, arguments.png])


if __name__ == "__main__":
    run(main, parser())
