"""The command line that all scripts share: options, logging, and errors in one readable line."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from pisoft.errors import BenchmarkError, did_you_mean, without_passwords
from pisoft.store.shards import expanded

CHATTY = ("httpx", "httpx2", "datasets", "transformers", "huggingface_hub", "fsspec")
STYLING = ("matplotlib", "fontTools")


def run(main: Callable[[argparse.Namespace], None], parser: argparse.ArgumentParser) -> NoReturn:
    """Parse the command line, run a script's work, and exit with its status.

    A :class:`BenchmarkError` becomes one line `error: …` on standard error and exit status 1.
    Anything else is a defect of the benchmark: the traceback is shown, followed by a line that
    names the exception.
    """
    # Imports live until the process ends. Excluding them from garbage collection saves time in
    # every collection, and a second at exit with torch and transformers.
    gc.freeze()
    arguments = parser.parse_args()
    logging.setLogRecordFactory(_Record)
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S"
    )
    for name in (*CHATTY, *STYLING):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        main(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except BenchmarkError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except Exception as error:
        logging.error("unexpected failure\n%s", traceback.format_exc().rstrip())
        print(
            f"error: unexpected {type(error).__name__}: {without_passwords(str(error))}",
            file=sys.stderr,
        )
        sys.exit(1)
    sys.exit(0)


class _Record(logging.LogRecord):
    """A record of any logger, those of libraries included, for any handler."""

    def getMessage(self) -> str:
        """Return the message without passwords."""
        return without_passwords(super().getMessage())


def job_parser(description: str | None, *options: str) -> argparse.ArgumentParser:
    """Return the argument parser of a job: `--settings`, and options from `OPTIONS` or paths."""
    parser = argparse.ArgumentParser(description=description)
    for name in ("settings", *options):
        parser.add_argument(f"--{name}", **OPTIONS.get(name, {"required": True, "type": Path}))
    return parser


def display_parser(description: str | None, *options: str) -> argparse.ArgumentParser:
    """Return the argument parser of a job that draws displays from patterns of files."""
    parser = job_parser(description, "folder", "show", *options)
    parser.add_argument("--files", **PATTERNS)
    return parser


def summary_module(name: str) -> Any:
    """Import a module of `pisoft.statistics` that defines `summaries`.

    Raises:
        BenchmarkError: there is no such module; the message names the nearest match.
    """
    folder = Path(__file__).parents[1] / "statistics"
    files = {file.stem: file for file in sorted(folder.glob("*.py"))}
    defines = "\ndef summaries("
    allowed = [stem for stem, file in files.items() if defines in file.read_text("utf-8")]
    if name not in allowed:
        raise BenchmarkError(
            f"pisoft/statistics: unknown name '{name}'{did_you_mean(name, allowed)}"
        )
    return import_module(f"pisoft.statistics.{name}")


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"'{text}' is not of the form KEY=VALUE")
    return key, value


class _Mapping(argparse.Action):
    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        setattr(namespace, self.dest, dict(values))


class _Grouped(argparse.Action):
    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        grouped: dict[str, list[Path]] = {}
        for key, value in values:
            grouped.setdefault(key, []).extend(expanded(value))
        setattr(namespace, self.dest, grouped)


# Files by the kind of their rows; a pattern stands for several files (pisoft.store.shards).
_FILES = {"nargs": "*", "required": True, "action": _Grouped, "type": _pair, "metavar": "KIND=FILE"}
_TEXT = {"nargs": "?", "const": "", "default": ""}  # rules cannot quote an empty text
PATTERNS: dict[str, Any] = {"nargs": "+", "default": [], "type": _pair, "metavar": "KIND=PATTERN"}
MODEL_OPTIONS = ("output", "model", "gpus")  # of jobs that load a model or its tokenizer
# Options other than a single path.
OPTIONS: dict[str, dict[str, Any]] = {
    "settings": {"required": True, "help": "the job's settings as JSON"},
    "records": {"nargs": "+", "required": True, "type": Path},
    "files": _FILES,
    "outputs": _FILES,
    "links": _FILES,
    "show": {"nargs": "+", "required": True, "help": "files in the folder, without endings"},
    "warning": _TEXT,
    "pages": {
        "nargs": "*",
        "default": {},
        "action": _Mapping,
        "type": _pair,
        "metavar": "TITLE=PAGE",
        "help": "pages of the run, for their navigation bar",
    },
    "model": {
        "nargs": "+",
        "required": True,
        "type": Path,
        "help": "files in its folder; for a hub model, the record of its commit",
    },
    "gpus": {"type": int, "help": "number of GPUs given to the job; else it takes one"},
}
