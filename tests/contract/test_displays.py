"""Contract of every table and figure, found through the registry that the workflow uses."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from matplotlib.image import imread

from helpers import goldens, result_sets
from helpers.latex import needs_latex, typeset
from helpers.script_runs import PLOT, SCRIPTS, TABULATE, display_settings
from pisoft.errors import BenchmarkError
from pisoft.figures.style import page_width, theme
from pisoft.store.shards import shards_of
from pisoft.tables.writer import write
from pisoft.views.registry import ENDINGS, Display, displays_in, files_of
from pisoft.views.view import DRAWN, displayed

EVERY = [(room, name) for room in ENDINGS for name in displays_in(room)]
PLAIN = "several"  # the result set that fresh processes draw
WITHOUT_N = ("tokens", "metric_agreement")  # they show single texts or a number of methods
SCRIPT = {"tables": TABULATE, "figures": PLOT}
KEPT_WIDE = ("method_agreement", "metric_agreement")
PIXEL = 0.01  # inches
MOST_WORDS = 60  # in a note below a table
ONE_COLUMN = 88  # millimetres
MOST = "as many as in the paper"  # the result set with most methods and datasets
GOLDEN_ONLY = "no random scores"  # a result set that only some displays are drawn from
GOLDENS = {
    **dict.fromkeys((PLAIN, "uneven"), EVERY),
    GOLDEN_ONLY: [
        *(("tables", name) for name in ("advantage", "density", "ranks")),
        *(("figures", name) for name in ("advantage", "sensitivity", "method_agreement")),
    ],
    "no value": [("figures", name) for name in ("pi_curves", "ranks", "sensitivity")],
    MOST: [("figures", name) for name in ("pi_curves", "ranks")],
}
for_each_case = pytest.mark.parametrize(
    "case", [name for name in result_sets.CASES if name != GOLDEN_ONLY]
)
DISPLAY = """\
from pisoft.views.view import display

@display(title="Mine", reads=("ranks",){more})
def table(view): ...
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, str]]:
    """Return a function that writes a result set once and returns the patterns of its files."""
    every = [display for room in ENDINGS for display in displays_in(room).values()]

    @cache
    def written(case: str) -> dict[str, str]:
        folder = tmp_path_factory.mktemp("results")
        return result_sets.write_results(folder, every, result_sets.CASES[case])

    return written


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return two folders with every display, drawn by processes with different hash seeds."""
    folder = tmp_path_factory.mktemp("displays")
    every = [display for room in ENDINGS for display in displays_in(room).values()]
    case = result_sets.CASES[PLAIN]
    files = result_sets.write_results(folder, every, case)
    targets = [folder / "first", folder / "second"]
    started = []
    for (seed, target), (room, script) in itertools.product(enumerate(targets), SCRIPT.items()):
        listed = [path for name in displays_in(room) for path in paths(room, name)]
        command = [
            *(sys.executable, "-W", "error", SCRIPTS / f"{script}.py"),
            *("--settings", case.settings.to_json(), "--folder", target / room),
            *("--files", *(f"{kind}={path}" for kind, path in files.items())),
            *("--show", *listed),
        ]
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        output = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen(command, env=environment, **output))
    for process in started:  # started in parallel
        _, errors = process.communicate()
        assert process.returncode == 0, errors
        assert not errors, "a warning in the log"
    return targets


def shown(room: str, case: str) -> list[str]:
    """Return the names of the displays in a run with these results."""
    single = len(result_sets.CASES[case].methods) == 1
    left_out = {"compared", "controls"} if single else set()
    return [name for name, display in displays_in(room).items() if display.cells not in left_out]


def paths(room: str, name: str) -> list[str]:
    """Return the paths of a display's files, without extension."""
    return [path.format(**result_sets.CELL) for path in displays_in(room)[name].patterns(name)]


