"""Draw what the π-Soft metrics are about, on the results of one model and dataset."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.commandline import FIGURE, display_parser, run
from pisoft.config.slices.display import ProtocolFigureSlice
from pisoft.figures.protocol import (
    TARGET,
    calibrated,
    plot_protocol,
    read_alphas,
    retaining_shares,
    shown_methods,
)
from pisoft.figures.style import save_figure
from pisoft.statistics.reading import load_rows, present
from pisoft.statistics.scores import perturbable_counts, read_scores


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = display_parser(__doc__, FIGURE, "protocol")
    line.add_argument("--samples", required=True, type=Path, help="soft_samples file")
    line.add_argument("--curves", required=True, type=Path, help="soft_curves file")
    line.add_argument("--prompts", required=True, type=Path)
    for kind in ("attributions", "soft"):
        line.add_argument(f"--{kind}", required=True, type=Path, nargs="+")
    return line


def main(arguments: argparse.Namespace) -> None:
    """Read a cell's summary, and of a few methods the scores and α, and draw them."""
    settings = ProtocolFigureSlice.model_validate_json(arguments.settings)
    model, dataset = arguments.prompts.parts[-2], arguments.prompts.stem
    cell = {"protocol": arguments.protocol, "model": model, "dataset": dataset}
    samples = load_rows(arguments.samples, "soft_samples", **cell)
    curves = load_rows(arguments.curves, "soft_curves", **cell)
    methods = present(settings.methods, curves)
    shares = retaining_shares(samples, perturbable_counts(arguments.prompts, settings.scope))
    shown = shown_methods(shares, methods)
    pi = min(curves["pi"], key=lambda pi: abs(pi - TARGET), default=TARGET)
    alphas = {
        method: read_alphas(path, pi)
        for path in arguments.soft
        if (method := path.parts[-2]) in shown
    }
    read = [path for path in arguments.attributions if path.parts[-2] in shown]
    steps = read_scores(arguments.prompts, read, settings.scope, settings.normalisation)
    example = calibrated(steps, alphas, settings.score_floor)
    where = " · ".join(
        (settings.models[model], settings.datasets[dataset], f"{arguments.protocol} routing")
    )
    figure = plot_protocol(shares, example, curves, methods, pi, where)
    save_figure(figure, [arguments.pdf, arguments.svg, arguments.png])


if __name__ == "__main__":
    run(main, parser())
