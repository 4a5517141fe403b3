"""Results as files: written whole or not at all, and marked with the settings that made them."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pisoft.errors import BenchmarkError

MARKED = (".html", ".svg")  # a comment at their end names the settings; Parquet files hold them
TRAINING_REPORT = "training.json"  # of a tiny model; holds them, too


@contextmanager
def whole_files(settings: str, *paths: Path) -> Iterator[list[Path]]:
    """Yield temporary paths; what is written there becomes the files once the block has ended.

    Files that :data:`MARKED` names get the settings' hash at their end.

    Args:
        settings: the job's settings as JSON.
        paths: the files; missing folders are made.

    Raises:
        BenchmarkError: the disk refuses a file; there is none then, or the one from before.
    """
    try:
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=paths[0].parent, prefix=".") as folder:
            written = [Path(folder, f"{place}{path.suffix}") for place, path in enumerate(paths)]
            yield written
            for own, path in zip(written, paths, strict=True):
                if path.suffix in MARKED:
                    with own.open("a", encoding="utf-8") as file:
                        file.write(f"\n<!-- settings {settings_hash(settings)} -->\n")
            for own, path in zip(written, paths, strict=True):
                os.replace(own, path)
    except OSError as error:
        raise BenchmarkError(f"{paths[0]}: cannot be written: {error}") from error


def settings_hash(settings: str) -> str:
    """Return what equal settings have in common, given as JSON."""
    return hashlib.sha256(json.dumps(json.loads(settings)).encode()).hexdigest()
