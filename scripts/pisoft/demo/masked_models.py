"""The masked language model of the demonstration: frequencies of tokens, in RoBERTa's form.

It has the architecture and the tokenizer layout of RoBERTa, so that everything downstream treats it
like the real one: positions begin behind the padding id, and the mask token takes the space before
it. Its prediction is the same for every mask: the smoothed share of each token in texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import AddedToken, processors
from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaForMaskedLM

from pisoft.demo.training import byte_level_backend, package_versions, train_backend
from pisoft.models.saving import save_model
from pisoft.store.files import TRAINING_REPORT

# RoBERTa's, with its first ids.
SPECIAL_TOKENS = ("<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True))
WIDTH = 8  # of layers whose output changes no logit


def make_masked_model(
    directory: Path,
    texts: Sequence[str],
    *,
    vocabulary_size: int,
    context: int,
    settings: dict[str, Any],
) -> None:
    """Make a masked model and its tokenizer, and save both with a report, ``training.json``.

    ``directory`` appears complete or not at all; equal texts give equal weights.

    Args:
        directory: where to.
        texts: whose tokens are counted, and the tokenizer's merges learnt from.
        vocabulary_size: entries, special tokens and the 256 bytes included.
        context: longest sequence, special tokens included.
        settings: of the job, for the report.
    """
    tokenizer = train_masked_tokenizer(texts, vocabulary_size, context)
    model = _network(tokenizer)
    with torch.no_grad():
        for weights in model.parameters():
            weights.zero_()
        model.lm_head.bias.copy_(torch.from_numpy(log_frequencies(texts, tokenizer)))
    report = {"architecture": "roberta", "versions": package_versions(), "settings": settings}
    save_model(directory, model, tokenizer, {TRAINING_REPORT: report})


def log_frequencies(texts: Sequence[str], tokenizer: PreTrainedTokenizerFast) -> np.ndarray:
    """Return the log of (count + 1) / (tokens + V) of each of V tokens, (V,) float32."""
    encoded = tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
    ids = [token for of_text in encoded for token in of_text]
    counts = np.bincount(ids, minlength=len(tokenizer)) + 1.0
    return np.log(counts / counts.sum()).astype(np.float32)


def train_masked_tokenizer(
    texts: Iterable[str], vocabulary_size: int, context: int
) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer with RoBERTa's special tokens around every text.

    Args:
        texts: what the merges are learnt from.
        vocabulary_size: entries, special tokens and the 256 bytes included.
        context: longest sequence, special tokens included.
    """
    backend = byte_level_backend()
    train_backend(backend, texts, vocabulary_size, SPECIAL_TOKENS)
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        special_tokens=[(token, backend.token_to_id(token)) for token in ("<s>", "</s>")],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<s>",
        cls_token="<s>",
        eos_token="</s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token=AddedToken("<mask>", lstrip=True),
        model_max_length=context,
        clean_up_tokenization_spaces=False,
    )


def _network(tokenizer: PreTrainedTokenizerFast) -> RobertaForMaskedLM:
    """Return a float32 model of one layer, whose output head is its embedding."""
    return RobertaForMaskedLM(
        RobertaConfig(
            vocab_size=len(tokenizer),
            hidden_size=WIDTH,
            intermediate_size=WIDTH,
            num_hidden_layers=1,
            num_attention_heads=1,
            # RoBERTa numbers positions from the padding id on.
            max_position_embeddings=tokenizer.model_max_length + tokenizer.pad_token_id + 1,
            type_vocab_size=1,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            tie_word_embeddings=True,
            dtype="float32",
        )
    )
