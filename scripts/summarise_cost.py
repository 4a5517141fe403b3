"""Set what the run was predicted to cost beside what its jobs took."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.commandline import run
from pisoft.config.slices import PlanSlice
from pisoft.contracts import provenance, write_rows
from pisoft.planning.costs import cost_rows
from pisoft.planning.plan import plan_run


def main(arguments: argparse.Namespace) -> None:
    """Plan the run anew with the lengths it has, read what was measured, write a row per rule."""
    settings = PlanSlice.model_validate_json(arguments.settings)
    plan = plan_run(settings, arguments.results)
    rows = cost_rows(plan, arguments.results)
    write_rows(arguments.output, "cost", rows, provenance(settings.model_dump(mode="json")))


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", required=True, help="PlanSlice as JSON")
    parser.add_argument(
        "--results", required=True, type=Path, help="the run's folder, with the times of its jobs"
    )
    parser.add_argument("--output", required=True, type=Path)
    return parser


if __name__ == "__main__":
    run(main, parser())
