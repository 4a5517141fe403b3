"""Write the table and the figure of README.md from the results of the embedded demonstration."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import pandas as pd

from pisoft.attribution import load_method
from pisoft.commandline import run
from pisoft.config.loading import load_run
from pisoft.config.slices.display import display_slice
from pisoft.config.validation import read_yaml
from pisoft.errors import BenchmarkError
from pisoft.pages.readme import put_between_markers, result_text
from pisoft.statistics.reading import present

RUN_FILE = Path("config/config.yaml")
MODEL, PROTOCOL = "demo-llama", "dynamic"
TABLE = Path("tables/pi_soft_auc", PROTOCOL, f"{MODEL}.csv")
FIGURE = Path("figures/pi_curves", PROTOCOL, MODEL, "demo-why.svg")
COPY = Path("docs/assets/pi_curves.svg")
# One or two of each family of methods, all of them in the paper; the best is shown anyway.
SHOWN = (
    "random",
    "attention",
    "input_x_gradient",
    "integrated_gradients",
    "value_zeroing",
    "grad_ellm",
)


def main(arguments: argparse.Namespace) -> None:
    """Copy the figure and write what stands between the markers."""
    for path in (arguments.results / TABLE, arguments.results / FIGURE):
        if not path.is_file():
            raise BenchmarkError(f"{path}: not found; `make demo` makes it")
    values = pd.read_csv(arguments.results / TABLE)
    labels = display_slice(load_run(read_yaml(RUN_FILE), [RUN_FILE], RUN_FILE.parent, load_method))
    text = result_text(
        values,
        model=labels.models[MODEL],
        methods=present(labels.methods, values),
        shown=SHOWN,
        datasets=labels.datasets,
        figure=COPY.as_posix(),
    )
    readme = arguments.folder / "README.md"
    document = put_between_markers(readme.read_text(encoding="utf-8"), text, str(readme))
    (arguments.folder / COPY).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(arguments.results / FIGURE, arguments.folder / COPY)
    readme.write_text(document, encoding="utf-8")


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results/demo"))
    parser.add_argument("--folder", type=Path, default=Path(), help="where README.md is")
    return parser


if __name__ == "__main__":
    run(main, parser())