@pytest.fixture(scope="module")
def draw(files: Callable[[str], dict[str, str]]) -> Callable[[str, str, str], list[Any]]:
    """Return a function that draws a display of a result set, once for all tests."""
    return cache(lambda room, name, case: drawn_here(room, name, case, files(case)))


def drawn_here(room: str, name: str, case: str, files: dict[str, str]) -> list[Any]:
    """Return a display's table or its laid-out figures; warnings are errors."""
    settings, results = result_sets.CASES[case].settings, []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _, described, _, result in displayed(room, paths(room, name), files, settings):
            results.append(result[0] if described.numbers else result)
            if room == "figures":
                with theme():  # at the resolution of saving, on which text widths depend
                    results[-1].set_dpi(matplotlib.rcParams["savefig.dpi"])
                    results[-1].draw_without_rendering()
    return results


@for_each_case
@pytest.mark.parametrize("name", displays_in("tables"))
def test_a_table_fills_every_column_and_counts_samples(case, draw, name):
    if name in shown("tables", case):
        (table,) = draw("tables", name, case)
        assert table.title
        rows = [row for block in table.blocks for row in block.rows]
        assert {len(row.entries) for row in rows} <= {len(table.columns)}
        assert sum(width for _, width in table.spanners) in (0, len(table.columns))
        assert table.values.empty or {"n", "n_failed"} <= {*table.values}
        if case == PLAIN:  # its notes list nothing long
            assert not [note for note in table.notes if len(note.split()) > MOST_WORDS]
        if len(result_sets.CASES[case].datasets) == 1:
            assert not [text for text in (*table.columns, *table.notes) if "Average" in text]


@for_each_case
@pytest.mark.parametrize("name", displays_in("figures"))
def test_a_figure_states_cell_and_n_and_stays_on_its_page(case, draw, name):
    if name in shown("figures", case):
        labels = result_sets.CASES[case].settings
        cell = {"model": labels.models["llama"], "dataset": labels.datasets["sst2"]}
        cell |= {"protocol": "dynamic routing"}
        named = [] if name == "tokens" else [cell[key] for key in displays_in("figures")[name].by]
        for figure in draw("figures", name, case):
            titles = [figure.get_suptitle(), *(panel.get_title() for panel in figure.axes)]
            counted = any("n = " in title for title in titles)
            assert counted or name in WITHOUT_N or not figure.axes, titles
            assert not figure.axes or all(label in figure.get_suptitle() for label in named)
            with theme():
                box, page = figure.get_tightbbox(), figure.bbox_inches
            assert min(box.x0, box.y0) > -PIXEL, box
            assert max(box.x1 - page.x1, box.y1 - page.y1) < PIXEL, (box, page)


@pytest.mark.parametrize("name", displays_in("figures"))
def test_one_column_figures_stay_on_their_page_without_overlaps(files, name):
    with page_width(ONE_COLUMN):
        figures = drawn_here("figures", name, MOST, files(MOST))
    for figure in figures:
        with theme():
            box, page = figure.get_tightbbox(), figure.bbox_inches
            parts = [panel.get_tightbbox() for panel in figure.axes]
            parts += [legend.get_window_extent() for legend in figure.legends]
            parts += [figure._suptitle.get_window_extent()] if figure._suptitle else []
        assert page.x1 * 25.4 < ONE_COLUMN + 1 or name in KEPT_WIDE
        assert min(box.x0, box.y0) > -PIXEL, box
        assert max(box.x1 - page.x1, box.y1 - page.y1) < PIXEL, (box, page)
        pairs = itertools.combinations([part.padded(-2) for part in parts], 2)
        assert not [pair for pair in pairs if pair[0].overlaps(pair[1])]


@pytest.mark.parametrize(
    ("case", "room", "name"), [(case, *one) for case, every in GOLDENS.items() for one in every]
)
def test_a_display_matches_its_golden(case, draw, room, name):
    text = {"tables": goldens.table_text, "figures": goldens.figure_text}[room]
    texts = [text(one) for one in draw(room, name, case)]
    goldens.compare("\n".join(texts), goldens.file(case, room, name))


