"""A small Llama whose answer is decided by one word of the prompt, trained in seconds."""

from __future__ import annotations

from functools import cache

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from helpers.random_models import SMALL, VOCABULARY
from helpers.tiny_tokenizers import numbered_tokenizer
from pisoft.models.attention import ATTENTION_NAME
from pisoft.models.model import ExplainedSample, LanguageModel

LENGTH = 16
FILLERS, PLANTED = range(3, 51), range(51, 97)  # each planted word has an answer of its own


def planted_prompts(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return token ids (count, LENGTH) with one planted word each, and its position (count,)."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(FILLERS.start, FILLERS.stop, (count, LENGTH), generator=generator)
    where = torch.randint(1, LENGTH - 1, (count,), generator=generator)
    words = torch.randint(PLANTED.start, PLANTED.stop, (count,), generator=generator)
    ids[torch.arange(count), where] = words
    ids[:, 0] = 1  # beginning of sequence
    return ids, where


@cache
def planted_model() -> LanguageModel:
    """Return a model that answers with the planted word's successor."""
    wide = {"hidden_size": 64, "intermediate_size": 96, "num_key_value_heads": 4}
    config = LlamaConfig(**SMALL | wide, initializer_range=64**-0.5)
    torch.manual_seed(5)
    network = LlamaForCausalLM._from_config(config, attn_implementation=ATTENTION_NAME)
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3)
    for step in range(400):
        ids, where = planted_prompts(64, seed=step)
        logits = network(input_ids=ids, logits_to_keep=1).logits[:, -1]
        loss = torch.nn.functional.cross_entropy(logits, answers(ids, where))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss < 0.02:
            break
    return LanguageModel(network, "planted", lambda: numbered_tokenizer(VOCABULARY))


def answers(ids: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
    """Return the right answer of each prompt, (count,)."""
    words = ids[torch.arange(len(ids)), where]
    return PLANTED.start + (words - PLANTED.start + 1) % len(PLANTED)


def planted_samples(count: int) -> list[tuple[ExplainedSample, int]]:
    """Return samples never trained on, each with the planted word's position."""
    ids, where = planted_prompts(count, seed=10**6)
    targets = answers(ids, where).tolist()
    return [
        (ExplainedSample(f"s{row}", prompt, [target], [0], [target]), position)
        for row, (prompt, position, target) in enumerate(
            zip(ids.tolist(), where.tolist(), targets, strict=True)
        )
    ]
