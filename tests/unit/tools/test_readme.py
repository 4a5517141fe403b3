"""README.md's table, figure and page of real numbers are up to date with `make readme`."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from comparable_runs import run_settings
from documents import MARKERS, put_between_markers
from helpers.result_rows import frame, statistics_row
from keep_summary import (
    BOARD,
    CATALOGUE,
    FIGURES,
    OPERATORS_RUN,
    PAGE_RUN,
    README_RUN,
    STOP_RUN,
    left_out,
)
from make_readme import PAGE, main, parser
from paper_findings import NOT_RUN, paper_findings
from pisoft.config.jobs.displays import LabelSettings
from pisoft.config.loading import load_run
from pisoft.config.validation import read_yaml
from pisoft.errors import BenchmarkError
from pisoft.pages.findings import Numbers
from real_numbers import CHANGES, real_numbers_page, result_text
from summary import KEPT, keep, kept, results_of

ENTRY = BOARD / f"{README_RUN}.json"
OPERATORS_ENTRY, STOPPED = (FIGURES / f"{run}.json" for run in (OPERATORS_RUN, STOP_RUN))
BEGIN, END = (marker.format("readme") for marker in MARKERS)
LARGEST_FIGURE = 300_000  # bytes
LONGEST = 75  # lines of README: two screens
METHODS = {"random": "Random", **{name: name.title() for name in ("best", "second", "third")}}
METHODS |= {"fourth": "Fourth", "last": "Last"}
DATASETS = {"films": "Films", "books": "Books"}


def numbers(*order: str) -> Numbers:
    """Return results of methods, best first; only the second is not significantly worse."""
    rows = [
        statistics_row(
            metric, dataset, method, 0.5 - place / 8,
            n=n, low=0.4 - place / 8, high=0.6 - place / 8, rank=place + 1.0, best=order[0],
            p_adjusted={0: None, 1: 0.3}.get(place, 0.01),
        )
        for metric in ("auc_pi_soft_ns", "auc_pi_soft_nc")
        for dataset, n in (("films", 16), ("books", 9), ("average", 25))
        for place, method in enumerate(order)
    ]  # fmt: skip
    labels = LabelSettings(models={"llama": "Llama"}, datasets=DATASETS, methods=METHODS)
    return Numbers({"statistics": frame(rows), "comparisons": frame([])}, labels)


def text_of(*order: str) -> str:
    figure, page = "docs/figure.png", "docs/numbers.md"
    return result_text(numbers(*order), protocol="dynamic", figure=figure, page=page)


def rows_of(text: str) -> list[list[str]]:
    """Return the cells of a Markdown table's lines."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def between_markers(document: str) -> str:
    return document.split(BEGIN)[1].split(END)[0]


def test_cells_show_averages_with_rank_interval_and_marks() -> None:
    text = text_of("best", "second", "random").replace("&nbsp;", " ")
    headings, _, best, second, random = rows_of(text)
    assert headings == ["#", "Method", "AUC π-Soft-NS ↑", "AUC π-Soft-NC ↑"]
    assert best == ["1", "Best", *["**0.50** <sub>[.40, .60]</sub>"] * 2]
    assert second == ["2", "Second", *["0.38 ≈ <sub>[.28, .47]</sub>"] * 2]
    assert random == ["3", "Random", *["0.25 <sub>[.15, .35]</sub>"] * 2]


@pytest.mark.parametrize(
    ("order", "shown"),
    [
        (["best", "second", "third", "random"], ["1", "2", "3", "4"]),
        (["best", "second", "third", "last", "random"], ["1", "2", "3", "…", "5"]),
        (["best", "second", "third", "random", "last"], ["1", "2", "3", "4", "…"]),
        (["best", "second", "third", "fourth", "random", "last"], ["1", "2", "3", "…", "5", "…"]),
        (["best", "random", "third", "last"], ["1", "2", "3", "…"]),
        (["best", "second", "third", "last"], ["1", "2", "3", "…"]),
    ],
)
def test_the_table_lists_leading_methods_and_random_scores(
    order: list[str], shown: list[str]
) -> None:
    _, _, *rows = rows_of(text_of(*order))
    assert [row[0] for row in rows] == shown
    assert {len(row) for row in rows} == {4}


def test_readme_and_page_match_the_stored_summary(root: Path, tmp_path: Path) -> None:
    page_entry = ENTRY.with_stem(PAGE_RUN)
    for path in (ENTRY, page_entry, OPERATORS_ENTRY, STOPPED, FIGURES / CHANGES):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / path, tmp_path / path)
    (tmp_path / PAGE).parent.mkdir(parents=True)
    (tmp_path / "README.md").write_text(f"{BEGIN}\n{END}\n")
    main(parser().parse_args(["--folder", str(tmp_path)]))
    assert (tmp_path / PAGE).read_bytes() == (root / PAGE).read_bytes()
    made = between_markers((tmp_path / "README.md").read_text(encoding="utf-8"))
    assert made == between_markers((root / "README.md").read_text(encoding="utf-8"))
    for run in (README_RUN, PAGE_RUN):
        assert 0 < (root / FIGURES / f"{run}.svg").stat().st_size < LARGEST_FIGURE


