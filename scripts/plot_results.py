"""Draw figures as PDF, PNG and SVG: `--show NAME/…` is drawn by `pisoft/figures/NAME.py`."""

from __future__ import annotations

import argparse

from pisoft.config.jobs.displays import FigureJob
from pisoft.figures.style import page_width, save_figure
from pisoft.store.files import whole_files
from pisoft.views.view import displayed
from pisoft.workflow.commandline import display_parser, run


def main(arguments: argparse.Namespace) -> None:
    """Draw each figure from its files, some with a CSV file of their numbers."""
    settings = FigureJob.model_validate_json(arguments.settings)
    displays = displayed("figures", arguments.show, dict(arguments.files), settings)
    with page_width(settings.width):
        for path, described, _, drawn in displays:
            figure, numbers = drawn if described.numbers else (drawn, None)
            outputs = [arguments.folder / f"{path}.{end}" for end in described.endings("figures")]
            with whole_files(*outputs) as written:
                save_figure(figure, written[-3:])
                if numbers is not None:
                    numbers.to_csv(written[0], index=False, lineterminator="\n")


if __name__ == "__main__":
    run(main, display_parser(__doc__))
