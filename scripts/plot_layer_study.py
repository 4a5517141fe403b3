"""Draw the AUC of Grad-ELLM over the number of layers it sums, for one model and dataset."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.commandline import FIGURE, display_parser, run
from pisoft.config.slices.display import DisplaySlice
from pisoft.figures.layer_study import plot_layer_study
from pisoft.figures.style import save_figure
from pisoft.statistics.reading import load_rows


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = display_parser(__doc__, FIGURE, "protocol", "model", "dataset")
    line.add_argument("--study", required=True, type=Path, help="layer_study file")
    return line


def main(arguments: argparse.Namespace) -> None:
    """Read the study's samples of one cell per depth and draw them."""
    settings = DisplaySlice.model_validate_json(arguments.settings)
    samples = load_rows(
        arguments.study,
        "layer_study",
        protocol=arguments.protocol,
        model=arguments.model,
        dataset=arguments.dataset,
    )
    model, dataset = settings.models[arguments.model], settings.datasets[arguments.dataset]
    figure = plot_layer_study(samples, f"{model} · {dataset} · {arguments.protocol} routing")
    save_figure(figure, [arguments.pdf, arguments.svg, arguments.png])


if __name__ == "__main__":
    run(main, parser())
