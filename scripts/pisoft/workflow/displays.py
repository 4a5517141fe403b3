"""Tables, figures and pages: their inputs and outputs, and their listing in the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from pathlib import Path
from typing import Any

from snakemake.io import report

from pisoft.pages.groups import DOCS, ORDER, group_of, reading_index
from pisoft.store.schemas import FILES
from pisoft.views.registry import Display, displays_in

Cells = Callable[[str, str], list[str]]  # from a pattern and the name of cells to their files
# The report sorts categories by name, so they are numbered.
CATEGORIES = {"pages": "1 Overview", "tables": "2 Tables", "figures": "3 Figures"}
LABELS = {"protocol": "routing", "part": "shown"}  # of wildcards, if other than their names
TABLE_TEMPLATES = tuple(
    f"scripts/pisoft/tables/templates/{name}"
    for name in (
        "common.css",
        "parts.html.jinja",
        "table.html.jinja",
        "table.tex.jinja",
        "notes.toml",
    )
)
TEMPLATES = "scripts/pisoft/pages/templates"
PAGE_TEMPLATES = (
    *TABLE_TEMPLATES,
    *(f"{TEMPLATES}/{name}" for name in ("page.html.jinja", "page.tex.jinja", "texts.toml")),
)
ROOT = Path(__file__).parents[3]
INDEX_TEMPLATES = (
    *PAGE_TEMPLATES,
    f"{TEMPLATES}/docs.html.jinja",
    *(f"docs/{page}" for page in DOCS),
    *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/assets/how-to-read/**/*.svg")),
)
EXPLORER_TEMPLATES = (
    *TABLE_TEMPLATES[:2],
    *(f"{TEMPLATES}/explorer.{end}" for end in ("html.jinja", "css", "js")),
)


def reported_page(path: str, title: str) -> Any:
    """Return the file of a page, marked for the report with its caption from `rules/captions/`."""
    file, labels = f"captions/{Path(path).stem}.rst", {"page": title}
    return report(path, caption=file, category=CATEGORIES["pages"], labels=labels)


class Displays:
    """The non-empty `tables` or `figures` of a run, in reading order."""

    def __init__(self, room: str, data: Path, rules: Path, cells: Cells) -> None:
        self.room, self.data, self.rules, self._cells = room, data, rules, cells
        self.settings = {"tables": "display", "figures": "figure"}[room]
        in_order = dict(sorted(displays_in(room).items(), key=lambda item: reading_index(item[0])))
        self.paths = {name: self._paths_of(name, display) for name, display in in_order.items()}
        self.displays = {name: display for name, display in in_order.items() if self.paths[name]}

    def single(self) -> Mapping[str, Displays]:
        """Return each display as a collection of one, by name."""
        collections = {name: copy(self) for name in self.displays}
        for name, collection in collections.items():
            collection.displays = {name: self.displays[name]}
        return collections

    def titles(self) -> dict[str, str]:
        """Return the title of each page, by its path."""
        return {
            f"<results>/{self.room}/{path}.html": display.title
            for name, display in self.displays.items()
            for path in self.paths[name]
        }

    def inputs(self) -> dict[str, list[str]]:
        """Return the files that displays read, by the kind of their rows."""
        inputs: dict[str, dict[str, None]] = {}
        for display in self.displays.values():
            for kind in display.reads:
                files = self._cells(_pattern("<data>", kind), display.cells)
                inputs.setdefault(kind, {}).update(dict.fromkeys(files))
        return {kind: [*files] for kind, files in inputs.items()}

    def outputs(self) -> dict[str, list[Any]]:
        """Return the files of displays by extension; the last of each display is for the report."""
        outputs: dict[str, list[Any]] = {}
        for name, display in self.displays.items():
            for path in self.paths[name]:
                for ending in display.endings(self.room):
                    outputs.setdefault(ending, []).append(f"<results>/{self.room}/{path}.{ending}")
                outputs[ending][-1] = self._reported(outputs[ending][-1], name, display.cell(path))
        return outputs

    def code(self) -> list[str]:
        """Return the modules of the displays."""
        return [f"pisoft.{self.room}.{name}" for name in self.displays]

    def parameters(self) -> dict[str, Any]:
        """Return the job's input patterns as KIND=PATTERN, its output folder and paths in it."""
        displays = self.displays.values()
        kinds = dict.fromkeys(kind for display in displays for kind in display.reads)
        files = [f"{kind}={_pattern(self.data, kind)}" for kind in kinds]
        folder = str(self.data.parent / self.room)
        return {  # functions: Snakemake would fill in braces, and its linter objects to folders
            "files": lambda wildcards: files,
            "folder": lambda wildcards: folder,
            "show": [path for name in self.displays for path in self.paths[name]],
        }

    def _paths_of(self, name: str, display: Display) -> list[str]:
        patterns = display.patterns(name)
        return [path for pattern in patterns for path in self._cells(pattern, display.cells)]

    def _reported(self, file: str, name: str, cell: Mapping[str, str]) -> Any:
        """Return a file of a display, marked for the report in its group of the front page.

        The report sorts groups by name, so they are numbered. Its search lists the files of all
        groups together, so labels are unique.
        """
        caption, group = f"captions/{self.room}/{name}.rst", group_of(name)
        return report(
            file,
            caption=caption if (self.rules / caption).is_file() else None,
            category=CATEGORIES[self.room],
            subcategory=f"{ORDER.index(group) + 1} {group}",
            labels={
                self.room.removesuffix("s"): self.displays[name].title,
                **{LABELS.get(key, key): value for key, value in cell.items()},
            },
        )


class FigurePages(Displays):
    """The pages that show figures with their captions and data."""

    def inputs(self) -> dict[str, list[str]]:
        """Return the figures."""
        return {"figures": [path.replace(".html", ".svg") for path in self.titles()]}

    def outputs(self) -> dict[str, list[Any]]:
        """Return the pages, which the report does not list: it shows the figures."""
        return {"html": [*self.titles()]}

    def code(self) -> list[str]:
        """Return the caption files, relative to the project."""
        captions = [f"captions/figures/{name}.rst" for name in self.displays]
        return [f"rules/{file}" for file in captions if (self.rules / file).is_file()]


def _pattern(data: Path | str, kind: str) -> str:
    return f"{data}/{FILES[kind].pattern}.parquet"
