"""Tables, figures and pages: what they are made from, and how the report lists them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from pathlib import Path
from typing import Any

from snakemake.io import report

from pisoft.pages.groups import DOCS, ORDER, group_of, reading_index
from pisoft.store.schemas import FILES
from pisoft.views.registry import Display, displays_in

Cells = Callable[[str, str], list[str]]  # a pattern's files for the cells of a name
# The report sorts categories by name, so they are numbered.
CATEGORIES = {"pages": "1 Overview", "tables": "2 Tables", "figures": "3 Figures"}
LABELS = {"protocol": "routing", "part": "shown"}  # of wildcards, where they are not their names
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
    """Return the file of a page as the report lists it, with its caption of `rules/captions/`."""
    file, labels = f"captions/{Path(path).stem}.rst", {"page": title}
    return report(path, caption=file, category=CATEGORIES["pages"], labels=labels)


class Displays:
    """The `tables` or `figures` that a run has any of, in order of reading."""

    def __init__(self, room: str, data: Path, rules: Path, cells: Cells) -> None:
        self.room, self.data, self.rules, self._cells = room, data, rules, cells
        self.settings = {"tables": "display", "figures": "figure"}[room]
        in_order = dict(sorted(displays_in(room).items(), key=lambda one: reading_index(one[0])))
        self.paths = {name: self._paths_of(name, one) for name, one in in_order.items()}
        self.displays = {name: one for name, one in in_order.items() if self.paths[name]}

    def single(self) -> Mapping[str, Displays]:
        """Return each display by itself, by name."""
        every = {name: copy(self) for name in self.displays}
        for name, alone in every.items():
            alone.displays = {name: self.displays[name]}
        return every

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
        """Return the files of displays by their ending; the report lists those to look at."""
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
        """Return what the job reads, as KIND=PATTERN, and what it writes below which folder."""
        kinds = dict.fromkeys(kind for one in self.displays.values() for kind in one.reads)
        files = [f"{kind}={_pattern(self.data, kind)}" for kind in kinds]
        folder = str(self.data.parent / self.room)
        return {  # functions, as Snakemake would fill in braces, and its linter objects to folders
            "files": lambda wildcards: files,
            "folder": lambda wildcards: folder,
            "show": [path for name in self.displays for path in self.paths[name]],
        }

    def _paths_of(self, name: str, display: Display) -> list[str]:
        patterns = display.patterns(name)
        return [path for pattern in patterns for path in self._cells(pattern, display.cells)]

    def _reported(self, file: str, name: str, cell: Mapping[str, str]) -> Any:
        """Return a file of a display as the report lists it, in the front page's group.

        The report sorts groups by name, so they are numbered; its search lists the files of all
        together, so labels tell each from all others.
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
        """Return the captions, as files of the project."""
        captions = [f"captions/figures/{name}.rst" for name in self.displays]
        return [f"rules/{file}" for file in captions if (self.rules / file).is_file()]


def _pattern(data: Path | str, kind: str) -> str:
    return f"{data}/{FILES[kind].pattern}.parquet"
