"""Every environment says the same: pyproject.toml, requirements.lock and the stages' envs/."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"
METHODS = SCRIPTS / "pisoft" / "attribution"


def pins(lines: list[str]) -> dict[str, str]:
    """Return version by canonical name of `name==version` lines."""
    found: dict[str, str] = {}
    for line in lines:
        name, equals, version = line.partition("==")
        assert equals, f"'{line}' is not pinned by =="
        found[canonicalize_name(name.strip())] = version.strip()
    return found


def lock() -> dict[str, str]:
    return pins((ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines())


def environment(path: Path) -> dict[str, str]:
    """Return the pip pins of a conda environment."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return pins(next(item["pip"] for item in content["dependencies"] if isinstance(item, dict)))


def environments_of_jobs() -> dict[tuple[str, str], str]:
    """Return `envs/x.yaml` by script and, if it serves a room, module; read from the rules."""
    found, inherited = {}, {}
    for path in sorted((ROOT / "rules").glob("*.smk")):
        for rule in re.split(r"^(?=rule |use rule )", path.read_text("utf-8"), flags=re.M)[1:]:
            base, name = re.match(r"(?:use rule (\w+) as |rule )(\w+)", rule).groups()
            conda = re.search(r'conda:\s*"\.\./(envs/\w+\.yaml)"', rule)
            inherited[name] = conda[1] if conda else inherited[base]
            room, called = re.search(r'job\("(?:(\w+)/)?(\w+)"', rule).groups()
            verb = {"statistics": "summarise", "tables": "tabulate", "figures": "plot"}
            script = f"scripts/{verb[room]}_results.py" if room else f"scripts/{called}.py"
            module = f"scripts/pisoft/{room}/{called}.py" if room else script
            found[script, module] = inherited[name]
    return found


def module_file(name: str) -> Path | None:
    """Return the file of a project module, None for anything else."""
    base = SCRIPTS / Path(*name.split("."))
    candidates = (base.with_suffix(".py"), base / "__init__.py")
    return next((path for path in candidates if path.is_file()), None)


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield every module that is imported anywhere but for type checking."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None, "relative imports are not used here"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        else:
            yield from imports(node)


@cache
def imports_of(path: Path) -> frozenset[str]:
    return frozenset(imports(ast.parse(path.read_text(encoding="utf-8"))))


def third_party(script: Path) -> set[str]:
    """Return the distributions that a script reaches, through the project's modules too."""
    seen: set[Path] = set()
    todo = [script]
    if "pisoft.attribution" in imports_of(script):  # methods are imported by name, at run time
        todo += METHODS.glob("*.py")
    names: set[str] = set()
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        for name in imports_of(path):
            top = name.partition(".")[0]
            if top == "pisoft":
                parents = [name.rsplit(".", depth)[0] for depth in range(name.count(".") + 1)]
                todo += [found for part in parents if (found := module_file(part))]
            elif top not in sys.stdlib_module_names:
                names.add(top)
    return {distribution_of(name) for name in names}


def distribution_of(name: str) -> str:
    """Return the distribution that provides a top-level module."""
    providers = {canonicalize_name(provider) for provider in providers_of_modules()[name]}
    return canonicalize_name(name) if canonicalize_name(name) in providers else min(providers)


@cache
def providers_of_modules() -> Mapping[str, list[str]]:
    """Return the distributions that provide each top-level module; a slow look-up."""
    return packages_distributions()


def declared(extra: str | None = None) -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = project["optional-dependencies"][extra] if extra else project["dependencies"]
    return [Requirement(line) for line in lines]


def test_lock_names_torch_first_and_without_a_build_tag() -> None:
    first = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()[0]
    assert re.fullmatch(r"torch==\d+\.\d+\.\d+", first)


@pytest.mark.parametrize("extra", [None, "dev"])
def test_lock_satisfies_every_declared_dependency(extra: str | None) -> None:
    locked = lock()
    for requirement in declared(extra):
        version = locked.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not in requirements.lock: make lock"
        assert requirement.specifier.contains(version), f"{requirement} but locked {version}"


def test_lock_is_complete() -> None:
    locked = lock()
    for name in locked:
        for line in distribution(name).requires or []:
            requirement = Requirement(line)
            needed = canonicalize_name(requirement.name)
            if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
                continue
            if needed.startswith(("nvidia-", "cuda-")) or needed == "triton":
                continue  # torch pins them itself
            assert needed in locked, f"{name} needs {needed}, which is not locked: make lock"


def test_every_imported_package_is_declared() -> None:
    names = {canonicalize_name(requirement.name) for requirement in declared()}
    for path in sorted(SCRIPTS.rglob("*.py")):
        missing = third_party(path) - names
        assert not missing, f"{path.relative_to(ROOT)} needs {missing}, not in pyproject.toml"


@pytest.mark.parametrize("path", sorted((ROOT / "envs").glob("*.yaml")), ids=lambda path: path.stem)
def test_environment_pins_equal_the_lock(path: Path) -> None:
    found = environment(path)
    locked = lock()
    assert found == {name: locked.get(name) for name in found}, f"bring {path.name} up to date"


def test_every_environment_is_used() -> None:
    files = {f"envs/{path.name}" for path in (ROOT / "envs").glob("*.yaml")}
    assert set(environments_of_jobs().values()) == files


@pytest.mark.parametrize(
    ("files", "environment_file"), sorted(environments_of_jobs().items()), ids=str
)
def test_environment_holds_what_its_job_imports(
    files: tuple[str, str], environment_file: str
) -> None:
    needed = set().union(*(third_party(ROOT / file) for file in files))
    missing = needed - set(environment(ROOT / environment_file))
    assert not missing, f"{environment_file} lacks {sorted(missing)}, which {files} import"
