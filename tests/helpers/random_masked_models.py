"""Small random-weight masked models for tests, in the architecture of RoBERTa or BERT."""

from __future__ import annotations

import torch
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import WordLevel, WordPiece
from transformers import (
    BertConfig,
    BertForMaskedLM,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForMaskedLM,
)

from helpers.tiny_tokenizers import CORPUS
from pisoft.demo.masked_models import train_masked_tokenizer
from pisoft.models.masked import MaskedLanguageModel

ROBERTA_SPECIALS = {
    "bos_token": "<s>",
    "cls_token": "<s>",
    "pad_token": "<pad>",
    "eos_token": "</s>",
    "sep_token": "</s>",
    "unk_token": "<unk>",
}


def roberta(context: int = 64, vocabulary_size: int = 600) -> MaskedLanguageModel:
    """Return a RoBERTa with a byte-level tokenizer; 600 entries cover all words of the corpus."""
    tokenizer = train_masked_tokenizer(CORPUS, vocabulary_size, context)
    return MaskedLanguageModel(_roberta(tokenizer, context), tokenizer, "random-roberta")


def numbered(size: int) -> MaskedLanguageModel:
    """Return a RoBERTa whose pieces are the words `w3 w4 …` of `numbered_tokenizer(size)`."""
    words = [f"w{number}" for number in range(3, size)]
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    vocabulary = {word: index for index, word in enumerate([*specials, *words])}
    backend = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        mask_token=AddedToken("<mask>", lstrip=True),
        model_max_length=64,
        **ROBERTA_SPECIALS,
    )
    return MaskedLanguageModel(_roberta(tokenizer, 64), tokenizer, "random-numbered")


def bert(context: int = 64) -> MaskedLanguageModel:
    """Return a BERT with a WordPiece tokenizer: pieces inside words begin with `##`."""
    words = ["film", "novel", "was", "the", "dull", "wonderful", "Positive", ".", ",", "a", "first"]
    words += [f"##{end}" for end in ("s", "ing", "ed", "d", "e", "r", "t", "an", "a", "en", "er")]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    backend = Tokenizer(WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        pad_token="[PAD]",
        mask_token="[MASK]",
        model_max_length=context,
    )
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=context,
        initializer_range=0.3,
    )
    torch.manual_seed(5)
    network = BertForMaskedLM(config).eval().requires_grad_(False)
    return MaskedLanguageModel(network, tokenizer, "random-bert")


def _roberta(tokenizer: PreTrainedTokenizerFast, context: int) -> RobertaForMaskedLM:
    config = RobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=context + 2,
        pad_token_id=1,
        initializer_range=0.3,
    )
    torch.manual_seed(5)
    return RobertaForMaskedLM(config).eval().requires_grad_(False)
