"""Results that code edits make stale, in a tiny project and in this one."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
import shutil

import pytest

from helpers.fresh_python import run_code
from pisoft.errors import BenchmarkError
from pisoft.workflow.code_hash import NEUTRAL, PACKAGE, SCRIPTS, code_hash

SCRIPT = """\
import pisoft.plain
from pisoft import whole
from pisoft.direct import work
from pisoft.room.member import value
{neutral}

def main():
    from pisoft.inside import late
"""
MODULES = {
    "direct": """\
from typing import TYPE_CHECKING
from pisoft.through import further
if TYPE_CHECKING:
    from pisoft.typed import Thing
def work():
    from .local import found
""",
    "through": "import pisoft.end\n",
    "shown": "from pisoft.below import part\n",
    **dict.fromkeys(
        ("plain", "whole", "room/__init__", "room/member", "inside", "local", "end", "below",
         "typed", "unrelated", "room/other", "configuring"),
        "",
    ),
}  # fmt: skip
TEMPLATE = "scripts/pisoft/room/page.jinja"
HASH = (
    "from pisoft.workflow.code_hash import code_hash; "
    f"print(code_hash('job', 'pisoft.shown', {TEMPLATE!r}))"
)


@pytest.fixture
def project(tmp_path):
    """A script that imports near-empty modules of a package and names a module and a file."""
    folder = tmp_path / "project"
    package = folder / "scripts/pisoft"
    imports = "\n".join(f"import {name}" for name in NEUTRAL)
    write(folder / "scripts/job.py", SCRIPT.format(neutral=imports))
    neutral = [name.removeprefix("pisoft.").replace(".", "/") for name in NEUTRAL]
    rooms = [f"{room}__init__" for room in ("", "models/", "store/", "workflow/", "datasets/")]
    for name, text in (MODULES | dict.fromkeys((*rooms, *neutral), "")).items():
        write(package / f"{name}.py", text)
    write(folder / TEMPLATE, "")
    for name in ("workflow/code_hash", "errors"):
        shutil.copy(PACKAGE / f"{name}.py", package / f"{name}.py")
    return folder


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def edit(path):
    path.write_text(path.read_text(encoding="utf-8") + "\n# edited\n", encoding="utf-8")


def hash_of(folder, code=HASH):
    """Return the hash of the script of a project, from a process that sees this project only."""
    finished = run_code(code, scripts=folder / "scripts")
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip()


USED = (
    "job.py",
    *(f"pisoft/{name}.py" for name in ("direct", "plain", "whole", "room/member")),
    *(f"pisoft/{name}.py" for name in ("through", "end")),  # end: through others
    "pisoft/inside.py",  # inside a function of the script
    "pisoft/local.py",  # inside a function of a module
    "pisoft/shown.py",  # that the script imports by its name
    "pisoft/below.py",
    "pisoft/room/page.jinja",
)


def test_edits_of_used_modules_and_files_change_the_hash(project):
    hashes = [hash_of(project, HASH.replace("shown", "through")), hash_of(project)]
    assert hashes[0] != hashes[1]
    for name in USED:
        edit(project / "scripts" / name)
        hashes.append(hash_of(project))
        assert re.fullmatch("[0-9a-f]{16}", hashes[-1])
        assert hashes[-1] not in hashes[:-1], name


def test_other_edits_do_not_change_the_hash(project):
    before = hash_of(project)
    for name in ("unrelated", "room/other", "typed"):
        edit(project / f"scripts/pisoft/{name}.py")
    write(project / "scripts/pisoft/new.py", "")
    write(project / "scripts/other.py", "")
    assert hash_of(project) == before, "not used"
    for name in NEUTRAL:
        edit(project / f"scripts/{name.replace('.', '/')}.py")
    assert hash_of(project) == before, "neutral"
    path = project / "scripts/pisoft/end.py"
    text = path.read_text()
    edit(path)
    path.write_text(text)
    moved = project.rename(project.with_name("elsewhere"))
    for path in moved.rglob("*.py"):
        os.utime(path, (0, 0))
    assert hash_of(moved) == before, "reverted, moved and touched"


def test_neutral_modules_decide_no_number_of_a_result():
    """Results must not use a numeric constant, or a function that returns one, from there."""
    inside = tuple(f"{name}." for name in NEUTRAL)
    deciding = set()
    for path in SCRIPTS.rglob("*.py"):
        module = ".".join(path.relative_to(SCRIPTS).with_suffix("").parts)
        without_results = "pisoft.cost.", "pisoft.workflow.", "pisoft.api."
        if f"{module}.".startswith((*inside, *without_results)):
            continue
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(inside):
                names = vars(importlib.import_module(node.module))
                deciding |= {alias.name for alias in node.names if _is_number(names[alias.name])}
    # Results record the token budget, and depend on it only by rounding.
    assert deciding == {"token_budget"}, "move it into the package that computes with it"


def _is_number(thing):
    """Return whether a module member is a number, contains one, or returns one."""
    if inspect.isfunction(thing):
        return thing.__annotations__["return"] in ("bool", "int", "float")
    if isinstance(thing, dict):
        return any(map(_is_number, thing.values()))
    if type(thing) in (tuple, list, set, frozenset):
        return any(map(_is_number, thing))
    return isinstance(thing, int | float)


def test_an_unknown_module_is_named_with_its_nearest_match():
    with pytest.raises(
        BenchmarkError,
        match=r"no module 'pisoft\.tables\.rank'; did you mean 'pisoft\.tables\.ranks'",
    ):
        code_hash("tabulate_results", "pisoft.tables.rank")


def test_hashes_of_this_project_do_not_depend_on_its_folder(root, tmp_path):
    shutil.copytree(
        root / "scripts", tmp_path / "scripts", ignore=shutil.ignore_patterns("__pycache__")
    )
    names = sorted(path.stem for path in (root / "scripts").glob("*.py"))
    hashes = [code_hash(name) for name in names]
    assert len(set(hashes)) == len(names)
    code = f"from pisoft.workflow.code_hash import code_hash; print(*map(code_hash, {names}))"
    assert hash_of(tmp_path, code).split() == hashes
