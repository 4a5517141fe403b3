"""Draw how each method distributes its scores, for one model and every dataset."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.commandline import FIGURE, display_parser, run
from pisoft.config.slices.display import ScoresSlice
from pisoft.figures.scores import Distribution, distribution, plot_scores
from pisoft.figures.style import save_figure
from pisoft.statistics.scores import read_scores


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = display_parser(__doc__, FIGURE)
    line.add_argument("--prompts", required=True, type=Path, nargs="+")
    line.add_argument("--attributions", required=True, type=Path, nargs="+")
    return line


def main(arguments: argparse.Namespace) -> None:
    """Read the scores of one method and dataset at a time, and draw them all."""
    settings = ScoresSlice.model_validate_json(arguments.settings)
    prompts = {path.stem: path for path in arguments.prompts}
    found: dict[str, dict[str, Distribution]] = {}
    for path in arguments.attributions:
        method, dataset = path.parts[-2], path.stem
        steps = read_scores(prompts[dataset], [path], settings.scope, settings.normalisation)
        found.setdefault(settings.datasets[dataset], {})[method] = distribution(steps, method)
    methods = {
        name: label
        for name, label in settings.methods.items()
        if any(name in by_method for by_method in found.values())
    }
    model = settings.models[arguments.prompts[0].parts[-2]]
    figure = plot_scores(found, methods, f"{model} · normalisation: {settings.normalisation}")
    save_figure(figure, [arguments.pdf, arguments.svg, arguments.png])


if __name__ == "__main__":
    run(main, parser())
