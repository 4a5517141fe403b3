"""List the problems of the imported scores that a run names; nothing is computed."""

from __future__ import annotations

import argparse
from pathlib import Path

import pyarrow.compute as pc

from pisoft.attribution import load_method
from pisoft.attribution.external import problems, read_scores, warnings
from pisoft.config.commandline import run_file, run_file_parser
from pisoft.config.loading import load_run
from pisoft.config.methods import ScoresFile
from pisoft.errors import BenchmarkError
from pisoft.store.parquet import read_table
from pisoft.workflow.commandline import run

CONFIG_FOLDER = Path(__file__).parents[1] / "config"


def main(arguments: argparse.Namespace) -> None:
    """Print a line for each kind of problem, or that there is none, by method and cell."""
    raw, files = run_file(arguments)
    config = load_run(raw, files, CONFIG_FOLDER, load_method)
    sources = config.sources(ScoresFile)
    if not sources:
        origin = ", ".join(map(str, files))
        raise BenchmarkError(f"{origin}: no method has a `source` of kind `scores`")
    exported = read_table(Path("results", config.run_file.run, "data/to_score.parquet"), "to_score")
    wrong = 0
    for cell in dict.fromkeys(cell._replace(protocol="") for cell in config.cells()):
        _, _, model, _, method, dataset = cell
        if (source := sources.get(method)) is not None:
            in_cell = (pc.field("model") == model) & (pc.field("dataset") == dataset)
            explained = exported.filter(in_cell)
            try:
                scores = read_scores(Path(source.path_of(model, dataset)), model, dataset)
                messages = problems(scores, explained)
                strange = [] if messages else warnings(scores)
            except BenchmarkError as error:
                messages = [str(error)]
            wrong += len(messages)
            for line in messages or [f"fine: {explained.num_rows} rows", *strange]:
                print(f"{method}, {model} on {dataset}: {line}")
    if wrong:
        raise BenchmarkError("the scores cannot be imported as they are; see above")


if __name__ == "__main__":
    run(main, run_file_parser(__doc__, CONFIG_FOLDER / "config.yaml"))
