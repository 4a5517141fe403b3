"""Studies of a run: methods that are evaluated like any other, apart from the main tables.

The layer study evaluates Grad-ELLM at several depths (paper, appendix Layer Aggregation Analysis).
Depths are clipped to a model's number of decoder layers. Where that number is known without
loading the model, depths that clip to the same number are evaluated once.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator

from pisoft.catalogue import (
    HubModel,
    LocalModel,
    MethodEntry,
    Selection,
    Strict,
    TrainedModel,
    check_selection,
)
from pisoft.errors import BenchmarkError

TokenWeights = Literal["loosened", "original"]


class LayerStudy(Strict):
    """Grad-ELLM at several depths; one is selected on samples that are not reported."""

    depths: tuple[int, ...] = Field(
        (1, 4, 8, 16, 32),
        min_length=1,
        description="Decoder layers that are summed, counted from the last, increasing; clipped "
        "to the model's number of layers.",
    )
    token_weights: Annotated[tuple[TokenWeights, ...], AfterValidator(check_selection)] = Field(
        ("loosened", "original"), description="Token weightings of Grad-ELLM, each at every depth."
    )
    development_share: float = Field(
        0.25,
        gt=0,
        lt=1,
        description="Share of samples that select the depth; the rest is reported.",
    )
    fixed_depth: int | None = Field(
        None, gt=0, description="Depth to compare the selected one with; null: all layers."
    )
    models: Selection = Field("all", description="Models of the run, or `all` of them.")
    datasets: Selection = Field("all", description="Datasets of the run, or `all` of them.")

    @field_validator("depths")
    @classmethod
    def _positive_and_increasing(cls, depths: tuple[int, ...]) -> tuple[int, ...]:
        if depths[0] < 1 or any(b <= a for a, b in itertools.pairwise(depths)):
            raise ValueError("depths must be greater than 0 and increase")
        return depths


class StudyMethod(Strict):
    """Grad-ELLM at one depth with one token weighting, for one model."""

    model: str
    token_weights: TokenWeights
    depth: int | None  # None: all layers of a model whose number of layers is not known yet
    candidate: bool  # may be selected
    fixed: bool  # is what the selected one is compared with

    @property
    def name(self) -> str:
        """The method's name in paths, for example `grad_ellm-loosened-04`."""
        depth = "all" if self.depth is None else f"{self.depth:02d}"
        return f"grad_ellm-{self.token_weights}-{depth}"

    @property
    def entry(self) -> MethodEntry:
        """What the catalogue would hold for it."""
        options = {
            "layers": self.depth,
            "clip_layers": True,
            "token_weights": self.token_weights,
            "heads": "merged",
        }
        return MethodEntry(method="grad_ellm", options=options)


def study_methods(
    study: LayerStudy, sources: Mapping[str, HubModel | LocalModel | TrainedModel]
) -> tuple[StudyMethod, ...]:
    """Return every method of the study, ordered by model, token weighting and depth.

    Args:
        study: the study.
        sources: source of each of its models, by name.

    Raises:
        BenchmarkError: a local model's config.json cannot be read.
    """
    methods = []
    for model, source in sources.items():
        layers = decoder_layers(source)
        candidates = {_clipped(depth, layers) for depth in study.depths}
        fixed = _clipped(study.fixed_depth, layers)
        depths = sorted(candidates | {fixed}, key=lambda depth: (depth is None, depth))
        methods += [
            StudyMethod(
                model=model,
                token_weights=token_weights,
                depth=depth,
                candidate=depth in candidates,
                fixed=depth == fixed,
            )
            for token_weights in study.token_weights
            for depth in depths
        ]
    return tuple(methods)


def decoder_layers(source: HubModel | LocalModel | TrainedModel) -> int | None:
    """Return a model's number of decoder layers; None if only loading the model can tell.

    Raises:
        BenchmarkError: a local model's config.json cannot be read.
    """
    if isinstance(source, TrainedModel):
        return source.layers
    if isinstance(source, HubModel):
        return None
    path = Path(source.path) / "config.json"
    try:
        layers = json.loads(path.read_text(encoding="utf-8")).get("num_hidden_layers")
    except (OSError, ValueError, AttributeError) as error:
        raise BenchmarkError(f"{path}: is not a model's configuration: {error}") from error
    return layers if isinstance(layers, int) and layers > 0 else None


def _clipped(depth: int | None, layers: int | None) -> int | None:
    """Return a depth that the model has; None, all layers, stays if their number is not known."""
    return depth if layers is None else min(depth or layers, layers)
