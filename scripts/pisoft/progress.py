"""Progress of long loops: periodic log lines, or one overwritten line."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
LINE_INTERVAL = 10.0  # seconds between two lines of a log
OVERWRITE_INTERVAL = 0.5  # seconds
WIDTH = 79  # characters of a line that is overwritten

logger = logging.getLogger(__name__)


def progress(items: Iterable[Item], total: int, what: str, unit: str = "samples") -> Iterator[Item]:
    """Yield the items, reporting how many are done, their rate and the time left.

    Jobs log lines. Where this level is not logged, as in a notebook, a line on standard error is
    overwritten instead.

    Args:
        items: items of work; a list counts as its number of items.
        total: number of units.
        what: the activity, for example "evaluating".
        unit: name of the units.
    """
    logged = logger.isEnabledFor(logging.INFO)
    interval = LINE_INTERVAL if logged else OVERWRITE_INTERVAL
    begin = last_line = time.monotonic()
    done = 0
    for item in items:
        yield item
        done += len(item) if isinstance(item, list) else 1
        now = time.monotonic()
        ends = done == total and (logged or last_line > begin)  # a short loop shows no line
        if now - last_line >= interval or ends:
            last_line = now
            rate = done / max(now - begin, 1e-9)
            left = (total - done) / rate
            line = f"{what}: {done} of {total} {unit}, {rate:.2f} {unit}/s, {left:.0f} s left"
            if logged:
                logger.info("%s", line)
            else:
                end = "\n" if done == total else ""
                print(f"\r{line:{WIDTH}}", end=end, file=sys.stderr, flush=True)
