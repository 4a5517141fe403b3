"""Loading a model: dtype, device, revision, 4-bit weights; safetensors only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from pisoft.errors import BenchmarkError
from pisoft.lm.attention import ATTENTION_NAME
from pisoft.lm.device import choose_device
from pisoft.lm.model import LanguageModel
from pisoft.lm.tokenizer import explain_loading_error
from pisoft.settings import ModelSlice


def load_model(settings: ModelSlice, folder: Path | None) -> LanguageModel:
    """Load a model for attribution and evaluation.

    Args:
        settings: which model, in which type, on which device.
        folder: where local or trained weights lie; None loads from the hub.

    Raises:
        BenchmarkError: the model cannot be found, read, or followed, or the device is missing.
    """
    device = choose_device(settings.device)
    source = str(folder) if folder is not None else settings.repository
    options: dict[str, Any] = {} if folder is not None else {"revision": settings.revision}
    try:
        network = AutoModelForCausalLM.from_pretrained(
            source,
            dtype=getattr(torch, settings.dtype),
            attn_implementation=ATTENTION_NAME,
            use_safetensors=True,
            trust_remote_code=False,
            quantization_config=_quantization(settings),
            device_map={"": device},
            **options,
        )
    except (OSError, ValueError) as error:
        raise explain_loading_error(error, settings, folder) from error
    if not network._supports_attention_backend:
        raise BenchmarkError(
            f"model '{settings.name}': class {type(network).__name__} does not use the attention "
            "interface of transformers, which the attention probe needs"
        )
    return LanguageModel(network, settings.name)


def model_facts(model: LanguageModel) -> dict[str, Any]:
    """Return provenance of a loaded model: its hub commit (None if local) and its device."""
    from pisoft.lm.device import device_name

    return {
        "model_commit": getattr(model.network.config, "_commit_hash", None),
        "device": device_name(model.device),
    }


def _quantization(settings: ModelSlice) -> Any:
    if settings.quantization == "none":
        return None
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type=settings.quantization,
        bnb_4bit_compute_dtype=getattr(torch, settings.dtype),
    )
