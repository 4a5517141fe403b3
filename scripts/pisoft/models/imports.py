"""Importing large libraries without garbage collection."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collection() -> Iterator[None]:
    """Pause garbage collection within the context, for imports.

    Transformers creates half a million permanent objects. Each time their number grows by a
    quarter, a collection would walk through all of them and find nothing.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
