"""Cells, what one file of data is of, and studies, which cells a run computes.

Paths name an operator and a variant behind an `@`, and only where there is one:
`soft/dynamic@mean/llama/saliency/sst2`, `attributions/llama@reinit-4/saliency/sst2`.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from pisoft.config.base import Ablation

MARK = "@"  # no name has one
MARKED = ("operator", "variant")


class Cell(NamedTuple):
    """What one file of data is of, by names; a key that does not apply is empty."""

    protocol: str = ""  # routing of attention, `dynamic` or `fixed`
    operator: str = ""  # of ablation; empty: `evaluation.operator` of the run
    model: str = ""
    variant: str = ""  # of the model, a key of `Config.variants`; empty: the model itself
    method: str = ""
    dataset: str = ""

    @classmethod
    def of(cls, pattern: str, path: Path) -> Cell:
        """Return what a file is of, by where files of its kind lie.

        Args:
            pattern: of the path, without ending, such as `soft/{protocol}{operator}/{model}/…`.
            path: of the file.
        """
        match = _expression(pattern).search(path.with_suffix("").as_posix())
        if match is None:
            raise ValueError(f"{path}: is no path {pattern}")
        return cls(**unmarked(match.groupdict()))

    @property
    def keys(self) -> dict[str, str]:
        """Its keys that apply."""
        return {key: value for key, value in self._asdict().items() if value}

    @property
    def wildcards(self) -> dict[str, str]:
        """Its keys as they stand in paths."""
        keys = self._asdict()
        return keys | {key: MARK + keys[key] for key in MARKED if keys[key]}


def unmarked(wildcards: dict[str, str]) -> dict[str, str]:
    """Return keys of a cell from what stands in its paths."""
    return {key: value.removeprefix(MARK) for key, value in wildcards.items()}


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    """Return what the end of a path of this pattern matches."""
    literal = re.escape(pattern).replace(r"\{", "{").replace(r"\}", "}")
    values = {key: rf"(?P<{key}>[^/{MARK}]+)" for key in Cell._fields}
    values |= {key: rf"(?P<{key}>(?:{MARK}[^/]+)?)" for key in MARKED}
    return re.compile(rf"(?:^|/){literal.format_map(values)}$")


class Study(NamedTuple):
    """Which cells are computed for one purpose, by names."""

    methods: dict[str, tuple[str, ...]]  # by model
    datasets: tuple[str, ...]
    operators: tuple[Ablation, ...] | None = None  # of ablation, other than the run's
    # By model; methods are attributed on these, and not evaluated.
    variants: dict[str, tuple[str, ...]] | None = None


SHUFFLED_LABELS = "shuffled-labels"  # variant of a model
