"""Loading a model's tokenizer, and its context, without its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pisoft.config.jobs.fields import LoadedModel
from pisoft.errors import BenchmarkError
from pisoft.models.imports import without_collection
from pisoft.models.repository import model_files, pretrained


def load_tokenizer(model: LoadedModel, folder: Path | None) -> Any:
    """Load a model's fast tokenizer of transformers, from the hub if `folder` is None.

    Raises:
        BenchmarkError: repository or folder is missing, private, broken or unreachable, or the
            tokenizer has no character offsets.
    """
    with without_collection():
        from transformers import AutoTokenizer

    tokenizer = pretrained(AutoTokenizer, model, model_files(model, folder))
    if not getattr(tokenizer, "is_fast", False):
        raise BenchmarkError(
            f"model '{model.name}': its tokenizer ({type(tokenizer).__name__}) gives no character "
            "offsets; a tokenizer.json is needed"
        )
    return tokenizer


def model_context(model: LoadedModel, folder: Path | None) -> int | None:
    """Return a model's maximum input length in tokens; None if not configured.

    Raises:
        BenchmarkError: as :func:`load_tokenizer`.
    """
    with without_collection():
        from transformers import AutoConfig

    config = pretrained(AutoConfig, model, model_files(model, folder)).get_text_config()
    return getattr(config, "max_position_embeddings", None)
