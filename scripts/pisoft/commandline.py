"""What every script's command line shares: logging, and one readable line for what went wrong."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from pisoft.errors import BenchmarkError

TABLE = ("csv", "tex", "html")
FIGURE = ("pdf", "svg", "png")


def run(main: Callable[[argparse.Namespace], None], parser: argparse.ArgumentParser) -> NoReturn:
    """Parse the command line, run a script's work, and exit with its status.

    A :class:`BenchmarkError` becomes one line `error: …` on standard error and exit status 1.
    Anything else is a defect of the benchmark: the traceback is shown, followed by a line that
    names the exception.
    """
    # What has been imported stays until the process ends. Apart from what is searched for garbage,
    # it costs no collection any time, above all none of those with which the interpreter ends:
    # torch and transformers would take a second of them.
    gc.freeze()
    arguments = parser.parse_args()
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S"
    )
    for chatty in (
        "httpx",
        "datasets",
        "transformers",
        "huggingface_hub",
        "fsspec",
        "matplotlib",
        "fontTools",
    ):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    try:
        main(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except BenchmarkError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except Exception as error:
        logging.exception("unexpected failure")
        print(f"error: unexpected {type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(1)
    sys.exit(0)


def model_job_parser(description: str | None, *inputs: str) -> argparse.ArgumentParser:
    """Return the command line of a script that runs a model over samples.

    Args:
        description: what the script does.
        inputs: names of the Parquet files it reads.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--settings", required=True, help="the job's slice of settings as JSON")
    for name in inputs:
        parser.add_argument(f"--{name}", required=True, type=Path)
    parser.add_argument("--model-folder", type=Path, help="local weights; else from the hub")
    parser.add_argument("--samples", type=sample_range, default=slice(None), metavar="FIRST:LAST")
    parser.add_argument("--output", required=True, type=Path)
    return parser


def display_parser(
    description: str | None, formats: Sequence[str], *names: str
) -> argparse.ArgumentParser:
    """Return the command line of a script that writes a table or a figure.

    Args:
        description: what the script does.
        formats: those of the files that it writes, :data:`TABLE` or :data:`FIGURE`.
        names: what says which cells are shown, such as `protocol` and `model`.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--settings", required=True, help="the job's slice of settings as JSON")
    for name in names:
        parser.add_argument(f"--{name}", required=True)
    for kind in formats:
        parser.add_argument(f"--{kind}", required=True, type=Path)
    return parser


def sample_range(text: str) -> slice:
    """Read `FIRST:LAST` (0-based, LAST excluded, either may be empty) as a slice of samples.

    Raises:
        argparse.ArgumentTypeError: anything else.
    """
    first, colon, last = text.partition(":")
    if not colon or not all(part == "" or part.isdecimal() for part in (first, last)):
        raise argparse.ArgumentTypeError(f"'{text}' is not FIRST:LAST, for example 0:32")
    return slice(int(first) if first else None, int(last) if last else None)
