"""Every pitfall in the docs shows a stored figure or states why there is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from documents import MARKERS
from keep_figures import FOLDER, PAGE, SHOWN, VALIDATION, main, parser
from pisoft.errors import BenchmarkError

LARGEST = 250_000  # bytes
SECTIONS = re.split(
    r"^## ", (Path(__file__).parents[2] / PAGE).read_text(encoding="utf-8"), flags=re.M
)[1:]
TITLES = [section.partition("\n")[0] for section in SECTIONS]
ABOVE = re.compile(r"\[figure above\]\(#([\w-]+)\)")


def anchor(title: str) -> str:
    return re.sub(r"[^\w -]", "", title).lower().replace(" ", "-")


@pytest.mark.parametrize("section", SECTIONS, ids=TITLES)
def test_a_pitfall_has_a_figure_or_a_reason(section: str) -> None:
    drawn = {anchor(title) for title, text in zip(TITLES, SECTIONS, strict=True) if "![" in text}
    reason = re.search(r"^No figure: .+", section, flags=re.M)
    above = ABOVE.findall(section)
    assert set(above) <= drawn
    assert bool(reason) != bool(above or SHOWN.search(section))


def test_stored_figures_are_exactly_the_shown_ones(root: Path) -> None:
    shown = [name for section in SECTIONS for name in SHOWN.findall(section)]
    assert len(shown) == sum(section.count("![") for section in SECTIONS), "a figure from elsewhere"
    kept = {path.relative_to(root / FOLDER).as_posix() for path in (root / FOLDER).rglob("*.*")}
    assert kept == set(shown), "make docs-figures"
    for name in kept:
        assert 0 < (root / FOLDER / name).stat().st_size < LARGEST, name


def test_figures_and_numbers_are_copied_or_missing_ones_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / PAGE).parent.mkdir(parents=True)
    begin, end = (marker.format("docs-figures") for marker in MARKERS)
    figure = f"![A](../{FOLDER.relative_to('docs').as_posix()}/a/b.svg)"
    (tmp_path / PAGE).write_text(f"{figure}\n{begin}\nold\n{end}\n")
    (tmp_path / FOLDER).mkdir(parents=True)
    (tmp_path / FOLDER / "old.svg").write_text("old")
    table = tmp_path / "more/tables" / VALIDATION
    table.parent.mkdir(parents=True)
    table.write_text(
        "metric,part,value,low,high,n\n"
        "soft_ns,oracle_over_noisy,0.3125,0.1416,0.556,16\n"
        "soft_ns,ladder,0.5,0.4,0.6,16\n"
        "auc_pi_soft_ns,oracle_over_noisy,0.875,0.6397,0.965,16\n"
    )

    runs = parser().parse_args(["--runs", "first", "more"])
    with pytest.raises(BenchmarkError, match=r"^a/b\.svg: not found in first/figures, more/figu"):
        main(runs)
    assert (tmp_path / FOLDER / "old.svg").is_file()
    for folder in ("more", "first"):
        (tmp_path / folder / "figures/a").mkdir(parents=True)
        (tmp_path / folder / "figures/a/b.svg").write_text(folder)
        main(runs)
        assert [path.name for path in (tmp_path / FOLDER).rglob("*.svg")] == ["b.svg"]
        assert (tmp_path / FOLDER / "a/b.svg").read_text() == folder, "of the first that has it"
    text = "AUC π-Soft-NS ↑ 0.88 [.64, .96], Soft-NS ↑ 0.31 [.14, .56] (n = 16; chance is 0.5)"
    assert (tmp_path / PAGE).read_text() == f"{figure}\n{begin}\n*{text}.*\n{end}\n"
