"""The error class for messages to users."""

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

LONGEST_MESSAGE = 2000  # characters; what is cut out is from the middle
LONGEST_NAME = 100  # characters of a name that a nearest match is looked for


def without_passwords(text: str) -> str:
    """Mask user and password in addresses, such as in `HF_ENDPOINT`."""
    return re.sub(r"(?<=://)[^/\s]*@", "***@", text)


class BenchmarkError(Exception):
    """A problem with configuration, data or a model, described in one line."""

    def __init__(self, message: str) -> None:
        """Reduce a message to one printable line, whatever it quotes from a file."""
        line = without_passwords(" ".join(message.split()))
        line = line.encode(errors="backslashreplace").decode()
        if len(line) > LONGEST_MESSAGE:
            half = LONGEST_MESSAGE // 2
            line = f"{line[:half]} … {line[-half:]}"
        super().__init__(line)


def did_you_mean(name: str, allowed: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'? allowed: …"`` for a name that is not allowed.

    Args:
        name: the name as the user wrote it.
        allowed: all allowed names.
    """
    choices = sorted(str(choice) for choice in allowed)
    nearest = get_close_matches(str(name)[:LONGEST_NAME], choices, n=1, cutoff=0.5)
    hint = f"; did you mean '{nearest[0]}'?" if nearest else ";"
    return f"{hint} allowed: {', '.join(choices) if choices else 'none'}"


def nearest_path(path: str | Path) -> str:
    """Return ``"; did you mean 'x'?"`` for a missing path; empty if none is similar."""
    missing = Path(path)
    while not missing.parent.is_dir():
        missing = missing.parent
    beside = [entry.name for entry in missing.parent.iterdir()]
    nearest = get_close_matches(missing.name[:LONGEST_NAME], beside, n=1)
    return f"; did you mean '{missing.parent / nearest[0]}'?" if nearest else ""


def in_one_line(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Make a function raise its BenchmarkErrors without the package's internal traceback."""

    @wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except BenchmarkError as error:
            message = str(error)
        raise BenchmarkError(message)  # here, so that no other error is its context

    return call
