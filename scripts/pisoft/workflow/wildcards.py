"""Regular expressions that hold wildcards to the names of a run."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pisoft.config.resolved import Config


def one_of(names: Iterable[str]) -> str:
    """Return the constraint of a wildcard that has only these values; without any, it has none."""
    return "|".join(map(re.escape, names)) or "(?!)"


def models_of(config: Config, kind: str) -> str:
    """Return the constraint of a wildcard that is a model with a source of this kind."""
    return one_of(name for name, entry in config.models.items() if entry.source.kind == kind)


def part_constraint(config: Config) -> str:
    """Return the constraint of a job's part: its dataset, or a shard of it, `sst2/0-128`."""
    return "|".join(
        re.escape(name) + (r"/\d+-\d+" if entry.shard_size is not None else "")
        for name, entry in config.datasets.items()
    )
