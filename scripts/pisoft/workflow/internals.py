"""What is used of Snakemake that is private to it: here, and nowhere else.

A version of Snakemake without it loses a convenience, of which one line is logged, and computes the
same results.
"""

from __future__ import annotations

import threading
from typing import Any

from snakemake.logging import logger

ROUND, CALL = "_schedule_reevalutation", "_open_jobs"  # of the scheduler


def one_timer(scheduler: Any) -> bool:
    """Have a scheduler of Snakemake's start a timer only while it has none.

    With a limit to the rate of jobs, every round that chooses jobs starts a timer, which calls for
    another round, which starts another timer. As each job that ends also calls for a round, there
    are as many timers as jobs have ended: after thousands, rounds take all of a core. One timer
    keeps the limit as well. It is a daemon, so that the end of a run does not wait for it.

    Returns:
        Whether it will: a scheduler without :data:`ROUND` and :data:`CALL` is left as it is.
    """
    if not (hasattr(scheduler, ROUND) and hasattr(scheduler, CALL)):
        logger.warning(
            f"Snakemake's scheduler has no {ROUND} and {CALL}: a long run may keep a core busy"
        )
        return False
    pending = threading.Event()

    def call_for_a_round() -> None:
        pending.clear()
        getattr(scheduler, CALL).release()

    def start(delay: float) -> None:
        if not pending.is_set():
            pending.set()
            timer = threading.Timer(delay, call_for_a_round)
            timer.daemon = True
            timer.start()

    setattr(scheduler, ROUND, start)
    return True
