"""Draw one figure as PDF, SVG and PNG: `plot_results.py NAME` is `pisoft/figures/NAME.py`."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.commandline import room_module, room_parser, run
from pisoft.figures.style import save_figure
from pisoft.files import whole_files
from pisoft.statistics.reading import Files


def main(arguments: argparse.Namespace) -> None:
    """Draw the figure from its files and write it; some modules draw more than one."""
    module = room_module("figures", arguments.name, "plot")
    settings = module.Settings.model_validate_json(arguments.settings)
    drawn = module.plot(Files(arguments.files), settings, dict(arguments.cell))
    for figure, *files in zip(drawn, arguments.pdf, arguments.svg, arguments.png, strict=True):
        with whole_files(arguments.settings, *files) as paths:
            save_figure(figure, paths)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = room_parser(__doc__)
    for kind in ("pdf", "svg", "png"):
        line.add_argument(f"--{kind}", required=True, type=Path, nargs="+")
    return line


if __name__ == "__main__":
    run(main, parser())
