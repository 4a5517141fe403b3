"""Small random-weight models for tests: one with the attention probe, one without."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path

import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedTokenizerBase,
)

from helpers.tiny_tokenizers import numbered_tokenizer
from pisoft.models.attention import ATTENTION_NAME
from pisoft.models.model import ExplainedSample, LanguageModel

VOCABULARY = 97
SMALL = {  # configuration options, named like Llama's
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "pad_token_id": None,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SHAPES = {
    "llama-gqa": (LlamaConfig, LlamaForCausalLM, {"num_key_value_heads": 2}),
    "llama-mha-tied": (
        LlamaConfig,
        LlamaForCausalLM,
        {"num_key_value_heads": 4, "tie_word_embeddings": True},
    ),
    "mistral-sliding": (
        MistralConfig,
        MistralForCausalLM,
        {"num_key_value_heads": 1, "sliding_window": 7},
    ),
}


def model_and_network(
    shape: str, dtype: torch.dtype = torch.float64, layers: int = 3
) -> tuple[LanguageModel, torch.nn.Module]:
    """Return private copies of the probed model and of an eager one with the same weights."""
    return copy.deepcopy(_tried(shape, dtype, layers))


def random_model(shape: str, dtype: torch.dtype = torch.float64, layers: int = 3) -> LanguageModel:
    """Return only the probed model."""
    return model_and_network(shape, dtype, layers)[0]


@cache
def _tried(shape: str, dtype: torch.dtype, layers: int) -> tuple[LanguageModel, torch.nn.Module]:
    config_class, model_class, extra = SHAPES[shape]
    size = {"num_hidden_layers": layers, "head_dim": 8, "max_position_embeddings": 128}
    config = config_class(**SMALL | size | extra)
    torch.manual_seed(7)
    plain = (
        model_class._from_config(copy.deepcopy(config), attn_implementation="eager")
        .to(dtype)
        .eval()
    )
    for parameter in plain.parameters():  # sharper than the default, so that attention varies
        parameter.data.mul_(4 if parameter.dim() > 1 else 1)
    probed = model_class._from_config(config, attn_implementation=ATTENTION_NAME).to(dtype)
    probed.load_state_dict(plain.state_dict())
    return LanguageModel(probed, shape, lambda: numbered_tokenizer(VOCABULARY)), plain


def with_biases(model: LanguageModel) -> LanguageModel:
    """Add biases to a model's value, output, gate and down projections."""
    generator = torch.Generator().manual_seed(2)
    for layer in model.decoder.layers:
        attention, mlp = layer.self_attn, layer.mlp
        for part in (attention.v_proj, attention.o_proj, mlp.gate_proj, mlp.down_proj):
            bias = torch.randn(part.out_features, generator=generator, dtype=torch.float64)
            part.bias = torch.nn.Parameter(bias, requires_grad=False)
    return model


def samples() -> list[ExplainedSample]:
    """Return samples of different lengths, one of them with several steps, one with one token."""
    generator = torch.Generator().manual_seed(3)

    def ids(count: int) -> list[int]:
        return torch.randint(3, VOCABULARY, (count,), generator=generator).tolist()

    output = ids(7)
    return [
        ExplainedSample("long", ids(13), output, [0, 5], [output[0], output[5]]),
        ExplainedSample("short", ids(6), [11], [0], [11]),
        ExplainedSample("same", [9] * 8, [12], [0], [12]),
        ExplainedSample("single", [5], [4], [0], [4]),
    ]


# transformers' eager softmax rounds to float32 even in a float64 model; ours does not.
EAGER = {"rtol": 1e-4, "atol": 1e-6}


def save_random_llama(folder: Path, tokenizer: PreTrainedTokenizerBase, **options: int) -> None:
    """Save a small random-weight Llama and its tokenizer; options are passed to its config."""
    token_ids = {
        "vocab_size": len(tokenizer),
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
    }
    config = LlamaConfig(**SMALL | token_ids | options)
    torch.manual_seed(2)
    network = LlamaForCausalLM(config)
    for parameter in network.parameters():  # sharper than the default
        parameter.data.mul_(8 if parameter.dim() > 1 else 1)
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
