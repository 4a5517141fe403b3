"""Cells, what one file of data is of, and studies, which cells a run computes.

Paths name an operator and a variant behind an `@`, and only where there is one:
`soft/dynamic@mean/llama/saliency/sst2`, `attributions/llama@reinit-4/saliency/sst2`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from pisoft.config.base import Ablation, Strict, TokenWeights
from pisoft.config.methods import Method

MARK = "@"  # no name has one
MARKED = ("operator", "variant")


class Cell(NamedTuple):
    """What one file of data is of, by names; a key that does not apply is empty."""

    protocol: str = ""  # routing of attention, `dynamic` or `fixed`
    operator: str = ""  # of ablation; empty: `evaluation.operator` of the run
    model: str = ""
    variant: str = ""  # of the model, as `Study.variants` names it; empty: the model itself
    method: str = ""
    dataset: str = ""

    @classmethod
    def of(cls, pattern: str, path: Path) -> Cell:
        """Return what a file is of, by where files of its kind lie.

        Such a pattern, without ending, is `soft/{protocol}{operator}/{model}/…`.
        """
        match = _expression(pattern).search(path.with_suffix("").as_posix())
        if match is None:
            raise ValueError(f"{path}: is not a path {pattern}")
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
    literal = re.escape(pattern).replace(r"\{", "{").replace(r"\}", "}")
    values = {key: rf"(?P<{key}>[^/{MARK}]+)" for key in Cell._fields}
    values |= {key: rf"(?P<{key}>(?:{MARK}[^/]+)?)" for key in MARKED}
    return re.compile(rf"(?:^|/){literal.format_map(values)}$")


class StudyDepth(Strict):
    """What the layer study's summary has to know of Grad-ELLM at one depth, for one model."""

    name: str  # in paths, for example `grad_ellm-loosened-04`
    model: str
    token_weights: TokenWeights
    depth: int | None  # None: all layers of a model whose number of layers is not known yet
    all_layers: bool  # whether the depth is known to be all layers of the model
    candidate: bool  # may be selected
    fixed: bool  # is what the selected one is compared with


@dataclass(frozen=True)
class Study:
    """Which cells are computed for one purpose, by names."""

    methods: dict[str, tuple[str, ...]]  # by model
    datasets: tuple[str, ...]
    operators: tuple[Ablation, ...] | None = None  # of ablation, other than the run's
    # By model, how many of the last layers each variant has reinitialised; None: it is trained on
    # shuffled labels. Methods are attributed on variants, and not evaluated.
    variants: dict[str, dict[str, int | None]] | None = None
    added: dict[str, Method] = field(default_factory=dict)  # methods that only this one evaluates
    depths: tuple[StudyDepth, ...] = ()  # of the layer study


SHUFFLED_LABELS = "shuffled-labels"  # variant of a model
