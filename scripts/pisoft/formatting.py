"""Formatting of numbers, also of large ranges, and of missing numbers."""

from __future__ import annotations

MINUS = "\N{MINUS SIGN}"
NOTHING = "\N{EN DASH}"  # shown where there is no value
_PREFIXES = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")


def signed(text: str) -> str:
    """Replace the hyphen of a number, as Python writes it, by a minus sign."""
    return text.replace("-", MINUS)


def scaled(value: float, unit: str = "") -> str:
    """Format a non-negative number with three digits and an SI prefix: `1.23 G`.

    Args:
        value: the number.
        unit: written after the prefix.
    """
    if value == 0:
        return f"0 {unit}".rstrip()
    number = float(f"{value:.3g}")  # rounded first, so that 999.9 becomes 1.00 k
    thousands = 0
    while number >= 1000 and thousands < len(_PREFIXES) - 1:
        number, thousands = number / 1000, thousands + 1
    digits = 0 if number >= 100 else 1 if number >= 10 else 2
    whole = thousands == 0 and number == int(number)
    return f"{number:.{0 if whole else digits}f} {_PREFIXES[thousands]}{unit}".rstrip()


def duration(seconds: float) -> str:
    """Format a time in seconds, minutes or hours, the first of these below 120."""
    for size, unit in ((1, "s"), (60, "min")):
        if seconds < 120 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 3600:.4g} h"
