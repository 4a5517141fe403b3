"""docs/explanation/structure.md lists the existing packages in import order."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "scripts/pisoft"
PAGE = (ROOT / "docs/explanation/structure.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRACTS = {contract["id"]: contract for contract in PROJECT["tool"]["importlinter"]["contracts"]}
FIX = "bring docs/explanation/structure.md up to date"
LOOSE_MODULES = 6  # beside the packages, at most


def lines_of_the_page() -> list[list[str]]:
    """Return the names in each line of the page's table."""
    table = PAGE[PAGE.index("| package |") :].split("\n\n")[0].splitlines()[2:]
    return [re.findall(r"`([^`]+)`", line.split("|")[1]) for line in table]


def test_every_package_and_module_is_named_once() -> None:
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert sorted(name for line in lines_of_the_page() for name in line) == sorted(
        modules | packages
    ), FIX
    assert len(modules) <= LOOSE_MODULES


def test_the_page_lists_packages_in_the_enforced_order() -> None:
    layers = CONTRACTS["layers"]["layers"]
    assert lines_of_the_page() == [re.split(r" [|:] ", layer) for layer in layers], FIX
    assert CONTRACTS["circles"]["ancestors"] == ["pisoft", "pisoft.**"], "at any depth"
