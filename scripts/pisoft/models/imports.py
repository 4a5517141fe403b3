"""Importing large libraries without looking for garbage among them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collection() -> Iterator[None]:
    """Pause Python's garbage collection, for imports.

    Transformers defines half a million objects, all of which stay: each time their number has
    grown by a quarter, a collection walks through all of them and finds nothing.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
