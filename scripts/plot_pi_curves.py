"""Draw π-Soft-NS and π-Soft-NC over the retaining probability for one model and dataset."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.commandline import FIGURE, display_parser, run
from pisoft.config.slices.display import DisplaySlice
from pisoft.figures.pi_curves import plot_pi_curves
from pisoft.figures.style import save_figure
from pisoft.statistics.reading import load_rows, present


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = display_parser(__doc__, FIGURE, "protocol", "model", "dataset")
    line.add_argument("--curves", required=True, type=Path, help="soft_curves file")
    return line


def main(arguments: argparse.Namespace) -> None:
    """Read the curves of one cell per method and draw them."""
    settings = DisplaySlice.model_validate_json(arguments.settings)
    curves = load_rows(
        arguments.curves,
        "soft_curves",
        protocol=arguments.protocol,
        model=arguments.model,
        dataset=arguments.dataset,
    )
    model, dataset = settings.models[arguments.model], settings.datasets[arguments.dataset]
    where = f"{model} · {dataset} · {arguments.protocol} routing"
    figure = plot_pi_curves(curves, present(settings.methods, curves), where)
    save_figure(figure, [arguments.pdf, arguments.svg, arguments.png])


if __name__ == "__main__":
    run(main, parser())
