"""What a run says on the terminal, from the records that Snakemake logs."""

import io
import logging
from logging.handlers import QueueHandler
from queue import SimpleQueue

import pytest
from snakemake.logging import ColorizingTextHandler, DefaultFilter, DefaultFormatter
from snakemake.settings.enums import Quietness

from pisoft.workflow import terminal


@pytest.fixture
def clock(monkeypatch):
    """Return a list whose one number is the time."""
    now = [1000.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    return now


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self):
        return True


def made(stream, quiet=()):
    """Return a logger that writes as Snakemake's does, with one line for each job."""
    logger = logging.Logger("run")
    shown = ColorizingTextHandler(nocolor=True, stream=stream)
    shown.setFormatter(DefaultFormatter(quiet, show_failed_logs=True))
    shown.addFilter(DefaultFilter(quiet, False, False, False, False))
    logger.addHandler(shown)
    terminal.one_line_per_job(logger, lambda: "what came out")
    return logger


def begin(logger, number, message, log=(), rule="attribute"):
    extra = {
        "event": "job_info", "jobid": number, "rule_msg": message, "rule_name": rule,
        "log": list(log), "reason": "Missing output files", "indent": False,
    }  # fmt: skip
    logger.info("Rule", extra=extra)


def end(logger, number, done, total):
    logger.info(f"Finished jobid: {number}", extra={"event": "job_finished", "job_id": number})
    logger.info(None, extra={"event": "progress", "done": done, "total": total})


def test_each_job_is_a_line_with_its_time_its_number_and_the_time_left(clock):
    stream = io.StringIO()
    logger = made(stream)
    counts = {"attribute": 6, "tabulate": 4, "plot": 2, "total": 12}
    logger.info("Job stats", extra={"event": "run_info", "stats": counts})
    logger.info("Select jobs to execute...")
    logger.info("Execute 2 jobs...", extra={"event": "job_started", "jobs": [7, 8]})
    begin(logger, 7, "Tabulating ranks ", rule="tabulate")
    clock[0] += 10
    begin(logger, 8, None)
    clock[0] += 10
    end(logger, 7, 1, 12)  # 11 more of 20 s each, one at once
    clock[0] += 30
    end(logger, 8, 2, 12)  # 3 of 20 s, 5 of 40 s, and 2 like the shortest, in 60/50
    assert stream.getvalue().splitlines() == [
        " 1 of 12  Tabulating ranks: 20 s, 03:40 left",
        " 2 of 12  attribute: 40 s, 04:10 left",
    ]


def test_many_short_jobs_at_the_end_take_a_short_time():
    counts = {"evaluate": 10, "summarise": 1, "tabulate": 100}
    seconds = {"evaluate": [60.0] * 10, "summarise": [2.0], "fetch": [1.0]}
    assert terminal.time_left(counts, seconds, 300.0) == pytest.approx(100 * 1 * 300 / 603)


def test_the_last_job_has_no_time_left(clock):
    stream = io.StringIO()
    logger = made(stream)
    begin(logger, 0, "All results are there")
    end(logger, 0, 1, 1)
    assert stream.getvalue() == "1 of 1  All results are there: 0 s\n"


def test_a_failure_is_shown_with_the_jobs_log(tmp_path):
    stream = io.StringIO()
    logger = made(stream)
    log = tmp_path / "job.log"
    log.write_text("error: no such token\n")
    begin(logger, 3, "Attributing", [log])
    extra = {
        "event": "job_error", "jobid": 3, "rule_name": "attribute", "rule_msg": "Attributing",
        "input": [], "output": ["a.parquet"], "log": [str(log)], "conda_env": None,
        "shellcmd": "false", "aux": {}, "indent": False,
    }  # fmt: skip
    logger.error("Error in rule attribute", extra=extra)
    logger.warning("Select jobs to execute: a warning is never left out")
    said = stream.getvalue()
    assert "Error in rule attribute" in said
    assert "error: no such token" in said
    assert "never left out" in said


def test_where_nothing_was_to_be_done_it_says_what_came_out():
    stream = io.StringIO()
    made(stream).info("Nothing to be done (all requested files are present and up to date).")
    assert stream.getvalue().splitlines()[1:] == ["what came out"]


def test_lines_of_jobs_are_left_out_where_progress_is_not_wanted():
    stream = io.StringIO()
    logger = made(stream, quiet={Quietness.PROGRESS})
    begin(logger, 0, "Attributing")
    end(logger, 0, 1, 2)
    assert stream.getvalue() == ""


def test_on_a_terminal_the_last_line_is_what_the_longest_job_says(tmp_path, clock, monkeypatch):
    monkeypatch.setattr(terminal.threading.Thread, "start", lambda thread: None)
    stream = Terminal()
    logger = made(stream)
    (lines,) = logger.handlers
    log = tmp_path / "job.log"
    begin(logger, 1, "Evaluating", [log])
    begin(logger, 2, "Plotting")
    clock[0] += 5
    assert lines.status() == "Evaluating (and 1 more): 5 s"
    log.write_text("12:00:00 evaluating: 1 of 4\n12:00:10 evaluating: 2 of 4\n")
    assert lines.status() == "Evaluating (and 1 more): 12:00:10 evaluating: 2 of 4"
    end(logger, 1, 1, 2)
    assert lines.status() == "Plotting: 5 s"
    assert stream.getvalue().startswith(terminal.CLEAR), "the last line is written over"


def test_the_last_line_of_a_terminal_follows_the_job(monkeypatch):
    seen = terminal.threading.Event()

    class Watched(Terminal):
        def flush(self):
            if "Evaluating: " in self.getvalue():
                seen.set()

    monkeypatch.setattr(terminal, "STATUS_INTERVAL", 0.001)
    begin(made(Watched()), 1, "Evaluating")
    assert seen.wait(30)


def test_a_terminal_that_a_plugin_writes_to_is_left_alone():
    logger = logging.Logger("run")
    plugin = QueueHandler(SimpleQueue())  # through which Snakemake's plugins hear of records
    logger.addHandler(plugin)
    terminal.one_line_per_job(logger, lambda: "")
    assert logger.handlers == [plugin]
