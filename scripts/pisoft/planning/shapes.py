"""The sizes of a model, without its weights and without the network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pisoft.config.models import HubModel, LocalModel, ModelShape, ModelSource, TrainedModel
from pisoft.config.validation import validate
from pisoft.errors import BenchmarkError


def model_shape(name: str, source: ModelSource) -> ModelShape:
    """Return a model's sizes.

    They are read from config.json, of the local folder or of the hub's local cache; those of a
    trained model follow from its settings, and `source.shape` stands in for a hub model that is
    not in the cache, and for a GGUF file.

    Raises:
        BenchmarkError: none of these is there, or config.json lacks a size.
    """
    if isinstance(source, TrainedModel):
        return _trained_shape(source)
    if isinstance(source, LocalModel):
        return _shape_of_file(Path(source.path) / "config.json")
    if isinstance(source, HubModel) and (cached := _cached_file(source)) is not None:
        return _shape_of_file(cached)
    if source.shape is not None:
        return source.shape
    if isinstance(source, HubModel):
        raise BenchmarkError(
            f"model '{name}': source.shape: not set, and the local cache of the hub has no "
            f"config.json of '{source.repository}' at revision '{source.revision}'; add the shape "
            "to the model's catalogue entry, or download the model first"
        )
    raise BenchmarkError(
        f"model '{name}': source.shape: not set; a plan needs that of {source.path}"
    )


def layer_parameters(shape: ModelShape) -> int:
    """Return the weights of one decoder layer that multiply its input; norms are left out."""
    return attention_parameters(shape) + feed_forward_parameters(shape)


def attention_parameters(shape: ModelShape) -> int:
    """Return the weights of a layer's query, key, value and output projections."""
    heads = 2 * shape.heads + 2 * shape.key_value_heads
    return heads * shape.head_size * shape.hidden_size


def feed_forward_parameters(shape: ModelShape) -> int:
    """Return the weights of a layer's gate, up and down projections."""
    return 3 * shape.hidden_size * shape.intermediate_size


def vocabulary_parameters(shape: ModelShape) -> int:
    """Return the weights of the output head."""
    return shape.vocabulary_size * shape.hidden_size


def _trained_shape(source: TrainedModel) -> ModelShape:
    """Return the sizes that :mod:`pisoft.embedded.models` gives a trained model."""
    return ModelShape(
        layers=source.layers,
        hidden_size=source.hidden_size,
        intermediate_size=2 * source.hidden_size,
        heads=source.heads,
        key_value_heads=source.key_value_heads,
        head_size=source.hidden_size // source.heads,
        vocabulary_size=source.vocabulary_size,
        tied_embeddings=True,
        context=source.context,
    )


def _cached_file(source: HubModel) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(source.repository, "config.json", revision=source.revision)
    return Path(found) if isinstance(found, str) else None


def _shape_of_file(path: Path) -> ModelShape:
    """Return the sizes that a config.json of transformers gives."""
    try:
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        heads, width = config.get("num_attention_heads"), config.get("hidden_size")
    except (OSError, ValueError, AttributeError) as error:
        raise BenchmarkError(f"{path}: is not a model's configuration: {error}") from error
    sizes = {
        "layers": config.get("num_hidden_layers"),
        "hidden_size": width,
        "intermediate_size": config.get("intermediate_size"),
        "heads": heads,
        "key_value_heads": config.get("num_key_value_heads") or heads,
        "head_size": config.get("head_dim") or (width and heads and width // heads),
        "vocabulary_size": config.get("vocab_size"),
        "tied_embeddings": config.get("tie_word_embeddings", False),
        "context": config.get("max_position_embeddings"),
    }
    return validate(ModelShape, sizes, str(path))
