"""Terminal output of a run: one line per job, then the answer and the page to open."""

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
# All other output of Snakemake: before the workflow is read, and at its end.
OTHERS = (
    "Using workflow specific profile",
    "Assuming unrestricted shared filesystem",
    "Building DAG of jobs",
    "Complete log(s): ",
    "Elapsed time: ",
)


def test_each_job_prints_one_line_and_the_end_the_answer(finished):
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
    assert "Reason: Forced execution" in kept, "the log file keeps the full output"


def test_a_complete_run_still_names_the_front_page(finished):
    printed = finished.snakemake("--cores", "1").stdout
    assert printed.index("Nothing to be done") < printed.index(FRONT)


def test_a_run_without_the_front_page_does_not_name_it(finished):
    (finished.folder / TABLE).unlink()
    printed = finished.snakemake("--cores", "1", TABLE).stdout
    assert "1 of 1  Writing all tables" in printed
    assert "Start here" not in printed


def test_a_dry_run_prints_reasons(finished):
    (finished.folder / TABLE).unlink()
    printed = finished.snakemake("--dry-run").stdout
    assert f"{TABLE} {MISSING}" in printed
    assert "Reason: " in printed
    assert "Start here" not in printed


def test_a_failed_job_prints_its_log(finished):
    script = finished.folder / "scripts/plot_results.py"
    failing = ") -> None:\n    raise SystemExit('error: cannot be drawn')\n"
    script.write_text(script.read_text().replace(") -> None:\n", failing, 1))
    summary = "results/tiny/data/summary/accuracy.parquet"
    (finished.folder / summary).unlink()
    targets = (summary, "results/tiny/figures/scores/toy.svg", "results/tiny/index.html")
    printed = finished.snakemake("--cores", "1", *targets, check=False).stdout
    assert "error: cannot be drawn" in printed
    assert "Summarising accuracy: " in printed, "other jobs must continue"
    assert FRONT not in printed
