"""Terminal output of a run: a line per job, and the conclusion at the end."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from shutil import disk_usage, get_terminal_size
from statistics import median
from textwrap import fill
from typing import Any, NamedTuple

from snakemake.settings.enums import Quietness

from pisoft.formatting import duration

# Messages of Snakemake that are not shown. Its own log file keeps all of them.
OMITTED_EVENTS = ("run_info", "job_started", "resources_info")
OMITTED_TEXTS = (
    "Select jobs to execute",
    "Job rate limit reached",
    "Using shell:",
    "Conda environments: ignored",
    "Singularity containers: ignored",
)
NOTHING = "Nothing to be done"
STATUS_INTERVAL = 2.0  # seconds between updates of the status line
FULL = 100_000  # bytes; a disk with less free space is full
EARLY = 0.03  # fraction of the planned work that is too small to predict the remaining time
CLEAR = "\r\033[K"  # go to the start of the terminal's last line and erase it


class Planned(NamedTuple):
    """A job that has to run: its rule and its expected runtime in seconds."""

    rule: str
    seconds: float


class Job(NamedTuple):
    """A running job: its message, its log file if it has one, and its start time."""

    message: str
    log: Path | None
    begin: float


Plan = Callable[[], Mapping[int, Planned]]  # all jobs that have to run, by number


def one_line_per_job(logger: logging.Logger, ending: Callable[[], str], plan: Plan) -> None:
    """Make a Snakemake logger write one line per job; see :class:`JobLines`.

    A logger without a terminal handler is left unchanged: a plugin (`--logger`) writes there.
    """
    for handler in logger.handlers:
        to_file = isinstance(handler, logging.FileHandler)
        if isinstance(handler, logging.StreamHandler) and not to_file:
            logger.removeHandler(handler)
            logger.addHandler(JobLines(handler, ending, plan))
            return


class JobLines(logging.Handler):
    """Writes one line per finished job to another handler, in place of Snakemake's lines.

    Errors, warnings and unknown records reach that handler unchanged. On a terminal, lines are cut
    to its width, and the last line is a status: the latest log line of the longest-running job.

    Args:
        ending: text for a run that has nothing to do.
        plan: the jobs to run; called when the first job has ended.
    """

    def __init__(
        self, handler: logging.StreamHandler[Any], ending: Callable[[], str], plan: Plan
    ) -> None:
        super().__init__()
        self.handler, self.ending = handler, ending
        self.plan = cache(plan)
        self.running: dict[int, Job] = {}  # by number; the first has run longest
        self.ended: dict[int, Job] = {}  # finished jobs whose line awaits the total count
        self.begin: float | None = None  # of the first job
        self.seconds: dict[int, float] = {}  # runtimes of finished jobs
        self.on_terminal = handler.stream.isatty()
        if self.on_terminal:
            threading.Thread(target=self._keep_status, daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Handle a log record of Snakemake; the records of a job come in this order."""
        fields: Any = record  # its attributes depend on the event
        match getattr(record, "event", None):
            case "job_info":
                message = (fields.rule_msg or fields.rule_name).rstrip()  # a rule may lack a cell
                log = Path(fields.log[0]) if fields.log else None
                job = self.running[fields.jobid] = Job(message, log, time.monotonic())
                self.begin = self.begin or job.begin
            case "job_finished":
                if fields.job_id in self.running:
                    self.ended[fields.job_id] = self.running.pop(fields.job_id)
            case "progress":
                total = min(fields.total, len(self.plan()))  # without jobs beyond --until
                for number, job in self.ended.items():
                    line = self._line(number, job, fields.done, total)
                    self._show(_record(line, quietness=Quietness.PROGRESS))
                self.ended.clear()
            case "job_error":
                logs = [Path(log) for log in fields.log]
                self.running.pop(fields.jobid, None)
                # Snakemake shows no log after an empty one, which a job killed by Slurm has.
                fields.log = [str(log) for log in logs if log.is_file() and log.stat().st_size]
                self._show(record)
                if logs and disk_is_full(logs[0]):
                    full = f"The disk is full: {logs[0]} cannot be written"
                    self._show(_record(full, levelno=logging.ERROR))
            case event if event not in OMITTED_EVENTS and not _begins(record, *OMITTED_TEXTS):
                self._show(record)
                if _begins(record, NOTHING):
                    self._show(_record(self.ending()))

    def _line(self, number: int, job: Job, done: int, total: int) -> str:
        now = time.monotonic()
        self.seconds[number] = now - job.begin
        count, end = f"{done:>{len(str(total))}} of {total}  ", f": {duration(now - job.begin)}"
        if done < total and self.begin is not None and work_done(self.plan(), self.seconds) > EARLY:
            remaining = time_left(self.plan(), self.seconds, now - self.begin)
            end += f", {in_words(remaining)} left"
        width = get_terminal_size().columns - len(count + end) if self.on_terminal else None
        return count + shortened(job.message, width) + end

    def _show(self, record: logging.LogRecord) -> None:
        if self.on_terminal:
            self.handler.stream.write(CLEAR)
        self.handler.handle(record)

    def _keep_status(self) -> None:
        while True:
            time.sleep(STATUS_INTERVAL)
            assert self.lock is not None
            with self.lock:
                if self.running:
                    status = shortened(self.status(), get_terminal_size().columns - 1)
                    self.handler.stream.write(CLEAR + status)
                    self.handler.stream.flush()

    def status(self) -> str:
        """Return the message of the longest-running job and the last line of its log."""
        job, *more_jobs = self.running.values()
        more = f" (and {len(more_jobs)} more)" if more_jobs else ""
        last_line = ""
        if job.log is not None and job.log.is_file():
            lines = job.log.read_text(encoding="utf-8", errors="replace").splitlines()
            last_line = "".join(lines[-1:])
        return f"{job.message}{more}: {last_line or duration(time.monotonic() - job.begin)}"


