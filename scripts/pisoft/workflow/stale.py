"""Results of other settings than a run has now, which would pass for up to date."""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Container, Iterable
from pathlib import Path
from typing import Any

from snakemake.exceptions import WorkflowError

from pisoft.errors import BenchmarkError
from pisoft.store.files import MARKED, TRAINING_REPORT, settings_hash
from pisoft.store.parquet import read_provenance

_MARK = re.compile(rb"<!-- settings ([0-9a-f]{64}) -->\s*\Z")
_MARK_LENGTH = 128  # bytes, at least
RECORDS = Path(".snakemake/metadata")


def made_with(path: Path) -> str | None:
    """Return the hash of the settings that a result says it was made with; None if it says none."""
    if path.suffix in MARKED:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _MARK_LENGTH))
            mark = _MARK.search(file.read())
        return mark[1].decode() if mark else None
    try:
        is_report = path.name == TRAINING_REPORT
        facts = json.loads(path.read_bytes()) if is_report else read_provenance(path)
        settings = facts.get("settings")
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


def stale_files(results: Path, rules: Iterable[Any], exempt: Container[str]) -> list[Path]:
    """Return a run's files that were made with other settings than their rules have now.

    Args:
        results: the run's folder.
        rules: Snakemake's; those of jobs have a params function `settings` of their wildcards.
        exempt: files to leave out.
    """
    makers = [rule for rule in rules if hasattr(rule.params, "settings")]
    stale = []
    for path in sorted(path for path in results.rglob("*.*") if str(path) not in exempt):
        if path.suffix not in (".parquet", *MARKED) and path.name != TRAINING_REPORT:
            continue
        for rule in makers:
            match = next(filter(None, (output.match(str(path)) for output in rule.output)), None)
            if match and made_with(path) != settings_hash(rule.params.settings(match.groupdict())):
                stale.append(path)
    return stale


def refuse_stale(stale: list[Path]) -> None:
    """Refuse results of other settings that would pass for up to date.

    Raises:
        WorkflowError: there are any.
    """
    if stale:
        others = f" and {len(stale) - 1} other results were" if len(stale) > 1 else " was"
        raise WorkflowError(
            f"{stale[0]}{others} made with other settings than the run has now, and Snakemake has "
            "no record of that: take the settings back, choose another name for the run, or add "
            "`--config delete_stale=true` to have them deleted and recomputed"
        )