def test_findings_of_other_runs_are_omitted_without_them(root: Path) -> None:
    summary = kept(root / BOARD / f"{PAGE_RUN}.json")
    page = real_numbers_page(summary, "figure.svg", larger=summary)
    for text in ("this run lacks", "Keys hidden", "is each comparison decided?"):
        assert text in (root / PAGE).read_text(encoding="utf-8")
        assert text not in page


def unlike_the_paper(page: str) -> list[list[str]]:
    """Return the rows of settings on the page of real numbers that are unlike the paper's."""
    section = page.split("## What differs from the paper\n")[1].split("\n## ")[0]
    return rows_of(section)[2:]


def test_the_page_lists_settings_that_differ_from_the_papers(root: Path) -> None:
    summary = kept(root / BOARD / f"{PAGE_RUN}.json")
    path = root / "config/paper.yaml"
    paper_settings = run_settings(load_run(read_yaml(path), [path], *CATALOGUE))
    as_there = summary.model_copy(update={"settings": paper_settings})
    assert unlike_the_paper(real_numbers_page(as_there, "figure.svg")) == []
    changes = {"evaluation.clamp": "none", "evaluation.pi_grid": [0.1, 0.5]}
    changes |= {"generation.max_new_tokens": 1, "imdb.max_words": 9, "mine.dtype": "float32"}
    changed = summary.model_copy(update={"settings": {**paper_settings, **changes}})
    rows = {key: rest for key, *rest in unlike_the_paper(real_numbers_page(changed, "figure.svg"))}
    assert rows == {
        "`evaluation.clamp`": ["none", "draw"],
        "`evaluation.pi_grid`": ["0.1, …, 0.5 (2 values)", "0.05, …, 0.95 (19 values)"],
        "`generation.max_new_tokens`": ["1", "left open; ours: 50"],
        "`imdb.max_words`": ["9", "records of any length"],
        "`mine.dtype`": ["float32", "left open; ours: bfloat16"],
    }


def test_changes_since_the_previous_page_name_the_changed_findings(root: Path) -> None:
    summary = kept(root / BOARD / f"{PAGE_RUN}.json")
    text = " ".join((root / FIGURES / CHANGES).read_text(encoding="utf-8").split())
    changed = [
        one
        for one in paper_findings(summary.numbers, summary.protocols)
        if summary.previous[one.claim] not in (one.verdict, NOT_RUN)
    ]
    quoted = set(re.findall(r'"([^"]+)" was ([a-z ]+)\.', text))
    assert quoted == {
        (one.claim.removesuffix("."), summary.previous[one.claim].split(" at ")[0])
        for one in changed
    }
    untested = [*summary.previous.values()].count(NOT_RUN)
    words = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight")
    assert f"- {words[untested]} findings had not been tested." in text


def test_the_stored_summary_contains_no_records(root: Path) -> None:
    summary = kept(root / ENTRY)
    assert {*summary.results} <= {*KEPT}
    for part in summary.results.values():
        assert "sample_id" not in part.columns
        assert "n" in part.columns, "a mean says of how many"


def test_the_stored_summary_is_rewritten_byte_for_byte(root: Path, tmp_path: Path) -> None:
    summary = kept(root / ENTRY)
    results = results_of(summary.numbers.rows)
    keep(tmp_path / ENTRY.name, summary.model_copy(update={"results": results}))
    assert (tmp_path / ENTRY.name).read_bytes() == (root / ENTRY).read_bytes()


def test_methods_missing_in_a_run_are_named(root: Path) -> None:
    path = root / "config/laptop.yaml"
    raw = read_yaml(path)
    whole = load_run(raw, [path], *CATALOGUE)
    most = [name for name in whole.methods if name not in {"reagent", "occlusion"}]
    part = load_run({**raw, "methods": most}, [path], *CATALOGUE)
    needs = "ReAGent, which needs a masked model"
    assert left_out(part, whole.methods) == (needs, "Occlusion")
    assert left_out(whole, whole.methods) == ()


def test_readme_fits_on_two_screens(root: Path) -> None:
    assert len((root / "README.md").read_text(encoding="utf-8").splitlines()) <= LONGEST


def test_only_text_between_the_markers_is_replaced() -> None:
    document = f"# Title\n\n{BEGIN}\nold\n{END}\n\nrest\n"
    once = put_between_markers(document, "new", "README.md")
    assert once == f"# Title\n\n{BEGIN}\nnew\n{END}\n\nrest\n"
    assert put_between_markers(once, "new", "README.md") == once


@pytest.mark.parametrize("lines", [[], [BEGIN], [END, BEGIN], [BEGIN, END, BEGIN, END]])
def test_missing_or_misplaced_markers_are_named(lines: list[str]) -> None:
    with pytest.raises(BenchmarkError, match=r"^a\.md: needs one line .*begin.*end"):
        put_between_markers("\n".join(lines), "new", "a.md")


def test_a_missing_summary_gives_one_line(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=rf"^{tmp_path / ENTRY}: no summary of a run can be"):
        main(parser().parse_args(["--folder", str(tmp_path)]))
