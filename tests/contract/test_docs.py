"""Targets, files, commands and settings named in docs, results and messages exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from snakemake.cli import get_argument_parser

from pisoft.attribution import available_methods, load_method
from pisoft.config.loading import ENTRIES
from pisoft.config.run_file import RunFile
from pisoft.config.validation import read_yaml
from pisoft.views.registry import ENDINGS, displays_in

ROOT = Path(__file__).parents[2]
OTHERS = (
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "config/README.md", "results/README.md"),
    "scripts/pisoft/pages/templates/texts.toml",
    "scripts/pisoft/tables/templates/notes.toml",
)
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (*sorted((ROOT / "docs").rglob("*.md")), *(ROOT / name for name in OTHERS))
}
ON_THE_PAPER = [f"docs/explanation/{n}.md" for n in ("the-paper", "what-the-paper-leaves-open")]
CATALOGUES = [read_yaml(path) for path in sorted((ROOT / "config/catalogue").glob("*.yaml"))]
TARGETS = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text("utf-8"), flags=re.M))
FOLDERS = r"(?:scripts|config|tests|tools|rules|docs|profiles|envs)/"
MADE_BY_READERS = re.compile(r"NAME|my_method|first\.yaml|partitions\.yaml")


def sections_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models in a type annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in getattr(annotation, "__args__", ()):
        yield from sections_in(part)


# Keys by the name before the dot: a section of run files or catalogue entries, or a method.
KEYS = {name: set(load_method(name).Options.model_fields) for name in available_methods()}
for model in (*ENTRIES.values(), RunFile):
    for name, field in model.model_fields.items():
        for section in sections_in(field.annotation):
            KEYS.setdefault(name, {"NAME"}).update(section.model_fields)


OPTIONS = {name for action in get_argument_parser()._actions for name in action.option_strings}
OPTIONS |= {"--cancel", "--wait"}  # of profiles/slurm/run
# Calls whose texts users read: errors, exits and warnings.
TELLS = re.compile(r"Error|exit|warning|info$")


def messages(file: Path) -> str:
    """Return the texts of a module's errors, warnings and constants, without inserted values."""
    texts = []
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Call) and TELLS.search(ast.unparse(node.func)):
            texts += map(ast.unparse, node.args)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            texts.append(str(node.value.value))
    return re.sub(r"{[^}]*}", "…", "\n".join(texts))


def missing(text: str) -> set[str]:
    """Return the names in a text that do not exist."""
    targets = set(re.findall(r"(?:^|`)make ([a-z-]+)", text, flags=re.M)) - TARGETS
    files = re.findall(rf"`({FOLDERS}[\w./-]+)`|\bpython ({FOLDERS}[\w/]+\.py)", text)
    named = {file or script for file, script in files}
    keys = set(re.findall(r"`(\w+)\.(\w+)(?:: [^`]*)?`", text))
    return {
        *targets,
        *(f for f in named if not (MADE_BY_READERS.search(f) or (ROOT / f).exists())),
        *(f"{of}.{key}" for of, key in keys if of in KEYS and key not in {*KEYS[of], "html", "py"}),
    }


@pytest.mark.parametrize("page", PAGES)
def test_every_name_on_a_page_exists(page: str) -> None:
    assert missing(PAGES[page]) == set()


def test_every_name_in_a_message_exists() -> None:
    texts = {str(file): messages(file) for file in (ROOT / "scripts").rglob("*.py")}
    every = "\n".join(texts.values())
    assert {"make fetch", "make export", "snakemake --touch"} <= set(
        re.findall(r"\w+ [\w-]+", every)
    )
    for file, text in texts.items():
        keys = re.sub(r"(?<![\w`./])(\w+\.\w+)(?![\w`(/])", r"`\1`", text)
        commands = " ".join(re.findall(r"`([^`\n]*)`", text))
        options = set(re.findall(r"(?<!\S)--[a-z-]+", commands))
        assert missing(keys) | (options - OPTIONS) == set(), file


def test_missing_names_are_reported() -> None:
    wrong = "make nothing\n`scripts/none.py` `evaluation.clmp` `ranking.no: 3` `grad_ellm.layer`"
    text = f"{wrong}\n    python scripts/gone.py `evaluation.clamp`"
    names = {"nothing", "scripts/none.py", "scripts/gone.py"}
    assert missing(text) == names | {"evaluation.clmp", "ranking.no", "grad_ellm.layer"}


def words(page: str) -> set[str]:
    """Return the code words in a page's tables, without values."""
    rows = [line for line in PAGES[page].splitlines() if line.startswith("|")]
    return {word.partition(":")[0] for row in rows for word in re.findall(r"`([^`]+)`", row)}


@pytest.mark.parametrize("page", ON_THE_PAPER)
def test_tables_on_the_paper_name_only_files_entries_and_keys(page: str) -> None:
    assert len(words(page)) > 15
    for word in words(page):
        section, _, key = word.partition(".")
        is_key = word in RunFile.model_fields or key in KEYS.get(section, ())
        assert is_key or (ROOT / word).is_file() or any(word in c for c in CATALOGUES), word


def test_every_table_and_figure_is_documented() -> None:
    page = PAGES["docs/how-to/read-the-results.md"]
    for room in ENDINGS:
        for name in displays_in(room):
            assert f"`{room}/{name}/`" in page or f"{name}.*`" in page, f"{room}/{name}"