def work_done(plan: Mapping[int, Planned], ended: Iterable[int]) -> float:
    """Return the fraction of a run's planned work that finished jobs, by number, have done."""
    total = sum(job.seconds for job in plan.values()) or 1
    return sum(plan[number].seconds for number in ended if number in plan) / total


def time_left(plan: Mapping[int, Planned], seconds: Mapping[int, float], elapsed: float) -> float:
    """Estimate the remaining seconds of a run, at its parallelism so far.

    A rule's remaining jobs keep the pace of its finished jobs, actual over planned time; rules
    without finished jobs take the median pace, which is robust to one slow rule. `seconds` are
    runtimes of finished jobs, at least one; `elapsed` is the time since the first job began.
    """
    planned: dict[str, float] = defaultdict(float)
    spent: dict[str, float] = defaultdict(float)
    for number, job_seconds in seconds.items():
        rule, expected = plan.get(number, Planned("", job_seconds))
        planned[rule] += expected
        spent[rule] += job_seconds
    pace = {rule: spent[rule] / (planned[rule] or 1) for rule in spent}
    median_pace = median(pace.values())
    remaining = (job for number, job in plan.items() if number not in seconds)
    work = sum(expected * pace.get(rule, median_pace) for rule, expected in remaining)
    return work * elapsed / (sum(seconds.values()) or 1)


def conclusion(verdicts: str, front: Path) -> str:
    """Return the closing text of a run in lines of 80 characters: verdicts and the page to open."""
    lines = [fill(line, 80, subsequent_indent="  ") for line in verdicts.splitlines()]
    command = {"darwin": "open", "win32": "start"}.get(sys.platform, "xdg-open")
    return "\n".join(["", *lines, "", f"Start here:  {command} {front}\n"])


def disk_is_full(file: Path) -> bool:
    """Return whether the disk of a file is full, so that not even an error can be written."""
    folder = next(folder for folder in file.absolute().parents if folder.is_dir())
    return disk_usage(folder).free < FULL


def in_words(seconds: float) -> str:
    """Return a time in whole seconds, minutes or hours, in the first unit with less than 100."""
    for size, unit in ((1, "second"), (60, "minute")):
        if (count := round(seconds / size)) < 100:
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return f"{seconds / 3600:.0f} hours"


def shortened(text: str, width: int | None) -> str:
    """Cut a text to at most `width` characters; None: any width."""
    return text if width is None or len(text) <= width else text[: max(0, width - 1)] + "…"


def _begins(record: logging.LogRecord, *texts: str) -> bool:
    return record.levelno < logging.WARNING and str(record.msg).startswith(texts)


def _record(text: str, **fields: object) -> logging.LogRecord:
    # Snakemake writes records of unknown events unchanged.
    defaults = {"msg": text, "levelno": logging.INFO, "levelname": "INFO", "event": "job_line"}
    return logging.makeLogRecord(defaults | fields)
