"""Grad-ELLM at the depths of the layer study.

Depths are clipped to a model's number of decoder layers. Where that number is known without
loading the model, depths that clip to the same number are evaluated once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import chain, product
from pathlib import Path

from pisoft.config.cells import Study, StudyDepth
from pisoft.config.methods import LoadMethod, Method, MethodEntry, resolve_method
from pisoft.config.models import MOST_LAYERS, LocalModel, ModelSource
from pisoft.config.resolved import Config
from pisoft.config.studies import LayerStudy
from pisoft.errors import BenchmarkError


def layer_study(
    load_method: LoadMethod, config: Config, section: LayerStudy, part: Study, where: str
) -> dict[str, Study]:
    """Return the layer study of part of a run; see :func:`study_depths`."""
    depths = {}
    for model, names in part.methods.items():
        methods = {name: config.methods[name] for name in names}
        source = config.models[model].source
        depths[model] = study_depths(section, model, source, methods, load_method)
    all_depths = [*chain.from_iterable(depths.values())]
    study = Study(
        {model: tuple(depth.name for depth, _ in pairs) for model, pairs in depths.items()},
        part.datasets,
        added={depth.name: method for depth, method in all_depths if method is not None},
        depths=tuple(depth for depth, _ in all_depths),
    )
    return {"layer_study": study}


def study_depths(
    study: LayerStudy,
    model: str,
    source: ModelSource,
    methods: Mapping[str, Method],
    load_method: LoadMethod,
) -> list[tuple[StudyDepth, Method | None]]:
    """Return the depths of a model in the study, ordered by token weighting and depth.

    A depth that equals one of the model's methods takes its name and comes without a method: one
    job computes both.

    Raises:
        BenchmarkError: a local model's config.json cannot be read.
    """
    layers = decoder_layers(source)
    candidates = {_clipped(depth, layers) for depth in study.depths}
    fixed = _clipped(study.fixed_depth, layers)
    depths = sorted(candidates | {fixed}, key=lambda depth: (depth is None, depth))
    depths_with_methods = []
    for weights, depth in product(study.token_weights, depths):
        options = {
            "layers": depth,
            "clip_layers": True,
            "token_weights": weights,
            "heads": "merged",
        }
        entry = MethodEntry(method="grad_ellm", options=options)
        method = resolve_method("grad_ellm", entry, load_method, "label", "layer_study")
        all_layers = depth in (None, layers)
        equal = next((n for n, other in methods.items() if _equal(method, other, all_layers)), None)
        study_depth = StudyDepth(
            name=equal or f"grad_ellm-{weights}-" + ("all" if depth is None else f"{depth:02d}"),
            model=model,
            token_weights=weights,
            depth=depth,
            all_layers=all_layers,
            candidate=depth in candidates,
            fixed=depth == fixed,
        )
        depths_with_methods.append((study_depth, None if equal else method))
    return depths_with_methods


def _equal(method: Method, other: Method, all_layers: bool) -> bool:
    """Return whether a method of the study equals another; `all_layers`: it sums all layers."""
    ours, theirs = dict(method.resolved), dict(other.resolved)
    if all_layers and theirs.get("layers") is None:
        ours["layers"] = None
        theirs["clip_layers"] = ours["clip_layers"]  # all layers need no clipping
    return (method.file, ours, method.target) == (other.file, theirs, other.target)


def decoder_layers(source: ModelSource) -> int | None:
    """Return a model's number of decoder layers, or None if it is unknown before loading.

    Hub models and GGUF files state it in their catalogue entry; the study's summary checks it
    against the loaded model.

    Raises:
        BenchmarkError: a local model's config.json cannot be read, or states too many layers.
    """
    if not isinstance(source, LocalModel):
        return source.layers
    path = Path(source.path) / "config.json"
    try:
        layers = json.loads(path.read_text(encoding="utf-8")).get("num_hidden_layers")
    except (OSError, ValueError, AttributeError) as error:
        raise BenchmarkError(f"{path}: is not a model's configuration: {error}") from error
    if isinstance(layers, int) and layers > MOST_LAYERS:
        raise BenchmarkError(
            f"{path}: num_hidden_layers: {layers} is not allowed; allowed are up to {MOST_LAYERS}"
        )
    return layers if isinstance(layers, int) and layers > 0 else None


def _clipped(depth: int | None, layers: int | None) -> int | None:
    """Clip a depth to the number of layers, if known; None means all layers."""
    return depth if layers is None else min(depth or layers, layers)
