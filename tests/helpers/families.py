"""Tiny random-weight models of every family, with the family's special features switched on.

Windows are shorter than the prompt, caps and scales matter, biases and sinks are not zero.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
import transformers
from transformers import PreTrainedModel

from helpers.random_models import VOCABULARY

HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2}
IDS = {"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": 2}
BASE = {
    **IDS, **HEADS, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "max_position_embeddings": 64, "pad_token_id": None, "tie_word_embeddings": False,
}  # fmt: skip
WIDE = {**BASE, "head_dim": 8}
TIED = {"tie_word_embeddings": True}
WINDOW = {"sliding_window": 5}
MIXED = {**WINDOW, "layer_types": ["sliding_attention", "full_attention"]}
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 24}
DEEPSEEK = {
    **BASE, **EXPERTS, "num_key_value_heads": 4, "n_routed_experts": 8, "n_group": 2,
    "topk_group": 1, "n_shared_experts": 1, "first_k_dense_replace": 1, "kv_lora_rank": 16,
    "q_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 6,
}  # fmt: skip
LINEAR = {
    "linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
}  # fmt: skip
GPT = {**IDS, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
GEMMA_2 = {**WIDE, **TIED, **MIXED, "query_pre_attn_scalar": 8}
GEMMA_4 = {**WIDE, **TIED, **MIXED, "global_head_dim": 16, "vocab_size_per_layer_input": VOCABULARY}
SHARING = {  # the last two layers reuse keys and values of earlier layers
    "num_hidden_layers": 4,
    "num_kv_shared_layers": 2,
    "layer_types": 2 * MIXED["layer_types"],
}
OPT = {
    **IDS, **TIED, "hidden_size": 32, "ffn_dim": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 64, "pad_token_id": None,
}  # fmt: skip
BLOOM = {**IDS, "hidden_size": 32, "n_layer": 2, "n_head": 4}

# Name in the table, class prefix in transformers, configuration options.
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "Llama 2, 3": ("Llama", WIDE),
    "Llama 4": ("Llama4Text", {
        **WIDE, "num_local_experts": 2, "num_experts_per_tok": 1, "intermediate_size_mlp": 48,
        "attention_chunk_size": 8, "moe_layers": [1], "no_rope_layers": [1, 0], "attn_scale": 0.1,
        "floor_scale": 4,
    }),
    "Mistral v0.1": ("Mistral", {**WIDE, **WINDOW}),
    "Mixtral": ("Mixtral", {
        **WIDE, **WINDOW, "num_local_experts": 4, "num_experts_per_tok": 2,
        "output_router_logits": True,
    }),
    "Qwen 2, 2.5": ("Qwen2", BASE),
    "Qwen 3": ("Qwen3", WIDE),
    "Qwen 3 MoE": ("Qwen3Moe", {
        **WIDE, **EXPERTS, "num_experts": 4, "decoder_sparse_step": 1, "mlp_only_layers": [],
    }),
    "Qwen 3 Next": ("Qwen3Next", {
        **WIDE, **EXPERTS, **LINEAR, "layer_types": ["linear_attention", "full_attention"],
        "num_experts": 4, "shared_expert_intermediate_size": 24,
    }),
    "Qwen 3.5": ("Qwen3_5Text", {
        **WIDE, **LINEAR, "layer_types": ["linear_attention", "full_attention"],
    }),
    "Gemma": ("Gemma", {**WIDE, **TIED}),
    "Gemma 2": ("Gemma2", {
        **GEMMA_2, "attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0,
    }),
    "Gemma 3, text": ("Gemma3Text", GEMMA_2),
    "Gemma 3": ("Gemma3", {
        "text_config": GEMMA_2,
        "vision_config": {
            "model_type": "siglip_vision_model", "hidden_size": 16, "intermediate_size": 16,
            "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 16, "patch_size": 8,
        },
        "mm_tokens_per_image": 4,
    }),
    "Gemma 3n, text": ("Gemma3nText", {
        **GEMMA_2, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": VOCABULARY,
        "laurel_rank": 8, "altup_num_inputs": 2, **SHARING,
        "activation_sparsity_pattern": [0.9, 0.0, 0.0, 0.0],
    }),
    "Gemma 4, text": ("Gemma4Text", {
        **GEMMA_4, "hidden_size_per_layer_input": 0, "final_logit_softcapping": 3.0,
    }),
    "Gemma 4 E, text": ("Gemma4Text", {**GEMMA_4, **SHARING, "hidden_size_per_layer_input": 8}),
    "Phi 1, 2": ("Phi", BASE),
    "Phi 3, 4": ("Phi3", {**BASE, **WINDOW}),
    "Phi 3, 4 128k": ("Phi3", {
        **BASE, "original_max_position_embeddings": 16,
        "rope_parameters": {
            "rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.1, 1.2, 1.3],
            "long_factor": [1.1, 2.0, 8.0, 30.0], "original_max_position_embeddings": 16,
        },
    }),
    "OLMo 2": ("Olmo2", BASE),
    "OLMo 3": ("Olmo3", {**BASE, **MIXED}),
    "SmolLM 3": ("SmolLM3", {**BASE, **TIED, "no_rope_layers": [1, 0]}),
    "Granite 3": ("Granite", {
        **BASE, **TIED, "embedding_multiplier": 0.5, "logits_scaling": 3.0,
        "residual_multiplier": 0.22, "attention_multiplier": 0.2,
    }),
    "Granite 3 MoE": ("GraniteMoe", {
        **BASE, **TIED, "num_local_experts": 4, "num_experts_per_tok": 2, "logits_scaling": 3.0,
    }),
    "Granite 4": ("GraniteMoeHybrid", {
        **BASE, "layer_types": ["mamba", "attention"], "mamba_n_heads": 8, "mamba_d_head": 8,
        "mamba_d_state": 8, "mamba_n_groups": 1, "mamba_expand": 2, "mamba_chunk_size": 8,
        "num_local_experts": 0, "num_experts_per_tok": 0, "shared_intermediate_size": 48,
    }),
    "Granite SWA": ("GraniteSWA", {**BASE, **MIXED}),
    "gpt-oss": ("GptOss", {**WIDE, **MIXED, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "MiMo V2 Flash": ("MiMoV2Flash", {
        **WIDE, **MIXED, **EXPERTS, "v_head_dim": 6, "n_routed_experts": 4,
        "mlp_layer_types": ["dense", "sparse"],
    }),
    "DeepSeek V3": ("DeepseekV3", DEEPSEEK),
    "DeepSeek V3.2": ("DeepseekV32", {
        **DEEPSEEK, "index_topk": 4, "index_n_heads": 8, "index_head_dim": 8,
    }),
    "Cohere 2": ("Cohere2", {**BASE, **TIED, **MIXED, "logit_scale": 0.0625}),
    "StarCoder 2": ("Starcoder2", {**BASE, **WINDOW, "use_bias": True}),
    "GLM 4": ("Glm4", {**WIDE, "partial_rotary_factor": 0.5}),
    "RecurrentGemma": ("RecurrentGemma", {
        **WIDE, **TIED, "lru_width": 32, "attention_window_size": 5,
        "block_types": ["recurrent", "attention"],
    }),
    "LFM 2": ("Lfm2", {
        **BASE, "layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False,
    }),
    "Nemotron": ("Nemotron", WIDE),
    "Doge": ("Doge", {**BASE, "keep_window_size": 4}),
    "GPT-2": ("GPT2", GPT),
    "GPT BigCode": ("GPTBigCode", GPT),
    "GPT-NeoX": ("GPTNeoX", BASE),
    "OPT": ("OPT", {**OPT, "word_embed_proj_dim": 32}),
    "OPT 350M": ("OPT", {**OPT, "word_embed_proj_dim": 16, "do_layer_norm_before": False}),
    "BLOOM": ("Bloom", BLOOM),
    "Falcon": ("Falcon", {
        **IDS, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    }),
    "MPT": ("Mpt", {**IDS, "d_model": 32, "n_heads": 4, "n_layers": 2}),
    "GPT-Neo": ("GPTNeo", {
        **IDS, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "max_position_embeddings": 64,
        "attention_types": [[["global", "local"], 1]], "window_size": 5,
    }),
    "GPT-J": ("GPTJ", {**GPT, "rotary_dim": 4}),
    "CodeGen": ("CodeGen", {**GPT, "rotary_dim": 4}),
    "StableLM": ("StableLm", {**BASE, "partial_rotary_factor": 0.5}),
    "ModernBERT decoder": ("ModernBertDecoder", {**BASE, "pad_token_id": 0, "local_attention": 8}),
    "Mamba": ("Mamba", {**IDS, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}),
    "Mamba 2": ("Mamba2", {
        **IDS, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "num_heads": 8,
        "head_dim": 8, "n_groups": 1, "chunk_size": 8,
    }),
    "RWKV": ("Rwkv", {
        **IDS, "hidden_size": 32, "attention_hidden_size": 32, "num_hidden_layers": 2,
    }),
}  # fmt: skip


def network(
    family: str,
    attention: str,
    dtype: torch.dtype = torch.float64,
    experts: str | None = "eager",  # the default kernel for experts lacks float64
) -> PreTrainedModel:
    """Return a family's network with an attention implementation and always the same weights."""
    stem, options = FAMILIES[family]
    config = getattr(transformers, f"{stem}Config")(**copy.deepcopy(options))
    model_class = transformers.AutoModelForCausalLM._model_mapping[type(config)]
    torch.manual_seed(5)
    try:
        model = model_class._from_config(
            config, attn_implementation=attention, experts_implementation=experts
        )
    except KeyError:  # a class with only its own attention
        return network(family, "eager", dtype, experts)
    model = model.to(dtype).eval()
    _sharpen(model)
    return model


def _sharpen(model: PreTrainedModel) -> None:
    """Scale weights up so that attention varies, and add noise to biases, norms and sinks."""
    generator = torch.Generator().manual_seed(6)
    ends = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
        if any(parameter is end for end in ends):
            parameter.data.mul_(20)
        elif parameter.dim() == 1 or "bias" in name:
            parameter.data.add_(noise * (1 if "sinks" in name else 0.2))
        else:
            parameter.data.mul_(6)
