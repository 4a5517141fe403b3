"""Descriptions of tables and figures, read from their source.

A display is a module of `tables/` or `figures/` with one function decorated by
:func:`pisoft.views.view.display`. The workflow may run without pandas and matplotlib, so it reads
the arguments of the decorator from the source (:func:`displays_in`); jobs import the function
(:func:`pisoft.views.view.drawing`).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from string import Formatter

from pisoft.config.jobs.displays import DisplayJob
from pisoft.errors import BenchmarkError
from pisoft.store.shards import cell_path

PACKAGE = Path(__file__).parents[1]
ENDINGS = {"tables": ("csv", "tex", "html"), "figures": ("pdf", "png", "svg")}  # last: to look at


@dataclass(frozen=True)
class Display:
    """The description of a table or figure.

    Attributes:
        title: title in lists.
        reads: kinds of its input files, keys of :data:`pisoft.store.schemas.FILES`.
        by: keys of which each combination has its own table or figure.
        cells: which combinations exist: a study, or a name of `rules/cells.smk`.
        parts: names of the parts, if a combination has several tables or figures.
        numbers: whether a figure has a CSV file beside it.
    """

    title: str
    reads: tuple[str, ...]
    by: tuple[str, ...] = ()
    cells: str = "main"
    parts: tuple[str, ...] = ()
    numbers: bool = False

    def patterns(self, name: str) -> list[str]:
        """Return the paths below its folder, without suffix: a pattern for each part."""
        path = "/".join((name, *(f"{{{key}}}" for key in self.by)))
        return [f"{path}/{part}" for part in self.parts] or [path]

    def cell(self, path: str) -> dict[str, str]:
        """Return the cell that a path shows."""
        keys = (*self.by, "part") if self.parts else self.by
        return dict(zip(keys, path.split("/")[1:], strict=True))

    def endings(self, room: str) -> tuple[str, ...]:
        """Return the suffixes of its files; the last is the one to look at."""
        return (*(("csv",) if self.numbers else ()), *ENDINGS[room])


@cache  # every display of a process asks for it
def displays_in(room: str, package: Path = PACKAGE) -> dict[str, Display]:
    """Return the displays in `tables` or `figures` (`room`) by name, read from their source.

    Raises:
        BenchmarkError: an argument of the decorator is unknown or not a literal.
    """
    displays = {}
    for file in sorted((package / room).glob("*.py")):
        for function in ast.parse(file.read_bytes()).body:
            for call in getattr(function, "decorator_list", ()):
                if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "display":
                    try:
                        arguments = {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
                        displays[file.stem] = Display(**arguments)
                    except (TypeError, ValueError) as error:
                        raise BenchmarkError(
                            f"{file}: display(…) takes literals, by their names: {error}"
                        ) from None
    return displays


def files_of(
    display: Display, patterns: Mapping[str, str], cell: Mapping[str, str], settings: DisplayJob
) -> dict[str, list[Path]]:
    """Return the input files of one display, by kind of rows.

    `patterns` are paths by kind of rows, with `{part}` for all shards of a dataset. `settings` give
    the shards, and the methods and datasets that the `cell` does not fix.
    """
    every = settings.every(cell)
    cell = {"operator": "", "variant": "", **cell}
    files: dict[str, list[Path]] = {}
    for kind in (kind for kind in patterns if kind in display.reads):
        keys = [key for _, key, _, _ in Formatter().parse(patterns[kind]) if key]
        names = ["dataset" if key == "part" else key for key in keys]
        files[kind] = []
        for choice in product(*([cell[name]] if name in cell else every[name] for name in names)):
            wildcards = dict(zip(keys, choice, strict=True))
            path = Path(patterns[kind].format(**wildcards))
            cut = settings.cut(kind, wildcards) if "part" in wildcards else None
            files[kind].append(Path(cell_path(str(path.parent), path.stem, cut)))
    return files
