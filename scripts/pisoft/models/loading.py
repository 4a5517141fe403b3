"""Loading a model: dtype, device, revision, 4-bit weights; safetensors only."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from pisoft.config.jobs.fields import LoadedModel
from pisoft.errors import BenchmarkError
from pisoft.models.attention import ATTENTION_NAME
from pisoft.models.device import choose_device, device_name, peak_memory
from pisoft.models.model import LanguageModel, ModelOutline
from pisoft.models.precision import allowed_rounding, pin_precision
from pisoft.models.repository import (
    commit_of,
    loading_from,
    model_files,
    pretrained,
    pretrained_network,
)
from pisoft.models.tokenizer import load_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def load_model(
    settings: LoadedModel, folder: Path | None, gpus: int | None = None
) -> LanguageModel:
    """Load a model for attribution and evaluation.

    Args:
        settings: the model, its dtype and its device.
        folder: of local or trained weights; None loads from the hub.
        gpus: number of GPUs of the job; see :func:`pisoft.models.device.choose_device`.

    Raises:
        BenchmarkError: the model is missing, unreadable or unsupported, or the device is missing.
    """
    from transformers import AutoModelForCausalLM

    pin_precision()
    load = partial(
        pretrained_network,
        AutoModelForCausalLM,
        settings,
        folder,
        # The default kernel of experts does not support float64.
        experts_implementation="eager" if settings.dtype == "float64" else None,
        quantization_config=_quantization(settings),
        device_map={"": choose_device(settings.device, gpus)},
    )
    try:
        network, commit = load(attn_implementation=ATTENTION_NAME)
    except BenchmarkError as error:
        if not isinstance(error.__cause__, KeyError) or error.__cause__.args != (ATTENTION_NAME,):
            raise
        network, commit = load(attn_implementation="eager")  # the only one of its class
    if settings.quantization != "none":
        keep_differentiable(network)
    # A branch may move before the tokenizer is loaded.
    pinned = settings if commit is None else settings.model_copy(update={"revision": commit})
    return LanguageModel(network, settings.name, partial(load_tokenizer, pinned, folder), commit)


def load_outline(settings: LoadedModel, folder: Path | None) -> ModelOutline:
    """Load a model without its weights, always on the CPU; see :func:`load_model`.

    Raises:
        BenchmarkError: the model is missing or unreadable.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    source = model_files(settings, folder)
    config = pretrained(AutoConfig, settings, source)
    with torch.device("meta"), loading_from(settings, source):
        network = AutoModelForCausalLM.from_config(config)
    return ModelOutline(network, settings.name, commit_of(settings, source))


def wrapped_model(network: PreTrainedModel, tokenizer: Any) -> LanguageModel:
    """Wrap a model loaded by transformers, which switches it to the probed attention.

    Raises:
        BenchmarkError: the model is not supported.
    """
    name = network.name_or_path or type(network).__name__
    pin_precision()
    network.set_attn_implementation(ATTENTION_NAME)
    if getattr(network, "is_quantized", False):
        keep_differentiable(network)
    return LanguageModel(network, name, lambda: tokenizer)


def model_facts(model: LanguageModel) -> dict[str, Any]:
    """Return provenance of a loaded model: commit (None if local), layers, device, arithmetic."""
    return {
        "layers": model.layers,
        "model_commit": model.commit,
        "device": device_name(model.device),
        "threads": torch.get_num_threads(),
        **allowed_rounding(),
    }


def evaluation_facts(model: LanguageModel, *evaluators: Any) -> dict[str, Any]:
    """Return provenance of an evaluation: model, memory, and forwards and tokens of evaluators.

    The token budget is the first evaluator's.
    """
    return {
        **model_facts(model),
        **peak_memory(model.device),
        "token_budget_used": evaluators[0].token_budget,
        "forwards": sum(evaluator.forwards for evaluator in evaluators),
        "tokens": sum(evaluator.tokens for evaluator in evaluators),
    }


def compile_layers(model: LanguageModel) -> None:
    """Compile norms and feed-forward blocks, which no probe reads, for inputs of any length.

    Only for forwards without gradients.
    """
    for layer in model.blocks:
        for part in layer.children():
            if not hasattr(part, "layer_idx"):  # not attention
                part.compile(dynamic=True)


def keep_differentiable(network: torch.nn.Module) -> None:
    """Keep bitsandbytes from repacking 4-bit weights on a CPU.

    On CPUs with AVX512-BF16, the first forward without gradients repacks the weights for a kernel
    without a backward pass: gradients would silently be wrong from then on.
    """
    from bitsandbytes.nn import Linear4bit

    for module in network.modules():
        if isinstance(module, Linear4bit):
            module.support_avx512bf16_for_cpu = False


def _quantization(settings: LoadedModel) -> Any:
    if settings.quantization == "none":
        return None
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type=settings.quantization,
        bnb_4bit_compute_dtype=getattr(torch, settings.dtype),
    )
