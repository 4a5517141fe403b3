"""Models for use from Python: from a folder, from the hub, or already loaded by transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import torch
from transformers import PreTrainedModel

from pisoft.config.base import is_repository
from pisoft.config.jobs.fields import LoadedModel, loaded_model
from pisoft.config.models import ModelEntry
from pisoft.config.validation import validate
from pisoft.errors import BenchmarkError, in_one_line, nearest_path
from pisoft.models.loading import load_model, wrapped_model
from pisoft.models.masked import MaskedLanguageModel, load_masked_model
from pisoft.models.model import LanguageModel

AnyModel: TypeAlias = LanguageModel | PreTrainedModel | str | Path
"""A model that :func:`load` returned, or what it takes."""


@in_one_line
def load(
    source: AnyModel,
    tokenizer: Any = None,
    *,
    revision: str | None = None,
    dtype: str | torch.dtype | None = None,
    quantization: str | None = None,
    device: str | torch.device | None = None,
) -> LanguageModel:
    """Load a model, or prepare one that transformers has loaded.

    A model of transformers keeps its identity, dtype and device. It is frozen, switched to
    evaluation mode, and gets an attention implementation with probes.

    Args:
        source: folder; if there is no such folder, `owner/name` on the Hugging Face hub; or a
            causal language model of transformers.
        tokenizer: fast tokenizer of a model of transformers.
        revision: branch, tag or commit on the hub; by default `main`.
        dtype: `float32` (default), `bfloat16`, `float16` or `float64`.
        quantization: `none` (default) or `nf4` (4-bit weights).
        device: `auto` (default), `cpu` or `cuda`.

    Raises:
        BenchmarkError: the model cannot be found or read, is not supported, or lacks its tokenizer;
            or an argument does not apply to such a model.
    """
    choices = {"revision": revision, "dtype": dtype, "quantization": quantization, "device": device}
    options = {
        name: str(value).removeprefix("torch.")
        for name, value in choices.items()
        if value is not None
    }
    if options and isinstance(source, LanguageModel | PreTrainedModel):
        raise BenchmarkError(
            f"{', '.join(options)}: not allowed for a model that is loaded already"
        )
    if tokenizer is not None and not isinstance(source, PreTrainedModel):
        raise BenchmarkError(
            "tokenizer: only a model of transformers takes one; any other has its own, got "
            f"{type(tokenizer).__name__}"
        )
    if isinstance(source, LanguageModel):
        return source
    if isinstance(source, PreTrainedModel):
        if not getattr(tokenizer, "is_fast", False):
            raise BenchmarkError(
                "tokenizer: a model of transformers needs its fast tokenizer, got "
                f"{type(tokenizer).__name__}"
            )
        return wrapped_model(source, tokenizer)
    resources = {"gpu": int(options.get("device") == "cuda")}
    return load_model(*_located(source, **options, resources=resources))


@in_one_line
def load_masked(source: str | Path, *, revision: str | None = None) -> MaskedLanguageModel:
    """Load a masked language model for methods that replace tokens, onto the CPU.

    Args:
        source: folder, or `owner/name` on the hub, such as `FacebookAI/roberta-base`.
        revision: branch, tag or commit on the hub; by default `main`.

    Raises:
        BenchmarkError: the model cannot be found or read, or is not a masked language model.
    """
    options = {} if revision is None else {"revision": revision}
    return load_masked_model(*_located(source, device="cpu", **options), torch.device("cpu"))


def _located(source: Any, **options: Any) -> tuple[LoadedModel, Path | None]:
    """Return the settings of a model to load, and its folder, if it is local."""
    if not isinstance(source, str | Path):
        raise BenchmarkError(
            "model: expected a folder, a name on the hub or a model of transformers, got "
            f"{type(source).__name__}"
        )
    folder = Path(source) if Path(source).is_dir() else None
    if folder is None and not is_repository(str(source)):
        raise BenchmarkError(
            f"model '{source}': no such folder, and no name on the hub, which is `owner/name`"
            f"{nearest_path(source)}"
        )
    location = {"kind": "hub", "repository": str(source)}
    if folder is not None:
        location = {"kind": "local", "path": str(source)}
    if "revision" in options:
        location["revision"] = options.pop("revision")
    entry = {"label": str(source), "source": location, **options}
    return loaded_model(str(source), validate(ModelEntry, entry, f"model '{source}'")), folder
