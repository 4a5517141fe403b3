"""Tables and figures: what each says of itself, read without importing it.

A display is a module of `tables/` or `figures/` with one function that
:func:`pisoft.views.view.display` decorates. The workflow may run where neither pandas nor
matplotlib is installed, so it reads the arguments of the decorator from the source
(:func:`displays_in`); jobs import the function (:func:`pisoft.views.view.drawing`).
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
    """What a table or a figure says of itself.

    Attributes:
        title: under which it is listed.
        reads: kinds of its files, keys of :data:`pisoft.store.schemas.FILES`.
        by: what there is one of it for.
        cells: of which combinations it is made, a study, or a name of `rules/cells.smk`.
        parts: several of it for each of these combinations, which `part` names.
        numbers: whether a figure has a CSV file beside it.
    """

    title: str
    reads: tuple[str, ...]
    by: tuple[str, ...] = ()
    cells: str = "main"
    parts: tuple[str, ...] = ()
    numbers: bool = False

    def patterns(self, name: str) -> list[str]:
        """Return where it lies below its folder, without ending: a pattern for each part."""
        path = "/".join((name, *(f"{{{key}}}" for key in self.by)))
        return [f"{path}/{part}" for part in self.parts] or [path]

    def cell(self, path: str) -> dict[str, str]:
        """Return what one of it shows, given by where it lies."""
        keys = (*self.by, "part") if self.parts else self.by
        return dict(zip(keys, path.split("/")[1:], strict=True))

    def endings(self, room: str) -> tuple[str, ...]:
        """Return the endings of its files, that of the one to look at last."""
        return (*(("csv",) if self.numbers else ()), *ENDINGS[room])


@cache  # every display of a process asks for it
def displays_in(room: str, package: Path = PACKAGE) -> dict[str, Display]:
    """Return the displays in `tables` or `figures` (`room`) by name, read from their source.

    Raises:
        BenchmarkError: an argument of the decorator is no literal, or not one of its arguments.
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
    """Return the files that one display is made from, by the kind of their rows.

    `patterns` are paths by kind of rows, with `{part}` for all shards of a dataset. `settings` name
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
