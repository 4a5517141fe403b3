"""Terminal output of a run, from Snakemake's log records."""

import io
import logging
import re
from logging.handlers import QueueHandler
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace

import pytest
from snakemake.logging import ColorizingTextHandler, DefaultFilter, DefaultFormatter
from snakemake.settings.enums import Quietness

from pisoft.workflow import terminal
from pisoft.workflow.terminal import Planned

# By number: six jobs; each is planned to take as long as the first of its rule.
PLAN = {
    7: Planned("tabulate", 10),
    8: Planned("attribute", 10),
    9: Planned("attribute", 30),
    10: Planned("tabulate", 10),
    11: Planned("plot", 5),
    12: Planned("all", 0),
}


@pytest.fixture
def clock(monkeypatch):
    """Return a list whose one number is the time."""
    now = [1000.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    return now


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self):
        return True


def new_logger(stream=None, quiet=(), plan=PLAN):
    """Return a logger that writes as Snakemake's does, a line for each job, and where it writes."""
    logger, stream = logging.Logger("run"), stream or io.StringIO()
    shown = ColorizingTextHandler(nocolor=True, stream=stream)
    shown.setFormatter(DefaultFormatter(quiet, show_failed_logs=True))
    shown.addFilter(DefaultFilter(quiet, False, False, False, False))
    logger.addHandler(shown)
    terminal.one_line_per_job(logger, lambda: "what came out", lambda: plan)
    return logger, stream


def begin(logger, number, message, log=()):
    extra = {
        "event": "job_info", "jobid": number, "rule_msg": message, "rule_name": "attribute",
        "log": list(log), "reason": "Missing output files", "indent": False,
    }  # fmt: skip
    logger.info("Rule", extra=extra)


def end(logger, number, done, total):
    logger.info(f"Finished jobid: {number}", extra={"event": "job_finished", "job_id": number})
    logger.info(None, extra={"event": "progress", "done": done, "total": total})


def test_each_job_is_a_line_with_duration_count_and_time_left(clock):
    logger, stream = new_logger()
    logger.info("Job stats", extra={"event": "run_info", "stats": {"attribute": 6, "total": 6}})
    logger.info("Select jobs to execute...")
    logger.info("Execute 2 jobs...", extra={"event": "job_started", "jobs": [7, 8]})
    begin(logger, 7, "Tabulating ranks ")
    clock[0] += 10
    begin(logger, 8, None)
    clock[0] += 10
    end(logger, 7, 1, 6)  # it took twice as long as planned; 55 s are planned for the others
    clock[0] += 30
    end(logger, 8, 2, 6)
    # 4 · 30 s, 2 · 10 s, and 3 · 5 s like all so far, in 50 s where 60 were taken
    assert stream.getvalue().splitlines() == [
        "1 of 6  Tabulating ranks: 20 s, 2 minutes left",
        "2 of 6  attribute: 40 s, 2 minutes left",
    ]


@pytest.mark.parametrize(
    ("number", "total", "plan", "line"),
    [
        (7, 2, {7: Planned("a", 2.0), 8: Planned("a", 98.0)}, "1 of 2  Tabulating: 0 s\n"),
        (0, 1, PLAN, "1 of 1  Tabulating: 0 s\n"),
        (7, 217, PLAN, "1 of 6  Tabulating: 0 s, 0 seconds left\n"),
    ],
    ids=["a small part of the work", "the last job", "jobs beyond --until are not counted"],
)
def test_the_time_left_is_predicted_if_possible(clock, number, total, plan, line):
    logger, stream = new_logger(plan=plan)
    begin(logger, number, "Tabulating")
    end(logger, number, 1, total)
    assert stream.getvalue() == line


def test_the_time_left_depends_on_planned_work_and_not_job_counts():
    plan = {k: Planned("evaluate", 60.0 if k else 600.0) for k in range(11)}
    plan |= {k: Planned("summarise", 1.0) for k in range(11, 111)}
    seconds = dict.fromkeys(range(1, 11), 120.0)
    expected = 600.0 * 2 + 100 * 1.0 * 2
    assert terminal.time_left(plan, seconds, 1200.0) == pytest.approx(expected)
    assert terminal.time_left(plan, seconds, 600.0) == pytest.approx(expected / 2), "two at once"


