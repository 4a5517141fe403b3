"""One timer of Snakemake's scheduler at a time, where it would have one for each job that ended."""

from __future__ import annotations

import threading
from typing import Any


def one_timer(scheduler: Any) -> None:
    """Have a scheduler of Snakemake's start a timer only while it has none.

    With a limit to the rate of jobs, every round that chooses jobs starts a timer, which calls for
    another round, which starts another timer. As each job that ends calls for a round, too, there
    are as many timers as jobs have ended: after thousands, rounds take all of a core. One timer
    keeps the limit as well. It is a daemon, so that the end of a run does not wait for it.
    """
    pending = threading.Event()

    def call_for_a_round() -> None:
        pending.clear()
        scheduler._open_jobs.release()

    def start(delay: float) -> None:
        if not pending.is_set():
            pending.set()
            timer = threading.Timer(delay, call_for_a_round)
            timer.daemon = True
            timer.start()

    scheduler._schedule_reevalutation = start
