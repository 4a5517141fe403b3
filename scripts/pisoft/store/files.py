"""Atomic writing of files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pisoft.errors import BenchmarkError


@contextmanager
def whole_files(*paths: Path) -> Iterator[list[Path]]:
    """Yield temporary paths that replace the files when the block ends; missing folders are made.

    Raises:
        BenchmarkError: a file cannot be written; a previous file stays in place.
    """
    try:
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=paths[0].parent, prefix=".") as folder:
            written = [Path(folder, f"{index}{path.suffix}") for index, path in enumerate(paths)]
            yield written
            for temporary, path in zip(written, paths, strict=True):
                os.replace(temporary, path)
    except OSError as error:
        raise BenchmarkError(f"{paths[0]}: cannot be written: {error}") from error
