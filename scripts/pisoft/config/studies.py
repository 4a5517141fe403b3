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
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from pisoft.config import naming
from pisoft.config.base import Selection, Strict, TokenWeights, check_selection
from pisoft.config.methods import LoadMethod, Method, MethodEntry, resolve_method
from pisoft.config.models import GgufModel, HubModel, ModelSource, TrainedModel
from pisoft.errors import BenchmarkError

# What tables call Grad-ELLM at the depth that the study selects, by token weighting.
SELECTED_METHODS: dict[TokenWeights, str] = {
    "loosened": "grad_ellm_selected",
    "original": "grad_ellm_original_selected",
}
SELECTED_LABELS = {
    weights: naming.grad_ellm(weights, "depth selected") for weights in SELECTED_METHODS
}


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


class StudyDepth(Strict):
    """What the study's summary has to know of Grad-ELLM at one depth, for one model."""

    name: str  # in paths, for example `grad_ellm-loosened-04`
    model: str
    token_weights: TokenWeights
    depth: int | None  # None: all layers of a model whose number of layers is not known yet
    all_layers: bool  # whether the depth is known to be all layers of the model
    candidate: bool  # may be selected
    fixed: bool  # is what the selected one is compared with


class StudyMethod(StudyDepth):
    """Grad-ELLM at one depth with one token weighting, for one model."""

    method: Method

    def shared(self, methods: Mapping[str, Method]) -> StudyMethod:
        """Return this method by the name of one of the model's that does the same, if one does.

        A job then computes both once.
        """
        same = (name for name, method in methods.items() if self._does_the_same(method))
        return self.model_copy(update={"name": next(same, self.name)})

    def _does_the_same(self, other: Method) -> bool:
        ours, theirs = dict(self.method.resolved), dict(other.resolved)
        if self.all_layers and theirs.get("layers") is None:
            ours["layers"] = None
            theirs["clip_layers"] = ours["clip_layers"]  # all layers are never more than there are
        return (self.method.file, ours) == (other.file, theirs)


def study_methods(
    study: LayerStudy,
    sources: Mapping[str, ModelSource],
    load_method: LoadMethod,
) -> tuple[StudyMethod, ...]:
    """Return every method of the study, ordered by model, token weighting and depth.

    Args:
        study: the study.
        sources: source of each of its models, by name.
        load_method: looks methods up.

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
                name=f"grad_ellm-{token_weights}-" + ("all" if depth is None else f"{depth:02d}"),
                model=model,
                token_weights=token_weights,
                depth=depth,
                all_layers=depth in (None, layers),
                candidate=depth in candidates,
                fixed=depth == fixed,
                method=_grad_ellm(depth, token_weights, load_method),
            )
            for token_weights in study.token_weights
            for depth in depths
        ]
    return tuple(methods)


def _grad_ellm(depth: int | None, token_weights: TokenWeights, load_method: LoadMethod) -> Method:
    options = {
        "layers": depth,
        "clip_layers": True,
        "token_weights": token_weights,
        "heads": "merged",
    }
    entry = MethodEntry(method="grad_ellm", options=options)
    return resolve_method("grad_ellm", entry, load_method, "layer_study")


def decoder_layers(source: ModelSource) -> int | None:
    """Return a model's number of decoder layers; None if only loading the model can tell.

    That of a hub model or a GGUF file is what its catalogue entry says, which the study's summary
    compares with the loaded model.

    Raises:
        BenchmarkError: a local model's config.json cannot be read.
    """
    if isinstance(source, TrainedModel):
        return source.layers
    if isinstance(source, HubModel | GgufModel):
        return source.layers
    path = Path(source.path) / "config.json"
    try:
        layers = json.loads(path.read_text(encoding="utf-8")).get("num_hidden_layers")
    except (OSError, ValueError, AttributeError) as error:
        raise BenchmarkError(f"{path}: is not a model's configuration: {error}") from error
    return layers if isinstance(layers, int) and layers > 0 else None


def _clipped(depth: int | None, layers: int | None) -> int | None:
    """Return a depth that the model has; None, all layers, stays if their number is not known."""
    return depth if layers is None else min(depth or layers, layers)
