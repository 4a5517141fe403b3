"""Every pitfall of the docs shows a figure that is kept, or says why there is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from keep_figures import FOLDER, PAGE, SHOWN, main, parser
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


def test_the_figures_that_are_kept_are_those_that_are_shown(root: Path) -> None:
    shown = [name for section in SECTIONS for name in SHOWN.findall(section)]
    assert len(shown) == sum(section.count("![") for section in SECTIONS), "one from elsewhere"
    kept = {path.relative_to(root / FOLDER).as_posix() for path in (root / FOLDER).rglob("*.*")}
    assert kept == set(shown), "make docs-figures"
    for name in kept:
        assert 0 < (root / FOLDER / name).stat().st_size < LARGEST, name


def test_figures_are_copied_whole_or_one_line_says_which_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / PAGE).parent.mkdir(parents=True)
    (tmp_path / PAGE).write_text(f"![A](../{FOLDER.relative_to('docs').as_posix()}/a/b.svg)\n")
    (tmp_path / FOLDER).mkdir(parents=True)
    (tmp_path / FOLDER / "old.svg").write_text("old")

    runs = parser().parse_args(["--figures", "figures", "more"])
    with pytest.raises(BenchmarkError, match=r"^a/b\.svg: not found in figures, more; the runs"):
        main(runs)
    assert (tmp_path / FOLDER / "old.svg").is_file()
    for folder in ("more", "figures"):
        (tmp_path / folder / "a").mkdir(parents=True)
        (tmp_path / folder / "a/b.svg").write_text(folder)
        main(runs)
        assert [path.name for path in (tmp_path / FOLDER).rglob("*.svg")] == ["b.svg"]
        assert (tmp_path / FOLDER / "a/b.svg").read_text() == folder, "of the first that has it"
