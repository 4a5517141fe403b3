"""The masked language model of the demonstration: a unigram model in RoBERTa's format.

It has RoBERTa's architecture and tokenizer layout, so everything downstream treats it like the real
one: positions begin after the padding id, and the mask token absorbs the space before it. It
predicts the same distribution for every mask: the smoothed token frequencies of texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import AddedToken
from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaForMaskedLM

from pisoft.config.models import UnigramMaskedModel
from pisoft.demo.tokenizers import train_backend
from pisoft.models.saving import save_trained

MASK = AddedToken("<mask>", lstrip=True)
SPECIAL_TOKENS = ("<s>", "<pad>", "</s>", "<unk>", MASK)  # RoBERTa's, with its first ids
WIDTH = 8  # of layers whose output changes no logit


def make_masked_model(
    directory: Path, source: UnigramMaskedModel, texts: Sequence[str], settings: Any
) -> None:
    """Make a masked model and its tokenizer, and save both with a report, ``training.json``.

    ``directory`` appears complete or not at all; equal texts give equal weights.

    Args:
        source: size of the vocabulary and context, special tokens included.
        texts: source of token counts and of the tokenizer's merges.
    """
    tokenizer = train_masked_tokenizer(texts, source.vocabulary_size, source.context)
    model = RobertaForMaskedLM(
        RobertaConfig(
            vocab_size=len(tokenizer),
            hidden_size=WIDTH,
            intermediate_size=WIDTH,
            num_hidden_layers=1,
            num_attention_heads=1,
            # RoBERTa numbers positions from the padding id on.
            max_position_embeddings=source.context + tokenizer.pad_token_id + 1,
            type_vocab_size=1,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            tie_word_embeddings=True,
            dtype="float32",
        )
    )
    ids = tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
    counts = np.bincount(np.concatenate(ids).astype(int), minlength=len(tokenizer)) + 1.0
    log_shares = np.log(counts / counts.sum()).astype(np.float32)
    with torch.no_grad():
        for weights in model.parameters():
            weights.zero_()
        model.lm_head.bias.copy_(torch.from_numpy(log_shares))
    save_trained(directory, model, tokenizer, architecture="roberta", settings=settings)


def train_masked_tokenizer(
    texts: Sequence[str], vocabulary_size: int, context: int
) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer with RoBERTa's special tokens around every text."""
    return PreTrainedTokenizerFast(
        tokenizer_object=train_backend(texts, vocabulary_size, SPECIAL_TOKENS, "<s> $A </s>"),
        bos_token="<s>",
        cls_token="<s>",
        eos_token="</s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token=MASK,
        model_max_length=context,
        clean_up_tokenization_spaces=False,
    )
