"""Progress of long loops: a line of the log now and then."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
LINE_INTERVAL = 10.0  # seconds between two lines

logger = logging.getLogger(__name__)


def progress(items: Iterable[Item], total: int, what: str, unit: str = "samples") -> Iterator[Item]:
    """Yield the items, reporting how many are done, their rate and the time left.

    Args:
        items: what is worked on; a list stands for as many units as it has items.
        total: number of units.
        what: the activity, for example "evaluating".
        unit: name of the units.
    """
    begin = last_line = time.monotonic()
    done = 0
    for item in items:
        yield item
        done += len(item) if isinstance(item, list) else 1
        now = time.monotonic()
        if now - last_line >= LINE_INTERVAL or done == total:
            last_line = now
            rate = done / max(now - begin, 1e-9)
            left = (total - done) / rate
            logger.info(
                "%s: %d of %d %s, %.2f %s/s, %.0f s left", what, done, total, unit, rate, unit, left
            )
