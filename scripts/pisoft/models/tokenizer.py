"""Loading tokenizers and what is known of a model before its weights are loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pisoft.config.jobs import LoadedModel
from pisoft.errors import BenchmarkError
from pisoft.models.imports import without_collection
from pisoft.models.repository import explain_loading_error, model_files


def load_tokenizer(model: LoadedModel, folder: Path | None) -> Any:
    """Load a model's tokenizer.

    Args:
        model: which model.
        folder: where a local or trained model lies; None loads from the hub.

    Returns:
        A fast tokenizer (`transformers.PreTrainedTokenizerBase` backed by `tokenizers`).

    Raises:
        BenchmarkError: repository or folder is absent, closed, broken or out of reach, or the
            tokenizer gives no character offsets.
    """
    with without_collection():
        from transformers import AutoTokenizer

    source = model_files(model, folder)
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            source, trust_remote_code=False, local_files_only=True
        )
    except Exception as error:  # the libraries below raise dozens of classes, some undocumented
        raise explain_loading_error(error, model, source) from error
    if not getattr(tokenizer, "is_fast", False):
        raise BenchmarkError(
            f"model '{model.name}': its tokenizer ({type(tokenizer).__name__}) gives no character "
            "offsets; a tokenizer.json is needed"
        )
    return tokenizer


def model_context(model: LoadedModel, folder: Path | None) -> int | None:
    """Return the longest sequence a model can read, in tokens; None if its config does not say.

    Raises:
        BenchmarkError: as :func:`load_tokenizer`.
    """
    with without_collection():
        from transformers import AutoConfig

    source = model_files(model, folder)
    try:
        config = AutoConfig.from_pretrained(source, trust_remote_code=False, local_files_only=True)
    except Exception as error:
        raise explain_loading_error(error, model, source) from error
    return getattr(config.get_text_config(), "max_position_embeddings", None)
