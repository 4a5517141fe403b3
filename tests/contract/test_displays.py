"""What holds for every table and figure, found as the workflow finds them."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import displayable
from pisoft.columns import SCHEMAS
from pisoft.displays import DRAWN, ENDINGS, PACKAGE, Display, displays_in, files_of
from pisoft.errors import BenchmarkError
from pisoft.shards import shards_of
from rooms import PLOT, SCRIPTS, TABULATE, display_settings

EVERY = [(room, name) for room in ENDINGS for name in displays_in(room)]
SCRIPT = {"tables": TABULATE, "figures": PLOT}
DISPLAY = """\
from pisoft.displays import display

@display(title="Mine", reads={"ranks": "summary/ranks"}{more})
def table(view): ...
"""


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return two folders with every display, made by processes that order sets in other ways."""
    folder = tmp_path_factory.mktemp("displays")
    every = [display for room in ENDINGS for display in displays_in(room).values()]
    patterns = displayable.write_results(folder, every)
    made = [folder / "first", folder / "second"]
    for number, place in enumerate(made):
        for room, script in SCRIPT.items():
            paths = [
                pattern.format(**displayable.CELL)
                for name, display in displays_in(room).items()
                for pattern in display.patterns(name)
            ]
            finished = subprocess.run(
                [
                    *(sys.executable, "-W", "error", SCRIPTS / f"{script}.py"),
                    *("--settings", displayable.SETTINGS.to_json(), "--folder", place / room),
                    *("--files", *(f"{kind}={path}" for kind, path in patterns.items())),
                    *("--show", *paths),
                ],
                env={**os.environ, "PYTHONHASHSEED": str(number)},
                capture_output=True,
                text=True,
                check=False,
            )
            assert finished.returncode == 0, finished.stderr
            assert not finished.stderr, "no warnings in the log"
    return made


@pytest.mark.slow
@pytest.mark.parametrize(("room", "name"), EVERY)
def test_it_is_drawn_from_its_files_the_same_in_every_process(drawn, room, name):
    display = displays_in(room)[name]
    for pattern in display.patterns(name):
        for ending in display.endings(room):
            first, second = (
                (folder / room / f"{pattern.format(**displayable.CELL)}.{ending}").read_bytes()
                for folder in drawn
            )
            assert first == second, ending
            assert first
            if ending in ("html", "svg"):
                assert b"<q>" not in first, "a label is text"


@pytest.mark.parametrize(("room", "name"), EVERY)
def test_what_is_read_from_its_source_is_what_it_says_when_it_is_imported(room, name):
    module = f"pisoft.{room}.{name}"
    import_module(module)
    described, function = DRAWN[module]
    assert displays_in(room)[name] == described
    assert function.__name__ == {"tables": "table", "figures": "plot"}[room]


@pytest.mark.parametrize(("room", "name"), EVERY)
def test_what_it_reads_are_files_of_the_run(room, name):
    for kind in displays_in(room)[name].reads:
        assert kind in SCHEMAS or kind == "selected_samples"


def test_a_kind_of_rows_is_one_file_whichever_display_reads_it():
    """One job makes all tables, so that a kind names one file."""
    read = {item for room, name in EVERY for item in displays_in(room)[name].reads.items()}
    assert len(read) == len(dict(read))


@pytest.mark.parametrize(
    "more", [", by=KEYS", ", cells='all' if ROOM else 'permuted'", ", colour='red'"]
)
def test_what_the_workflow_cannot_read_is_an_error_with_the_file(tmp_path, more):
    (tmp_path / "tables").mkdir()
    file = tmp_path / "tables/mine.py"
    file.write_text(DISPLAY.replace("{more}", more), encoding="utf-8")
    with pytest.raises(BenchmarkError, match=r"mine\.py: display\(…\) takes literals"):
        displays_in("tables", tmp_path)


def test_a_module_without_the_decorator_is_no_display():
    names = {file.stem for file in (PACKAGE / "tables").glob("*.py")}
    assert {"layout", "writer"} <= names - set(displays_in("tables"))


def test_a_display_reads_all_shards_of_a_dataset_that_is_cut():
    labels = {"models": {"m": "M"}, "datasets": {"a": "A", "b": "B"}, "methods": {"x": "X"}}
    settings = display_settings(**labels, shards={"m": {"a": None, "b": (10, 4)}})
    described = Display(title="", by=("model",), reads={"attributions": "", "statistics": ""})
    patterns = {
        "attributions": "d/attributions/{model}/{method}/{part}.parquet",
        "statistics": "d/summary/statistics.parquet",
        "prompts": "d/prompts/{model}/{part}.parquet",
    }
    files = files_of(described, patterns, {"model": "m"}, settings)
    assert set(files) == {"attributions", "statistics"}, "what it does not read is left out"
    assert files["statistics"] == [Path("d/summary/statistics.parquet")]
    read = [str(file) for path in files["attributions"] for file in shards_of(path)]
    folder = "d/attributions/m/x"
    assert read == [
        f"{folder}/a.parquet",
        *(f"{folder}/b/{n}.parquet" for n in ("0-4", "4-8", "8-10")),
    ]
