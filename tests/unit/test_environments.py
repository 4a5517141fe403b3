"""All environments agree: pyproject.toml, the lock, the stages' envs/ and the image."""

from __future__ import annotations

import ast
import re
import shlex
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

from helpers.workflow_rules import parsed_rules

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"
METHODS = SCRIPTS / "pisoft" / "attribution"


def pins(lines: list[str]) -> dict[str, str]:
    """Return version by canonical name of `name==version` lines."""
    parts = [line.partition("==") for line in lines]
    assert all(equals for _, equals, _ in parts), f"not all pinned by ==: {lines}"
    return {canonicalize_name(name.strip()): version.strip() for name, _, version in parts}


@cache
def locked_packages() -> tuple[tuple[Requirement, frozenset[str]], ...]:
    """Return every locked package with its hashes."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8").replace("\\\n", "")
    lines = [line.split("--hash=") for line in text.splitlines() if not line.startswith("#")]
    return tuple(
        (Requirement(line[0].strip()), frozenset(part.strip() for part in line[1:]))
        for line in lines
    )


def lock() -> dict[str, str]:
    """Return the version of every locked package, by name."""
    return pins([f"{package.name}{package.specifier}" for package, _ in locked_packages()])


def is_cuda_only(name: str) -> bool:
    """Return whether a package is needed only by torch's CUDA builds."""
    return name.startswith(("nvidia-", "cuda-")) or name == "triton"


def environment(path: Path) -> dict[str, str]:
    """Return the pip pins of a conda environment."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return pins(next(item["pip"] for item in content["dependencies"] if isinstance(item, dict)))


@cache
def environments_of_jobs() -> dict[tuple[str, str], str]:
    """Return `envs/x.yaml` by script and, if it serves a room, module; read from the rules."""
    files = {}
    for rule in parsed_rules().values():
        _, command = shlex.split(rule.params.command(None, None))
        script = f"scripts/{Path(command).name}"
        params = dict(rule.params.items())
        if script == "scripts/summarise_results.py":
            modules = [f"statistics/{params['name']}"]
        else:
            room = {"tabulate_results": "tables", "plot_results": "figures"}.get(Path(script).stem)
            modules = [f"{room}/{path.split('/')[0]}" for path in params["show"]] if room else []
        for module in [f"scripts/pisoft/{name}.py" for name in modules] or [script]:
            files[script, module] = f"envs/{Path(str(rule.conda_env)).name}"
    return files


@cache
def module_file(name: str) -> Path | None:
    """Return the file of a project module, None for anything else."""
    base = SCRIPTS / Path(*name.split("."))
    candidates = (base.with_suffix(".py"), base / "__init__.py")
    return next((path for path in candidates if path.is_file()), None)


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield every imported module, except imports for type checking."""
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
    """Return the distributions that a script imports, directly or through the project's modules."""
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
                todo += filter(None, map(module_file, parents))
            elif (beside := SCRIPTS / f"{top}.py").is_file():
                todo.append(beside)
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


def test_every_locked_package_has_the_hashes_of_its_files_and_is_locked_once() -> None:
    for package, hashes in locked_packages():
        assert hashes, f"{package} has no hash"
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", one) for one in hashes), package
        if package.name in ("numpy", "torch"):
            assert len(hashes) > 10, "other platforms as well"
    names = [package.name for package, _ in locked_packages()]
    assert len(names) == len(set(names))
    assert re.fullmatch(r"\d+\.\d+\.\d+", lock()["torch"]), "without a build tag"


def test_cuda_is_locked_only_for_linux() -> None:
    packages = [package for package, _ in locked_packages() if is_cuda_only(package.name)]
    assert len(packages) > 10
    for package in packages:
        assert package.marker is not None
        assert not package.marker.evaluate({"sys_platform": "darwin"}), package


