"""Private names of Snakemake and its executors: used here, and nowhere else.

A version without one loses a convenience, logs one line, and computes the same results.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from snakemake.logging import logger

ROUND, CALL = "_schedule_reevalutation", "_open_jobs"  # of the scheduler
SLURM, QUERY = "snakemake_executor_plugin_slurm", "query_job_status"  # a module, and a name in it


def one_timer(scheduler: Any) -> bool:
    """Have a scheduler of Snakemake's start a timer only while it has none.

    With a limit to the rate of jobs, every round that chooses jobs starts a timer, which calls for
    another round, which starts another timer. As each job that ends also calls for a round, there
    are as many timers as jobs have ended: after thousands, rounds take all of a core. One timer
    keeps the limit as well. It is a daemon, so that the end of a run does not wait for it.

    False: a scheduler without :data:`ROUND` and :data:`CALL` is left as it is.
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


def patient_with_slurm() -> bool:
    """Have Snakemake wait for a Slurm that does not answer; its executor would forget its jobs.

    Where a query of the states of jobs fails, executor 2.8.0 keeps none of the jobs that it asked
    for, and waits for ever. An answer without any job has it keep them all and ask again.

    False: without that executor, or its :data:`QUERY`, nothing changes.
    """
    executor = sys.modules.get(SLURM)
    if executor is None:
        return False
    if not hasattr(executor, QUERY):
        logger.warning(f"Slurm's executor has no {QUERY}: while slurmctld is away, a run may hang")
        return False
    query = getattr(executor, QUERY)

    async def answered(*arguments: Any) -> tuple[dict[str, str], float]:
        states, seconds = await query(*arguments)
        return (states or {}), (seconds or 0.0)

    setattr(executor, QUERY, answered)
    return True
