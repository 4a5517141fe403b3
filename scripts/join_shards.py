"""Join the shards of a cell to the file that is read from there on."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.columns import SCHEMAS
from pisoft.commandline import add_files, run
from pisoft.config.slices.data import JoinSlice
from pisoft.contracts import provenance, write_table
from pisoft.shards import joined


def main(arguments: argparse.Namespace) -> None:
    """Read the shards in the order of their samples and write them as one file."""
    settings = JoinSlice.model_validate_json(arguments.settings)
    table, facts = joined(arguments.files["shards"], arguments.kind)
    origin = provenance(settings.model_dump(mode="json"), arguments.files)
    write_table(arguments.output, arguments.kind, table, {**origin, **facts})


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", required=True, help="JoinSlice as JSON")
    parser.add_argument("--kind", required=True, choices=SCHEMAS, help="of their rows")
    add_files(parser, "--files")
    parser.add_argument("--output", required=True, type=Path)
    return parser


if __name__ == "__main__":
    run(main, parser())