@pytest.mark.parametrize("extra", [None, "dev"])
def test_lock_satisfies_every_declared_dependency(extra: str | None) -> None:
    locked = lock()
    for requirement in declared(extra):
        version = locked.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not in requirements.lock: make lock"
        assert requirement.specifier.contains(version), f"{requirement} but locked {version}"


def test_lock_is_complete() -> None:
    locked = lock()
    here = [p.name for p, _ in locked_packages() if p.marker is None or p.marker.evaluate()]
    for name in here:
        if is_cuda_only(name):
            continue  # not installed with a CPU build
        for line in distribution(name).requires or []:
            requirement = Requirement(line)
            needed = canonicalize_name(requirement.name)
            if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
                continue
            if is_cuda_only(needed) or needed == "pip":
                continue  # each build of torch pins its own; the environment includes pip
            assert needed in locked, f"{name} needs {needed}, which is not locked: make lock"


def test_every_imported_package_is_declared() -> None:
    names = {canonicalize_name(requirement.name) for requirement in declared()}
    for path in sorted(SCRIPTS.rglob("*.py")):
        missing = third_party(path) - names
        assert not missing, f"{path.relative_to(ROOT)} needs {missing}, not in pyproject.toml"


def test_every_declared_package_is_imported() -> None:
    files = [*SCRIPTS.rglob("*.py"), *(ROOT / "rules").glob("*.smk"), ROOT / "Snakefile"]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    imported = set(re.findall(r"^ *(?:import|from) ([A-Za-z_]\w*)", text, flags=re.M))
    used = {distribution_of(name) for name in imported if name in providers_of_modules()}
    by_others = {"accelerate", "bitsandbytes", "gguf", "safetensors", "scikit-learn"}
    names = {canonicalize_name(requirement.name) for requirement in declared()}
    assert names - used <= by_others


@pytest.mark.parametrize("path", sorted((ROOT / "envs").glob("*.yaml")), ids=lambda path: path.stem)
def test_environment_pins_equal_the_lock(path: Path) -> None:
    outdated = environment(path).items() - lock().items()
    assert not outdated, f"bring {path.name} up to date"


def test_every_environment_is_used() -> None:
    files = {f"envs/{path.name}" for path in (ROOT / "envs").glob("*.yaml")}
    assert set(environments_of_jobs().values()) == files


def test_each_environment_holds_its_jobs_imports() -> None:
    for files, environment_file in environments_of_jobs().items():
        needed = set().union(*(third_party(ROOT / file) for file in files))
        missing = needed - set(environment(ROOT / environment_file))
        assert not missing, f"{environment_file} lacks {sorted(missing)}, which {files} import"


def test_the_image_uses_the_lock_and_the_stages_python() -> None:
    text = (ROOT / "envs" / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "")
    steps = [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line[:1].isupper()]
    python = re.fullmatch(r"python:([\d.]+)-slim-\w+", dict(steps)["FROM"])[1]
    for path in (ROOT / "envs").glob("*.yaml"):
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert f"python={python}" in content["dependencies"], path.name
    (copied,) = (what.split()[:-1] for step, what in steps if step == "COPY")
    assert set(copied) == {"Makefile", "pyproject.toml", "requirements.lock"}
    ignored = (ROOT / "envs" / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert {line[1:] for line in ignored if line.startswith("!")} == set(copied)
    (run_step,) = (what for step, what in steps if step == "RUN" and "make" in what.split("&&")[0])
    assert run_step.endswith('make env GPU="$GPU"')
    assert [what for step, what in steps if step == "USER"][-1] != "root"


def test_the_oldest_python_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    oldest = project["tool"]["uv"]["pip"]["python-version"]
    assert project["project"]["requires-python"] == f">={oldest}"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert set(re.findall(r"version_info < \(([\d, ]+)\)", makefile)) == {oldest.replace(".", ", ")}
    for name in ("Makefile", "README.md", "CONTRIBUTING.md", "docs/tutorial/first-run.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert {*re.findall(r"Python ([\d.]+) or newer", text)} == {oldest}, name
