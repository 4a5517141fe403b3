"""Progress of long loops: a bar on a terminal, a plain line now and then in a log file."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

Item = TypeVar("Item")
LINE_INTERVAL = 10.0  # seconds between two lines of a log file

logger = logging.getLogger(__name__)


def progress(items: Iterable[Item], total: int, what: str, unit: str = "samples") -> Iterator[Item]:
    """Yield the items, reporting how many are done, their rate and the time left.

    Args:
        items: what is worked on; an item may stand for several units if it has a length.
        total: number of units.
        what: the activity, for example "evaluating".
        unit: name of the units.
    """
    if sys.stderr.isatty():
        with tqdm(total=total, desc=what, unit=f" {unit}") as bar:
            for item in items:
                yield item
                bar.update(_units(item))
        return
    yield from _with_lines(items, total, what, unit)


def _with_lines(items: Iterable[Item], total: int, what: str, unit: str) -> Iterator[Item]:
    begin = last_line = time.monotonic()
    done = 0
    for item in items:
        yield item
        done += _units(item)
        now = time.monotonic()
        if now - last_line >= LINE_INTERVAL or done == total:
            last_line = now
            rate = done / max(now - begin, 1e-9)
            left = (total - done) / rate
            logger.info(
                "%s: %d of %d %s, %.2f %s/s, %.0f s left", what, done, total, unit, rate, unit, left
            )


def _units(item: object) -> int:
    return len(item) if isinstance(item, list) else 1
