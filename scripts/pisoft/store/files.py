"""Results as files: written whole or not at all, and marked with the settings that made them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from base64 import urlsafe_b64decode
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pisoft.errors import BenchmarkError

MARKED = (".html", ".svg")  # a comment at their end names the settings; Parquet files hold them
TRAINING_REPORT = "training.json"  # of a tiny model; holds them, too
_MARK = re.compile(rb"<!-- settings ([0-9a-f]{64}) -->\s*\Z")
_MARK_LENGTH = 128  # bytes, at least
RECORDS = Path(".snakemake/metadata")


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


def made_with(path: Path) -> str | None:
    """Return the hash of the settings that a result says it was made with; None if it says none."""
    if path.suffix in MARKED:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _MARK_LENGTH))
            found = _MARK.search(file.read())
        return found[1].decode() if found else None
    try:
        if path.name == TRAINING_REPORT:
            said = json.loads(path.read_bytes())
        else:
            from pisoft.store.parquet import read_provenance

            said = read_provenance(path)
        settings = said.get("settings")
    except (BenchmarkError, ValueError, AttributeError):
        return None
    return None if settings is None else settings_hash(json.dumps(settings))


def recorded(folder: Path = RECORDS) -> set[str]:
    """Return the files that Snakemake has a record of: what they were made with, and from what."""
    # Names are paths in base64; those too long for a name are cut into folders that begin with @.
    names = (
        "".join(part.removeprefix("@") for part in path.relative_to(folder).parts)
        for path in folder.rglob("*")
        if path.is_file()
    )
    return {urlsafe_b64decode(name).decode() for name in names}


def stale_files(results: Path, rules: Iterable[Any], known: Container[str]) -> list[Path]:
    """Return a run's files that were made with other settings than their rules have now.

    Args:
        results: the run's folder.
        rules: Snakemake's; those of jobs have a params function `settings` of their wildcards.
        known: files to leave out.
    """
    found = [
        path
        for path in results.rglob("*.*")
        if path.suffix in (".parquet", *MARKED) or path.name == TRAINING_REPORT
    ]
    makers = [rule for rule in rules if hasattr(rule.params, "settings")]
    stale = []
    for path in sorted(path for path in found if str(path) not in known):
        for rule in makers:
            matches = (output.match(str(path)) for output in rule.output)
            match = next(filter(None, matches), None)
            if match and made_with(path) != settings_hash(rule.params.settings(match.groupdict())):
                stale.append(path)
    return stale
