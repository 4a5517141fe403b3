"""Run Snakemake's command line and write what its own process has taken, as JSON.

Called with the file to write, then Snakemake's arguments. A process of its own, because Snakemake
does not end before its timers do: the file is written behind them. CPU seconds are those of this
process and its threads; those of the jobs and solvers that it starts are counted apart. Exits with
Snakemake's status.
"""

import atexit
import json
import os
import sys
import threading
import time
from pathlib import Path

from snakemake.cli import main

PERIOD = 0.2  # seconds between two looks


def look_on(begin: float, looks: list[tuple[float, float, int]]) -> None:
    """Record seconds, CPU seconds and the number of other threads until the process ends."""
    while True:
        look = time.perf_counter() - begin, time.process_time(), threading.active_count() - 1
        looks.append(look)
        time.sleep(PERIOD)


def write(path: Path, begin: float, end: float, looks: list[tuple[float, float, int]]) -> None:
    """Write the figures; `begin` and `end` are those of Snakemake's own work."""
    usage = os.times()
    content = {
        "seconds": end - begin,
        "wait": time.perf_counter() - end,
        "cpu_seconds": usage.user + usage.system,
        "children_seconds": usage.children_user + usage.children_system,
        "threads": max(threads for _, _, threads in looks),
        "looks": looks,
    }
    path.write_text(json.dumps(content), encoding="utf-8")


if __name__ == "__main__":
    began = time.perf_counter()
    seen: list[tuple[float, float, int]] = []
    threading.Thread(target=look_on, args=(began, seen), daemon=True).start()
    try:
        main(sys.argv[2:])
    finally:
        # Called when all threads that are no daemons, timers among them, have ended.
        atexit.register(write, Path(sys.argv[1]), began, time.perf_counter(), seen)
