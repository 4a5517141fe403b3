"""Models for use from Python: from a folder, from the hub, or loaded before by transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import torch
from transformers import PreTrainedModel

from pisoft.config.base import is_repository
from pisoft.config.jobs.fields import LoadedModel, loaded_model
from pisoft.config.models import ModelEntry
from pisoft.config.validation import validate
from pisoft.errors import BenchmarkError, in_one_line
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
    revision: str = "main",
    dtype: str = "float32",
    quantization: str = "none",
    device: str = "auto",
) -> LanguageModel:
    """Load a model, or prepare one that transformers has loaded.

    The latter stays the same object: it is frozen, put into evaluation mode, and gets the attention
    implementation that methods look into.

    Args:
        source: folder; if there is no such folder, `owner/name` on the Hugging Face hub; or a
            causal language model of transformers.
        tokenizer: of such a model; it must be a fast one.
        revision: branch, tag or commit on the hub.
        dtype: `float32`, `bfloat16`, `float16` or `float64`.
        quantization: `none` or `nf4` (4-bit weights).
        device: `auto`, `cpu` or `cuda`.

    Raises:
        BenchmarkError: the model cannot be found, read, or followed, or lacks its tokenizer.
    """
    if isinstance(source, LanguageModel):
        return source
    if isinstance(source, PreTrainedModel):
        if not getattr(tokenizer, "is_fast", False):
            raise BenchmarkError(
                "tokenizer: a model of transformers needs its fast tokenizer, got "
                f"{type(tokenizer).__name__}"
            )
        return wrapped_model(source, tokenizer)
    if not isinstance(source, str | Path):
        raise BenchmarkError(
            "model: expected a folder, a name on the hub or a model of transformers, got "
            f"{type(source).__name__}"
        )
    resources = {"gpu": int(device == "cuda")}
    options = {"dtype": dtype, "quantization": quantization, "device": device}
    return load_model(*_located(source, revision, **options, resources=resources))


@in_one_line
def load_masked(source: str | Path, *, revision: str = "main") -> MaskedLanguageModel:
    """Load a masked language model for methods that replace tokens, onto the CPU.

    Args:
        source: folder, or `owner/name` on the hub, such as `FacebookAI/roberta-base`.
        revision: branch, tag or commit on the hub.

    Raises:
        BenchmarkError: the model cannot be found or read, or predicts no masked tokens.
    """
    named, folder = _located(source, revision, device="cpu")
    return load_masked_model(named, folder, torch.device("cpu"))


def _located(source: str | Path, revision: str, **entry: Any) -> tuple[LoadedModel, Path | None]:
    """Return what names a model that is to be loaded, and its folder if it has one."""
    folder = Path(source) if Path(source).is_dir() else None
    if folder is None and not is_repository(str(source)):
        raise BenchmarkError(
            f"model '{source}': no such folder, and no name on the hub, which is `owner/name`"
        )
    hub = {"kind": "hub", "repository": str(source), "revision": revision}
    place = {"kind": "local", "path": str(source)} if folder else hub
    entry |= {"label": str(source), "source": place}
    return loaded_model(str(source), validate(ModelEntry, entry, f"model '{source}'")), folder
