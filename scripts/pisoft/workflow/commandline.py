"""What every script's command line shares: logging, and one readable line for what went wrong."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from pisoft.errors import BenchmarkError, did_you_mean
from pisoft.store.shards import expanded

CHATTY = [
    "httpx",
    "httpx2",
    "datasets",
    "transformers",
    "huggingface_hub",
    "fsspec",
    "matplotlib",
    "fontTools",
]


def run(main: Callable[[argparse.Namespace], None], parser: argparse.ArgumentParser) -> NoReturn:
    """Parse the command line, run a script's work, and exit with its status.

    A :class:`BenchmarkError` becomes one line `error: …` on standard error and exit status 1.
    Anything else is a defect of the benchmark: the traceback is shown, followed by a line that
    names the exception.
    """
    # What has been imported stays until the process ends. Apart from what is searched for garbage,
    # it costs no collection any time: none of those that statsmodels asks for at every correction,
    # and none of those with which the interpreter ends, a second with torch and transformers.
    gc.freeze()
    arguments = parser.parse_args()
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S"
    )
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
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


def job_parser(description: str | None, *paths: str) -> argparse.ArgumentParser:
    """Return the command line of a job: `--settings`, and an option for each path."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--settings", required=True, help="the job's settings as JSON")
    for name in paths:
        parser.add_argument(f"--{name}", required=True, type=Path)
    return parser


def model_job_parser(description: str | None, *paths: str) -> argparse.ArgumentParser:
    """Return the command line of a job that loads a model, or its tokenizer, and writes a file."""
    parser = job_parser(description, *paths, "output")
    parser.add_argument(
        "--model",
        required=True,
        nargs="+",
        type=Path,
        help="files in its folder; of the hub, the record of its commit",
    )
    parser.add_argument("--gpus", type=int, help="how many the job was given; else it takes one")
    return parser


def files_parser(description: str | None) -> argparse.ArgumentParser:
    """Return the command line of a script that makes files from files, both by what they hold."""
    parser = job_parser(description)
    add_files(parser, "--files")
    add_files(parser, "--outputs")
    return parser


def page_parser(description: str | None) -> argparse.ArgumentParser:
    """Return the command line of a script that makes a page about a run."""
    parser = files_parser(description)
    add_files(parser, "--links", nargs="*")
    add_text(parser, "--warning")
    return parser


def display_parser(description: str | None) -> argparse.ArgumentParser:
    """Return the command line of a script that makes tables or figures."""
    parser = job_parser(description, "folder")
    parser.add_argument("--files", nargs="+", default=[], type=_pair, metavar="KIND=PATTERN")
    parser.add_argument(
        "--show", nargs="+", required=True, metavar="NAME/…", help="files in it, without endings"
    )
    return parser


def add_text(parser: argparse.ArgumentParser, option: str) -> None:
    """Add an option with a text, empty without; rules cannot quote an empty one."""
    parser.add_argument(option, nargs="?", const="", default="")


def add_files(parser: argparse.ArgumentParser, option: str, nargs: str = "+") -> None:
    """Add an option that takes files by the kind of rows they hold, as lists of paths.

    A pattern stands for several; see :mod:`pisoft.store.shards`.
    """
    parser.add_argument(
        option, nargs=nargs, required=True, action=_Grouped, type=_pair, metavar="KIND=FILE"
    )


def summary_module(name: str) -> Any:
    """Import a module of `pisoft.statistics` that defines `summaries`.

    Raises:
        BenchmarkError: there is none of this name, with the nearest match.
    """
    folder = Path(__file__).parents[1] / "statistics"
    files = {file.stem: file for file in sorted(folder.glob("*.py"))}
    allowed = [one for one, file in files.items() if "\ndef summaries(" in file.read_text("utf-8")]
    if name not in allowed:
        raise BenchmarkError(
            f"pisoft/statistics: unknown name '{name}'{did_you_mean(name, allowed)}"
        )
    return import_module(f"pisoft.statistics.{name}")


def _pair(text: str) -> tuple[str, str]:
    """Read `KEY=VALUE`."""
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"'{text}' is not of the form KEY=VALUE")
    return key, value


class _Grouped(argparse.Action):
    """Collects pairs of kind and file as lists of files by kind."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        grouped: dict[str, list[Path]] = {}
        for key, value in values:
            grouped.setdefault(key, []).extend(expanded(value))
        setattr(namespace, self.dest, grouped)
