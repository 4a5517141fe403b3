"""The number of weights of a model, without loading it, and their bytes in memory and on disk."""

from __future__ import annotations

import math
from pathlib import Path

from safetensors import SafetensorError, safe_open

from pisoft.config.jobs.hub import commit_file
from pisoft.config.models import (
    HubModel,
    LocalModel,
    ModelEntry,
    ModelSource,
    TrainedModel,
    UnigramMaskedModel,
)
from pisoft.datasets.hub import COPIES, WEIGHTS, read_commit
from pisoft.errors import BenchmarkError

HUB_FILE = 5e9  # bytes: where transformers cut the weights of most models on the hub
NF4_BYTES = 0.5 + 4 / 64  # 4 bits, and a float32 scale for every 64 weights
CARD = 80e9  # bytes of a data centre GPU
# Bytes of a token's 16-bit activations, for each channel of the model's width: of the layer at
# work, and of every layer until its backward pass. Measured with a model of Llama-3.1-8B's shape.
FORWARD_BYTES, GRADIENT_BYTES = 33, 34
NUMBER_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


def parameters_of(
    name: str, source: ModelSource | UnigramMaskedModel, results: Path | None = None
) -> float:
    """Return a model's number of weights, from its files, its settings or its catalogue entry.

    A unigram model counts as having none. The run's folder `results` may record the fetched commit
    of a hub model.

    Raises:
        BenchmarkError: a folder has no readable safetensors file, or neither the catalogue entry
            nor the hub's cache gives the number.
    """
    if isinstance(source, UnigramMaskedModel):
        return 0
    if isinstance(source, TrainedModel):
        return _trained_parameters(source)
    if isinstance(source, LocalModel):
        return _parameters_of_folder(Path(source.path))
    if source.parameters is not None:
        return source.parameters
    fetch = ""
    if isinstance(source, HubModel):
        if (folder := _fetched(source, results)) is not None:
            return _parameters_of_folder(folder)
        fetch = "`make fetch CONFIG=…` downloads the model and counts its weights; or "
    raise BenchmarkError(
        f"model '{name}': source.parameters: not set; {fetch}add the number of weights to the "
        "model's catalogue entry, such as `parameters: 8.0e+9`"
    )


def weight_bytes(parameters: float, dtype: str) -> float:
    """Return the bytes of a model's weights in memory; for quantised ones, of their files."""
    return parameters * NUMBER_BYTES[dtype]


def device_bytes(parameters: float, dtype: str, quantization: str) -> float:
    """Return the bytes of weights on the device; embeddings count as quantised."""
    return parameters * (NUMBER_BYTES[dtype] if quantization == "none" else NF4_BYTES)


def token_bytes(parameters: float, layers: int, dtype: str) -> tuple[float, float]:
    """Return the approximate bytes per token of a batch, without and with gradients.

    The width is derived for a Llama of this size, with 14 · width² weights per layer.
    """
    width = math.sqrt(parameters / layers / 14) * NUMBER_BYTES[dtype] / NUMBER_BYTES["bfloat16"]
    return FORWARD_BYTES * width, GRADIENT_BYTES * width * layers


def stored_bytes(parameters: float, entry: ModelEntry) -> float:
    """Return the bytes of the weight files that a model's jobs load."""
    quantization = entry.quantization if entry.is_quantised_once else "none"
    return device_bytes(parameters, entry.dtype, quantization)


def largest_file(source: ModelSource, weights: float) -> float:
    """Return the bytes of a model's largest weight file."""
    if isinstance(source, LocalModel):
        return max(file.stat().st_size for file in _weight_files(Path(source.path)))
    return min(weights, HUB_FILE) if isinstance(source, HubModel) else weights


def _trained_parameters(source: TrainedModel) -> int:
    """Return the number of weights of a Llama with tied embeddings, without norms."""
    width = source.hidden_size
    head_width = width * width // source.heads
    attention = 2 * (source.heads + source.key_value_heads) * head_width
    feed_forward = 3 * width * (2 * width)
    return source.layers * (attention + feed_forward) + source.vocabulary_size * width


def _fetched(source: HubModel, results: Path | None) -> Path | None:
    """Return the folder of a model in the hub's cache, or None."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    repository, revision = source.repository, source.revision
    record = commit_file((results or Path()) / "data", source)
    if record.is_file():
        revision = read_commit(record, repository, revision)
    try:
        folder = snapshot_download(
            repository,
            revision=revision,
            local_files_only=True,
            allow_patterns=[WEIGHTS],
            ignore_patterns=[*COPIES],
        )
        return Path(folder)
    except LocalEntryNotFoundError:
        return None


def _weight_files(folder: Path) -> list[Path]:
    files = sorted(folder.glob(WEIGHTS))
    if not files:
        raise BenchmarkError(f"{folder}: has no safetensors file to count weights in")
    return files


def _parameters_of_folder(folder: Path) -> int:
    total = 0
    for file in _weight_files(folder):
        try:
            with safe_open(file, framework="numpy") as tensors:
                shapes = [tensors.get_slice(name).get_shape() for name in tensors.offset_keys()]
            total += sum(map(math.prod, shapes))
        except (OSError, SafetensorError) as error:
            raise BenchmarkError(f"{file}: is not a safetensors file: {error}") from error
    return total
