"""Hash of the project's own code that a job's results depend on.

Snakemake compares a job's parameters with those of the run that made its files. With this hash
among them, an edit re-runs exactly the jobs it may change, independent of paths and time stamps.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from grimp import build_graph

from pisoft.errors import BenchmarkError, did_you_mean

PACKAGE = Path(__file__).parents[1]
SCRIPTS = PACKAGE.parent
# Edits of these modules cannot change a number: they read, check, write, log or word errors.
NEUTRAL = (
    "pisoft.store.schemas",
    "pisoft.workflow.commandline",
    "pisoft.config",
    "pisoft.store.parquet",
    "pisoft.errors",
    "pisoft.datasets.hub",
    "pisoft.models.device",
    "pisoft.progress",
)


@cache
def code_hash(script: str, *dependencies: str) -> str:
    """Return a hash of a script, the package modules that it imports, and further dependencies.

    Dependencies are modules that the script imports by name (`pisoft.tables.ranks`), and files that
    are not code (`scripts/pisoft/pages/templates/page.html.jinja`).

    Raises:
        BenchmarkError: no such module; the message names the nearest match in its package.
    """
    file = SCRIPTS / f"{script}.py"
    modules = {name for name in dependencies if name.startswith("pisoft.")}
    files = [SCRIPTS.parent / name for name in dependencies if name not in modules]
    for name in sorted(modules - _graph().modules):
        package = name.rpartition(".")[0]
        siblings = [module for module in _graph().modules if module.rpartition(".")[0] == package]
        raise BenchmarkError(f"code of {script}: no module '{name}'{did_you_mean(name, siblings)}")
    used = _with_imports(modules | _imported_modules(file))
    digest = hashlib.sha256()
    for path in [file, *map(_module_file, sorted(used)), *files]:
        name = path.relative_to(SCRIPTS.parent).as_posix()
        digest.update(name.encode() + b"\0" + _file_hash(path))
    return digest.hexdigest()[:16]


def _with_imports(modules: Iterable[str]) -> set[str]:
    """Return modules and their transitive imports, except neutral ones."""
    neutral = tuple(f"{name}." for name in NEUTRAL)
    reached, waiting = set(), set(modules)
    while waiting:
        module = waiting.pop()
        if not f"{module}.".startswith(neutral) and module not in reached:
            reached.add(module)
            waiting |= _graph().find_modules_directly_imported_by(module)
    return reached


@cache
def _imported_modules(script: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(script.read_bytes())):
        match node:
            case ast.Import(names=aliases):
                names |= {alias.name for alias in aliases}
            case ast.ImportFrom(module=str(module), names=aliases):
                names |= {module, *(f"{module}.{alias.name}" for alias in aliases)}
    return names & _graph().modules


def _module_file(module: str) -> Path:
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def _graph():  # type: ignore[no-untyped-def]
    return build_graph("pisoft", exclude_type_checking_imports=True, cache_dir=None)


@cache
def _file_hash(file: Path) -> bytes:
    return hashlib.sha256(file.read_bytes()).digest()