@needs_latex
@for_each_case
def test_latex_tables_fit_their_page(case, draw, tmp_path):
    written = []
    for name in shown("tables", case):
        (table,) = draw("tables", name, case)
        written.append(tmp_path / f"{name}.tex")
        write(table, tmp_path / "table.csv", written[-1], tmp_path / "table.html")
    typeset(*written)


@pytest.mark.slow
@pytest.mark.parametrize(("room", "name"), EVERY)
def test_a_display_is_identical_in_every_process(drawn, room, name):
    for path, ending in itertools.product(paths(room, name), displays_in(room)[name].endings(room)):
        first, second = ((folder / room / f"{path}.{ending}").read_bytes() for folder in drawn)
        assert first == second, (path, ending)
        assert first
        if ending in ("html", "svg"):
            assert b"<q>" not in first, "labels must be escaped"


@pytest.mark.slow
@pytest.mark.parametrize("name", displays_in("figures"))
def test_no_figure_is_cut_at_an_edge(drawn, name):
    for path in paths("figures", name):
        ink = imread(drawn[0] / f"figures/{path}.png")[..., :3].min(axis=2) < 0.9
        edges = ink[0].any(), ink[-1].any(), ink[:, 0].any(), ink[:, -1].any()
        assert not any(edges), (path, edges)


@pytest.mark.parametrize(("room", "name"), EVERY)
def test_the_parsed_declaration_equals_the_imported_one(room, name):
    module = f"pisoft.{room}.{name}"
    import_module(module)
    described, function = DRAWN[module]
    assert displays_in(room)[name] == described
    assert function.__name__ == {"tables": "table", "figures": "plot"}[room]


@pytest.mark.parametrize(
    "more", [", by=KEYS", ", cells='all' if ROOM else 'permuted'", ", colour='red'"]
)
def test_an_unreadable_declaration_names_its_file(tmp_path, more):
    (tmp_path / "tables").mkdir()
    file = tmp_path / "tables/mine.py"
    file.write_text(DISPLAY.replace("{more}", more), encoding="utf-8")
    with pytest.raises(BenchmarkError, match=r"mine\.py: display\(…\) takes literals"):
        displays_in("tables", tmp_path)


def test_a_display_reads_all_shards_of_a_dataset():
    labels = {
        "models": {"m": "M"},
        "datasets": {"a": "A", "b": "B"},
        "methods": {"x": "X", "slow": "S"},
    }
    cuts = {
        name: {"m": {"a": None, "b": (10, size)}}
        for name, size in (("shards", 8), ("half_shards", 4), ("evaluation_shards", 2))
    }
    settings = display_settings(**labels, **cuts, in_half_shards=("slow",))
    described = Display(title="", by=("model",), reads=("attributions", "soft", "statistics"))
    patterns = {
        "attributions": "d/attributions/{model}/{method}/{part}.parquet",
        "soft": "d/soft/{model}/{method}/{part}.parquet",
        "statistics": "d/summary/statistics.parquet",
        "prompts": "d/prompts/{model}/{part}.parquet",
    }
    files = files_of(described, patterns, {"model": "m"}, settings)
    assert set(files) == {"attributions", "soft", "statistics"}, "only kinds that it reads"
    assert files["statistics"] == [Path("d/summary/statistics.parquet")]
    read = [str(file) for path in files["attributions"] for file in shards_of(path)]
    folder = "d/attributions/m"
    assert read == [
        *(f"{folder}/x/{part}.parquet" for part in ("a", "b/0-8", "b/8-10")),
        *(f"{folder}/slow/{part}.parquet" for part in ("a", "b/0-4", "b/4-8", "b/8-10")),
    ]
    assert files["soft"] == [
        Path(f"d/soft/m/{method}/{dataset}")
        for method in ("x", "slow")
        for dataset in ("a.parquet", "b.10-by-2")
    ]
