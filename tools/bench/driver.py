"""Run Snakemake's command line and write the usage of its own process, as JSON.

Pass the file to write, then Snakemake's arguments. This is a separate process, because Snakemake
ends only after its timers; the file is written after them. CPU seconds cover this process and its
threads; the jobs and solvers that it starts are counted separately. Exits with Snakemake's status.
"""

import atexit
import json
import os
import sys
import threading
import time
from pathlib import Path

from snakemake.cli import main

PERIOD = 0.2  # seconds between two samples


def look_on(begin: float, looks: list[tuple[float, float, int]]) -> None:
    """Record seconds, CPU seconds and the number of other threads until the process ends."""
    while True:
        look = time.perf_counter() - begin, time.process_time(), threading.active_count() - 1
        looks.append(look)
        time.sleep(PERIOD)


def write(path: Path, begin: float, end: float, looks: list[tuple[float, float, int]]) -> None:
    """Write the figures; `begin` and `end` delimit Snakemake's own work."""
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
        # Called when all non-daemon threads, including timers, have ended.
        atexit.register(write, Path(sys.argv[1]), began, time.perf_counter(), seen)
