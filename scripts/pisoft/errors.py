"""The error that a user of the benchmark is meant to read."""

from collections.abc import Iterable
from difflib import get_close_matches


class BenchmarkError(Exception):
    """A problem with configuration, data or a model, in one readable sentence."""


def did_you_mean(name: str, allowed: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'? allowed: …"`` for a name that is not among those allowed.

    Args:
        name: the name as the user wrote it.
        allowed: every legal name.
    """
    choices = sorted(str(choice) for choice in allowed)
    nearest = get_close_matches(str(name), choices, n=1, cutoff=0.5)
    hint = f"; did you mean '{nearest[0]}'?" if nearest else ";"
    return f"{hint} allowed: {', '.join(choices) if choices else 'none'}"
