"""Cells, which identify data files, and studies, the sets of cells that a run computes.

In paths, `@` precedes an operator or a variant; both are omitted where empty:
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

MARK = "@"  # not allowed in names
MARKED = ("operator", "variant")


class Cell(NamedTuple):
    """The names that identify one data file; keys that do not apply are empty."""

    protocol: str = ""  # attention routing, `dynamic` or `fixed`
    operator: str = ""  # ablation operator; empty: the run's `evaluation.operator`
    model: str = ""
    variant: str = ""  # model variant, a key of `Study.variants`; empty: the model itself
    method: str = ""
    dataset: str = ""

    @classmethod
    def from_path(cls, pattern: str, path: Path) -> Cell:
        """Parse the cell of a file from its path.

        The pattern has no extension: `soft/{protocol}{operator}/{model}/…`.
        """
        match = _expression(pattern).search(path.with_suffix("").as_posix())
        if match is None:
            raise ValueError(f"{path}: is not a path {pattern}")
        return cls(**unmarked(match.groupdict()))

    @property
    def keys(self) -> dict[str, str]:
        """The keys that apply."""
        return {key: value for key, value in self._asdict().items() if value}

    @property
    def wildcards(self) -> dict[str, str]:
        """All keys as written in paths."""
        keys = self._asdict()
        return keys | {key: MARK + keys[key] for key in MARKED if keys[key]}


def unmarked(wildcards: dict[str, str]) -> dict[str, str]:
    """Return the keys of a cell from the wildcards in its paths."""
    return {key: value.removeprefix(MARK) for key, value in wildcards.items()}


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    literal = re.escape(pattern).replace(r"\{", "{").replace(r"\}", "}")
    values = {key: rf"(?P<{key}>[^/{MARK}]+)" for key in Cell._fields}
    values |= {key: rf"(?P<{key}>(?:{MARK}[^/]+)?)" for key in MARKED}
    return re.compile(rf"(?:^|/){literal.format_map(values)}$")


class StudyDepth(Strict):
    """Grad-ELLM at one depth for one model, as described to the layer study's summary."""

    name: str  # in paths, for example `grad_ellm-loosened-04`
    model: str
    token_weights: TokenWeights
    depth: int | None  # None: all layers of a model whose number of layers is not known yet
    all_layers: bool  # the depth is known to be all layers of the model
    candidate: bool  # the study may select this depth
    fixed: bool  # the selected depth is compared with this one


@dataclass(frozen=True)
class Study:
    """The cells of one study, by names."""

    methods: dict[str, tuple[str, ...]]  # by model
    datasets: tuple[str, ...]
    operators: tuple[Ablation, ...] | None = None  # ablation operators other than the run's
    # By model and variant, the number of last layers that are re-initialised; None: trained on
    # shuffled labels. Variants are attributed but not evaluated.
    variants: dict[str, dict[str, int | None]] | None = None
    added: dict[str, Method] = field(default_factory=dict)  # methods only this study evaluates
    depths: tuple[StudyDepth, ...] = ()  # of the layer study


SHUFFLED_LABELS = "shuffled-labels"  # variant of a model