def test_a_slow_rule_does_not_affect_estimates_of_other_rules():
    rules = ("fetch", "sample", "train", "attribute")
    plan = {number: Planned(rule, 4.0) for number, rule in enumerate(rules)}
    seconds = {0: 2.0, 1: 2.0, 2: 96.0}
    assert terminal.time_left(plan, seconds, 100.0) == pytest.approx(2)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 seconds"), (1, "1 second"), (99, "99 seconds"), (100, "2 minutes"),
     (5900, "98 minutes"), (7200, "2 hours"), (400_000, "111 hours")],
)  # fmt: skip
def test_durations_are_written_in_words(seconds, words):
    assert terminal.in_words(seconds) == words


def test_lines_are_cut_to_the_terminal_width(clock, monkeypatch):
    monkeypatch.setattr(terminal.threading.Thread, "start", lambda thread: None)
    monkeypatch.setenv("COLUMNS", "60")
    logger, stream = new_logger(Terminal())
    begin(logger, 7, "Evaluating integrated_gradients on demo-llama, demo-sentiment")
    clock[0] += 3
    end(logger, 7, 1, 6)
    (line,) = stream.getvalue().removeprefix(terminal.CLEAR).splitlines()
    assert len(line) == 60
    assert line.startswith("1 of 6  Evaluating integrated_grad")
    assert line.endswith("…: 3 s, 16 seconds left")


def test_the_final_message_fits_80_columns_and_names_a_command():
    verdict = "- AUC π-Soft-NS ↑, dynamic routing: Saliency leads. " + "Not different: others. " * 5
    text = terminal.conclusion(f"Tiny Llama\n{verdict}\n", Path("results/demo/index.html"))
    assert max(map(len, text.splitlines())) <= 80
    assert " ".join(text.split()).startswith(f"Tiny Llama {verdict.strip()} Start here: ")
    assert re.search(r"Start here:  \w[\w-]+ results/demo/index.html\n$", text)


@pytest.mark.parametrize("free", [0, 10**9])
def test_a_failure_is_shown_with_logs_and_a_full_disk_is_named(tmp_path, monkeypatch, free):
    """A job killed by Slurm writes nothing; the reason is in Slurm's log, the second one."""
    monkeypatch.setattr(terminal, "disk_usage", lambda folder: SimpleNamespace(free=free))
    logger, stream = new_logger()
    log, slurm_log = tmp_path / "job.log", tmp_path / "7.log"
    log.touch()
    slurm_log.write_text("error: Exceeded job memory limit\n")
    begin(logger, 3, "Attributing", [log])
    extra = {
        "event": "job_error", "jobid": 3, "rule_name": "attribute", "rule_msg": "Attributing",
        "input": [], "output": ["a.parquet"], "log": [str(log), str(slurm_log)], "conda_env": None,
        "shellcmd": "false", "aux": {}, "indent": False,
    }  # fmt: skip
    logger.error("Error in rule attribute", extra=extra)
    logger.warning("Select jobs to execute: a warning is never left out")
    output = stream.getvalue()
    assert "Error in rule attribute" in output
    assert "error: Exceeded job memory limit" in output
    assert "never left out" in output
    assert (f"The disk is full: {log} cannot be written" in output.splitlines()) == (free == 0)


def test_a_run_without_jobs_lists_its_results():
    logger, stream = new_logger()
    logger.info("Nothing to be done (all requested files are present and up to date).")
    assert stream.getvalue().splitlines()[1:] == ["what came out"]


def test_job_lines_are_omitted_without_progress():
    logger, stream = new_logger(quiet={Quietness.PROGRESS})
    begin(logger, 0, "Attributing")
    end(logger, 0, 1, 2)
    assert stream.getvalue() == ""


def test_the_last_line_shows_the_longest_running_job(tmp_path, clock, monkeypatch):
    monkeypatch.setattr(terminal.threading.Thread, "start", lambda thread: None)
    logger, stream = new_logger(Terminal())
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
    assert stream.getvalue().startswith(terminal.CLEAR), "the last line is overwritten"


def test_the_last_line_follows_the_jobs_progress(monkeypatch):
    seen = terminal.threading.Event()

    class Watched(Terminal):
        def flush(self):
            if "Evaluating: " in self.getvalue():
                seen.set()

    monkeypatch.setattr(terminal, "STATUS_INTERVAL", 0.001)
    begin(new_logger(Watched())[0], 1, "Evaluating")
    assert seen.wait(30)


def test_a_terminal_used_by_a_plugin_is_not_written_to():
    logger = logging.Logger("run")
    plugin = QueueHandler(SimpleQueue())  # passes records to Snakemake's plugins
    logger.addHandler(plugin)
    terminal.one_line_per_job(logger, lambda: "", dict)
    assert logger.handlers == [plugin]
