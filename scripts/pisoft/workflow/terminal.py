"""What a run says on the terminal: a line for each job, and in the end what came out."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from shutil import get_terminal_size
from statistics import fmean
from typing import Any, NamedTuple

from snakemake.settings.enums import Quietness
from tqdm import tqdm

from pisoft.formatting import duration

# What Snakemake says besides, once or before each round of jobs. Its own log file keeps all of it.
OMITTED_EVENTS = ("job_started", "resources_info")
OMITTED_TEXTS = (
    "Select jobs to execute",
    "Job rate limit reached",
    "Using shell:",
    "Conda environments: ignored",
    "Singularity containers: ignored",
)
NOTHING = "Nothing to be done"
STATUS_INTERVAL = 2.0  # seconds between two looks at what a running job says
CLEAR = "\r\033[K"  # to the beginning of the terminal's last line, and nothing on it


def one_line_per_job(logger: logging.Logger, ending: Callable[[], str]) -> None:
    """Have a logger of Snakemake's say one line for each job; see :class:`JobLines`.

    A logger without a handler of the terminal is left as it is: a plugin (`--logger`) writes there.
    """
    for handler in logger.handlers:
        to_file = isinstance(handler, logging.FileHandler)
        if isinstance(handler, logging.StreamHandler) and not to_file:
            logger.removeHandler(handler)
            logger.addHandler(JobLines(handler, ending))
            return


class Job(NamedTuple):
    """A running job: what it does, its rule, its log file if it has one, and when it began."""

    message: str
    rule: str
    log: Path | None
    begin: float


class JobLines(logging.Handler):
    """Shows by another handler one line for each job that has ended, in place of Snakemake's.

    Errors, warnings and all else that it does not know reach that handler as they are. On a
    terminal, the last line is what the job says in its log file that has run for longest.

    Args:
        shown: the handler that writes to the terminal.
        ending: what is said where nothing was to be done.
    """

    def __init__(
        self, shown: logging.StreamHandler[Any], ending: Callable[[], str] = lambda: ""
    ) -> None:
        super().__init__()
        self.shown = shown
        self.ending = ending
        self.running: dict[int, Job] = {}  # by number; the first has run for longest
        self.ended: list[Job] = []  # those that wait for the count of all
        self.begin: float | None = None  # of the first job
        self.counts: dict[str, int] = {}  # jobs of the run, by rule
        self.seconds: dict[str, list[float]] = {}  # that ended jobs took, by rule
        self.on_terminal = shown.stream.isatty()
        if self.on_terminal:
            threading.Thread(target=self._keep_status, daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record of Snakemake's; those of a job come in this order."""
        said: Any = record  # each event has attributes of its own
        match getattr(record, "event", None):
            case "run_info":
                self.counts = {rule: n for rule, n in said.stats.items() if rule != "total"}
            case "job_info":
                message = (said.rule_msg or said.rule_name).rstrip()  # of a rule without a cell
                log = Path(said.log[0]) if said.log else None
                job = Job(message, said.rule_name, log, time.monotonic())
                self.running[said.jobid] = job
                self.begin = self.begin or job.begin
            case "job_finished":
                if said.job_id in self.running:
                    self.ended.append(self.running.pop(said.job_id))
            case "progress":
                for job in self.ended:
                    line = self._line(job, said.done, said.total)
                    self._show(_record(line, quietness=Quietness.PROGRESS))
                self.ended.clear()
            case event if event not in OMITTED_EVENTS and not _begins(record, *OMITTED_TEXTS):
                if event == "job_error":
                    self.running.pop(said.jobid, None)
                self._show(record)
                if _begins(record, NOTHING):
                    self._show(_record(self.ending()))

    def _line(self, job: Job, done: int, total: int) -> str:
        now = time.monotonic()
        seconds = now - job.begin
        self.seconds.setdefault(job.rule, []).append(seconds)
        line = f"{done:>{len(str(total))}} of {total}  {job.message}: {duration(seconds)}"
        if done == total or self.begin is None:
            return line
        left = time_left(self.counts, self.seconds, now - self.begin)
        return f"{line}, {tqdm.format_interval(left)} left"

    def _show(self, record: logging.LogRecord) -> None:
        if self.on_terminal:
            self.shown.stream.write(CLEAR)
        self.shown.handle(record)

    def _keep_status(self) -> None:
        while True:
            time.sleep(STATUS_INTERVAL)
            assert self.lock is not None
            with self.lock:
                if self.running:
                    status = self.status()[: get_terminal_size().columns - 1]
                    self.shown.stream.write(CLEAR + status)
                    self.shown.stream.flush()

    def status(self) -> str:
        """Return what the job that has run for longest does and has said last."""
        job, *others = self.running.values()
        more = f" (and {len(others)} more)" if others else ""
        last_line = ""
        if job.log is not None and job.log.is_file():
            lines = job.log.read_text(encoding="utf-8", errors="replace").splitlines()
            last_line = "".join(lines[-1:])
        return f"{job.message}{more}: {last_line or duration(time.monotonic() - job.begin)}"


def time_left(
    counts: Mapping[str, int], seconds: Mapping[str, list[float]], elapsed: float
) -> float:
    """Return how many seconds a run still takes, if it does as much at once as it did so far.

    Args:
        counts: jobs of the run by rule.
        seconds: that the jobs which have ended took, by rule; one at least.
        elapsed: seconds since the first job began.
    """
    means = {rule: fmean(taken) for rule, taken in seconds.items()}
    unknown = min(means.values())  # of a rule without an ended job: few rules take long
    left = sum(
        max(0, n - len(seconds.get(rule, []))) * means.get(rule, unknown)
        for rule, n in counts.items()
    )
    return left * elapsed / (sum(map(sum, seconds.values())) or 1)


def _begins(record: logging.LogRecord, *texts: str) -> bool:
    return record.levelno < logging.WARNING and str(record.msg).startswith(texts)


def _record(text: str, **others: object) -> logging.LogRecord:
    # Records of an event that Snakemake does not know are written as they are.
    known = {"msg": text, "levelno": logging.INFO, "levelname": "INFO", "event": "job_line"}
    return logging.makeLogRecord(known | others)
