"""Joining files that hold a cell's samples in parts; :mod:`pisoft.config.parts` cuts them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from pisoft.contracts import read_provenance, read_table
from pisoft.errors import BenchmarkError

# What is known of the whole where parts differ, by name of the fact; else it is a list in words.
WHOLE: Mapping[str, Callable[[Sequence[Any]], Any]] = {
    "forwards": sum,
    "tokens": sum,
    "peak_memory_mb": max,
    "peak_device_memory_mb": max,
    "token_budget_used": min,
}
OWN = ("kind", "settings", "inputs")  # of the file that holds the parts
COMMON = "settings_of_shards"  # those that all of them have


def joined(shards: Sequence[Path], kind: str) -> tuple[pa.Table, dict[str, Any]]:
    """Return the rows of all shards, in their order, and what is known of how they were made.

    Raises:
        BenchmarkError: a shard cannot be read, or a sample is in two of them.
    """
    tables = [read_table(shard, kind) for shard in shards]
    seen: dict[str, Path] = {}
    for shard, table in zip(shards, tables, strict=True):
        for sample in table.column("sample_id").unique().to_pylist():
            if sample in seen:
                raise BenchmarkError(
                    f"{shard}: sample '{sample}' is in {seen[sample]}, too; delete both and run "
                    "the workflow again"
                )
            seen[sample] = shard
    origins = [read_provenance(shard) for shard in shards]
    facts = [{name: f for name, f in origin.items() if name not in OWN} for origin in origins]
    return pa.concat_tables(tables), {
        **_of_all(facts),
        COMMON: _common([origin.get("settings", {}) for origin in origins]),
    }


def settings_of(origin: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings that a file's rows were made with, from its provenance."""
    found: Mapping[str, Any] = origin.get(COMMON, origin["settings"])
    return found


def _common(settings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what all settings agree in."""
    first, *others = settings
    return {
        name: value
        for name, value in first.items()
        if all(name in own and own[name] == value for own in others)
    }


def _of_all(facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one fact of each name."""
    found = {}
    for name in dict.fromkeys(name for own in facts for name in own):
        values = [own.get(name) for own in facts]
        known = [value for value in values if value is not None]
        if name in WHOLE:
            found[name] = WHOLE[name](known) if known else None
        elif known and isinstance(known[0], dict):
            found[name] = _of_all(known)
        else:
            different = list(dict.fromkeys(values))
            found[name] = different[0] if len(different) == 1 else ", ".join(map(str, different))
    return found
