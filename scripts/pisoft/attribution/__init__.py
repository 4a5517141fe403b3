"""Attribution methods: one file per method, found by scanning this folder.

A method's file is imported without torch, so that the workflow can read its label and options
while it parses; it imports torch inside the functions that need it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from pisoft.attribution.base import AttributionMethod, Context
from pisoft.errors import BenchmarkError, did_you_mean

_NO_METHODS = {
    *("__init__", "base", "engine", "external", "inseq_bridge"),
    *("flow", "masking", "modified_backward", "repetition"),
}


def available_methods() -> list[str]:
    """Return the names of all methods, which are the stems of their files."""
    files = Path(__file__).parent.glob("*.py")
    return sorted(file.stem for file in files if file.stem not in _NO_METHODS)


def load_method(name: str) -> type[AttributionMethod]:
    """Import one method by name.

    Raises:
        BenchmarkError: no such file (with the nearest match), or a file that does not define
            exactly one subclass of :class:`AttributionMethod`.
    """
    if name not in available_methods():
        raise BenchmarkError(
            f"unknown attribution method '{name}'" + did_you_mean(name, available_methods())
        )
    module = import_module(f"{__name__}.{name}")
    methods = [
        member
        for _, member in inspect.getmembers(module, inspect.isclass)
        if issubclass(member, AttributionMethod) and member.__module__ == module.__name__
    ]
    if len(methods) != 1:
        raise BenchmarkError(
            f"{module.__file__}: must define exactly one subclass of AttributionMethod, "
            f"found {[member.__name__ for member in methods]}"
        )
    return methods[0]


def method_without_models(
    name: str, options: Mapping[str, Any], token_budget: int
) -> AttributionMethod:
    """Return a method for cost estimates only, without the models that it needs.

    Raises:
        BenchmarkError: as :func:`load_method`.
    """
    method = load_method(name)
    return method(method.Options.model_validate(options), Context(0, token_budget))
