"""Slices of the configuration: exactly what one job depends on, and nothing else.

A rule passes its slice to its script as JSON with sorted keys. Snakemake re-runs a job when its
slice changes, so labels, resources and entries of other methods must not be part of it.

One file for each stage; its functions `NAME_slice(config, …)` make the slices from the
configuration and, by parameters of that name, from wildcards of the rule.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from importlib import import_module
from typing import Any


def slice_makers() -> dict[str, Callable[..., Any]]:
    """Return every function that makes a slice, by the slice's name."""
    modules = [
        import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)
    ]
    return {
        name.removesuffix("_slice"): make
        for module in modules
        for name, make in vars(module).items()
        if name.endswith("_slice") and make.__module__ == module.__name__
    }
