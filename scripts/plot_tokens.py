"""Draw which tokens each method holds most important: key sentences, and whole texts."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.commandline import run
from pisoft.config.slices.display import TokensSlice
from pisoft.contracts import read_rows
from pisoft.figures.examples import chosen_answers, examples, key_sentence
from pisoft.figures.style import save_figure
from pisoft.figures.tokens import plot_tokens
from pisoft.statistics.scores import read_scores


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("--settings", required=True, help="TokensSlice as JSON")
    line.add_argument("--prompts", required=True, type=Path)
    line.add_argument("--generations", required=True, type=Path)
    line.add_argument("--attributions", required=True, type=Path, nargs="+")
    for kind in ("pdf", "svg", "png"):
        line.add_argument(
            f"--{kind}", required=True, type=Path, nargs=2, metavar=("SENTENCES", "TEXTS")
        )
    return line


def main(arguments: argparse.Namespace) -> None:
    """Choose samples, read their scores, and draw them twice."""
    settings = TokensSlice.model_validate_json(arguments.settings)
    answers = read_rows(arguments.generations, "generations")
    chosen = chosen_answers(answers)
    identifiers = [answer["sample_id"] for answer in answers]
    last = max((identifiers.index(answer["sample_id"]) for answer in chosen), default=-1)
    steps = read_scores(
        arguments.prompts,
        arguments.attributions,
        settings.scope,
        settings.normalisation,
        samples=last + 1,
    )
    explained_by = {path.parts[-2] for path in arguments.attributions}
    methods = {name: label for name, label in settings.methods.items() if name in explained_by}
    texts = examples(chosen, steps, methods, settings.top_share)
    model, dataset = arguments.prompts.parts[-2], arguments.prompts.stem
    where = f"{settings.models[model]} · {settings.datasets[dataset]}"
    parts = ([key_sentence(text) for text in texts], texts)
    for position, shown in enumerate(parts):
        figure = plot_tokens(shown, methods, f"{where} · top {settings.top_share:.0%} of tokens")
        kinds = (arguments.pdf, arguments.svg, arguments.png)
        save_figure(figure, [paths[position] for paths in kinds])


if __name__ == "__main__":
    run(main, parser())
