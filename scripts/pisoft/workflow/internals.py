"""Private names of Snakemake and its executors, used nowhere else.

A version that lacks one loses a convenience, logs one line and computes the same results.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from snakemake.logging import logger

ROUND, CALL = "_schedule_reevalutation", "_open_jobs"  # of the scheduler
SLURM, QUERY = "snakemake_executor_plugin_slurm", "query_job_status"  # a module and its function


def one_timer(scheduler: Any) -> bool:
    """Limit Snakemake's scheduler to one timer at a time.

    With a limit on the job rate, every scheduling round starts a timer, which triggers another
    round, which starts another timer. Finished jobs also trigger rounds, so timers accumulate:
    after thousands of jobs, rounds occupy a whole core. A single timer enforces the limit just as
    well. It is a daemon, so the end of a run does not wait for it.

    Returns False and changes nothing if the scheduler lacks :data:`ROUND` or :data:`CALL`.
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
    """Make Snakemake wait while Slurm does not answer; its executor would forget its jobs.

    When a query of job states fails, executor 2.8.0 drops the jobs it queried and waits for ever.
    After an answer without jobs, it keeps them all and asks again.

    Returns False and changes nothing without that executor or its :data:`QUERY`.
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
