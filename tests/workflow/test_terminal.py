"""What a run prints: a line for each job, and in the end what came out and where to look."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pisoft.workflow.seals import MISSING
from pisoft.workflow.terminal import conclusion

pytestmark = pytest.mark.workflow

FRONT = "results/tiny/index.html"
TABLE = "results/tiny/tables/accuracy.html"
FIGURE = "results/tiny/figures/ranks/dynamic/toy.svg"
# All that is printed besides: of the command line, before the workflow is read, and of its end.
OTHERS = (
    "Using workflow specific profile",
    "Assuming unrestricted shared filesystem",
    "Building DAG of jobs",
    "Complete log(s): ",
    "Elapsed time: ",
)


def test_each_job_is_one_line_and_the_end_says_what_came_out(finished):
    for result in (TABLE, FIGURE):
        (finished.folder / result).unlink()
    printed = finished.snakemake("--cores", "2").stdout
    verdicts = (finished.folder / "results/tiny/verdicts.txt").read_text(encoding="utf-8")
    assert "which methods are most faithful?" in verdicts
    end = conclusion(verdicts, Path(FRONT))
    assert end in printed
    others = printed.replace(end, "").splitlines()
    assert {f"{result} {MISSING}" for result in (TABLE, FIGURE)} <= {*others}
    lines = [line for line in others if line and not line.startswith((*OTHERS, "results/"))]
    patterns = (
        r"1 of 5  (Writing all tables|Plotting ranks): \S+ s, \d+ seconds? left",
        r"2 of 5  (Writing all tables|Plotting ranks): \S+ s, \d+ seconds? left",
        r"3 of 5  Writing the pages of figures: \S+ s, \d+ seconds? left",
        r"4 of 5  Noting that there is no report of these results yet: \S+ s, \d+ seconds? left",
        r"5 of 5  All results are there: \S+ s",
    )
    assert len(lines) == len(patterns), printed
    for line, pattern in zip(lines, patterns, strict=True):
        assert re.fullmatch(pattern, line), line
    (log,) = re.findall(r"Complete log\(s\): (.*)", printed)
    kept = (finished.folder / log).read_text(encoding="utf-8")
    assert "Reason: Forced execution" in kept, "the log file keeps what the terminal leaves out"


def test_where_nothing_is_to_be_done_the_end_says_where_to_look(finished):
    printed = finished.snakemake("--cores", "1").stdout
    assert printed.index("Nothing to be done") < printed.index(FRONT)


def test_a_run_that_leaves_out_the_front_page_says_nothing_of_it(finished):
    (finished.folder / TABLE).unlink()
    printed = finished.snakemake("--cores", "1", TABLE).stdout
    assert "1 of 1  Writing all tables" in printed
    assert "Start here" not in printed


def test_a_dry_run_gives_reasons(finished):
    (finished.folder / TABLE).unlink()
    printed = finished.snakemake("--dry-run").stdout
    assert f"{TABLE} {MISSING}" in printed
    assert "Reason: " in printed
    assert "Start here" not in printed


def test_a_failed_job_shows_its_log_among_the_lines(finished):
    script = finished.folder / "scripts/plot_results.py"
    failing = ") -> None:\n    raise SystemExit('error: cannot be drawn')\n"
    script.write_text(script.read_text().replace(") -> None:\n", failing, 1))
    summary = "results/tiny/data/summary/accuracy.parquet"
    (finished.folder / summary).unlink()
    targets = (summary, "results/tiny/figures/scores/toy.svg", "results/tiny/index.html")
    printed = finished.snakemake("--cores", "1", *targets, check=False).stdout
    assert "error: cannot be drawn" in printed
    assert "Summarising accuracy: " in printed, "others went on"
    assert FRONT not in printed
