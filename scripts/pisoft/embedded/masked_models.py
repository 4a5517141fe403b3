"""Train the tiny masked language model of the embedded default, in half a minute on one core.

It has the architecture and the tokenizer layout of RoBERTa, so that everything downstream treats it
like the real one: positions begin behind the padding id, and the mask token takes the space before
it.
"""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, processors
from torch.nn.functional import cross_entropy
from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaForMaskedLM

from pisoft.embedded.training import (
    CHECK_EVERY,
    NO_LABEL,
    Optimiser,
    byte_level_backend,
    package_versions,
    shuffled_batches,
    train_backend,
)
from pisoft.errors import BenchmarkError
from pisoft.files import TRAINING_REPORT
from pisoft.lm.saving import save_model

logger = logging.getLogger(__name__)

# RoBERTa's, with its first ids.
SPECIAL_TOKENS = ("<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True))
# Of the record's tokens. Twice BERT's share: a step teaches more, and models of half a minute learn
# more in it (Wettig et al. 2023, Should you mask 15% in masked language modeling?).
MASKED_SHARE = 0.3
HELD_OUT_BATCH = 64  # prompts


@dataclass(frozen=True)
class Prompt:
    """A prompt's text without special tokens, and which of its characters come from the record.

    ``record`` holds pairs (start, end) of offsets, end-exclusive.
    """

    text: str
    record: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class EncodedPrompt:
    """A tokenised prompt, special tokens included: ids, and which come from the record."""

    token_ids: list[int]
    of_record: list[bool]

    @property
    def record_ids(self) -> list[int]:
        """The ids that come from the record."""
        return [token for token, flag in zip(self.token_ids, self.of_record, strict=True) if flag]


@dataclass(frozen=True)
class MaskedBatch:
    """Right-padded prompts with masked tokens; each tensor (B, T).

    ``labels`` holds the ids that were masked and NO_LABEL elsewhere, ``attention_mask`` is 0 at
    padding.
    """

    token_ids: torch.Tensor
    labels: torch.Tensor
    attention_mask: torch.Tensor

    @property
    def masked_ids(self) -> torch.Tensor:
        """The ids that were masked, row by row."""
        return self.labels[self.labels != NO_LABEL]


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


def train_tiny_masked_model(
    directory: Path,
    *,
    training: Sequence[Prompt],
    held_out: Sequence[Prompt],
    hidden_size: int,
    layers: int,
    heads: int,
    vocabulary_size: int,
    context: int,
    steps: int,
    batch_size: int,
    learning_rate: float,
    required_accuracy: float,
    seed: int,
    settings: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Train a masked model and its tokenizer from scratch and save both, and a report.

    The report, also written as ``training.json``, holds the held-out accuracy (share of masked
    record tokens that the model ranks first), that of always guessing the most frequent token, the
    seconds, the package versions and the ``settings`` of the job. ``directory`` appears complete
    or not at all; the same seed on the same machine gives the same weights.

    Raises:
        BenchmarkError: the held-out accuracy is below ``required_accuracy``, or a prompt does not
            fit the context.
    """
    started = time.perf_counter()
    tokenizer = train_masked_tokenizer([p.text for p in training], vocabulary_size, context)
    encoded = _encode(cut_before_records(training, seed), tokenizer)
    encoded_held_out = _encode(held_out, tokenizer)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = _new_model(tokenizer, hidden_size, layers, heads)
    _optimise(model, encoded, encoded_held_out, tokenizer, steps, batch_size, learning_rate, seed)
    accuracy = held_out_accuracy(model, encoded_held_out, tokenizer)
    baseline = most_frequent_accuracy(encoded, encoded_held_out)
    if not accuracy >= required_accuracy:
        raise BenchmarkError(
            f"the tiny masked model ranks {accuracy:.4f} of the held-out record tokens first after "
            f"{steps} steps, but {required_accuracy:.4f} is required (the most frequent token "
            f"alone: {baseline:.4f}); raise its steps, width or learning rate"
        )
    report = {
        "architecture": "roberta",
        "accuracy": accuracy,
        "most_frequent_token_accuracy": baseline,
        "required_accuracy": required_accuracy,
        "parameters": model.num_parameters(),
        "steps": steps,
        "seed": seed,
        "seconds": round(time.perf_counter() - started, 1),
        "versions": package_versions(),
        "settings": settings,
    }
    save_model(directory, model, tokenizer, {TRAINING_REPORT: report})
    return report


def cut_before_records(prompts: Sequence[Prompt], seed: int) -> list[Prompt]:
    """Drop the beginning of every prompt, up to a random place before its record.

    With the whole template always in front, the model would take far more steps to find out that
    the words of the record are what matters, and know them at a few positions only.
    """
    generator = random.Random(seed)
    cut = []
    for prompt in prompts:
        first = generator.randint(0, min(start for start, _ in prompt.record))
        record = tuple((start - first, end - first) for start, end in prompt.record)
        cut.append(Prompt(prompt.text[first:], record))
    return cut


@torch.no_grad()
def held_out_accuracy(
    model: RobertaForMaskedLM,
    prompts: Sequence[EncodedPrompt],
    tokenizer: PreTrainedTokenizerFast,
) -> float:
    """Return the share of masked tokens that the model ranks first; always the same are masked."""
    model.eval()
    generator = torch.Generator().manual_seed(0)
    hits = []
    for first in range(0, len(prompts), HELD_OUT_BATCH):
        batch = mask_batch(prompts[first : first + HELD_OUT_BATCH], tokenizer, generator)
        hits.append(_masked_logits(model, batch).argmax(dim=-1) == batch.masked_ids)
    return torch.cat(hits).double().mean().item()


def most_frequent_accuracy(
    training: Sequence[EncodedPrompt], held_out: Sequence[EncodedPrompt]
) -> float:
    """Return the share of held-out record tokens that are the most frequent one of training."""
    counts = Counter(token for prompt in training for token in prompt.record_ids)
    ((frequent, _),) = counts.most_common(1)
    tokens = [token for prompt in held_out for token in prompt.record_ids]
    return tokens.count(frequent) / len(tokens)


def mask_batch(
    prompts: Sequence[EncodedPrompt],
    tokenizer: PreTrainedTokenizerFast,
    generator: torch.Generator,
) -> MaskedBatch:
    """Mask tokens of the records at random.

    Words of the template are never masked: they are the same in every prompt, so that nothing can
    be learnt about what else might stand there. All masked tokens become the mask token: RoBERTa
    keeps a tenth and exchanges a tenth for the sake of tasks without masks, of which there are
    none here.
    """
    shape = (len(prompts), max(len(prompt.token_ids) for prompt in prompts))
    token_ids = torch.full(shape, tokenizer.pad_token_id)
    of_record = torch.zeros(shape, dtype=torch.bool)
    for row, prompt in enumerate(prompts):
        length = len(prompt.token_ids)
        token_ids[row, :length] = torch.tensor(prompt.token_ids)
        of_record[row, :length] = torch.tensor(prompt.of_record)
    masked = of_record & (torch.rand(shape, generator=generator) < MASKED_SHARE)
    return MaskedBatch(
        token_ids=token_ids.masked_fill(masked, tokenizer.mask_token_id),
        labels=token_ids.masked_fill(~masked, NO_LABEL),
        attention_mask=(token_ids != tokenizer.pad_token_id).long(),
    )


def _masked_logits(model: RobertaForMaskedLM, batch: MaskedBatch) -> torch.Tensor:
    """Logits (masked tokens, V), in the order of the batch's `masked_ids`."""
    hidden = model.roberta(batch.token_ids, attention_mask=batch.attention_mask).last_hidden_state
    return model.lm_head(hidden[batch.labels != NO_LABEL])


def _encode(prompts: Sequence[Prompt], tokenizer: PreTrainedTokenizerFast) -> list[EncodedPrompt]:
    """Tokenise prompts, special tokens included, and find the record's tokens."""
    encoding = tokenizer([p.text for p in prompts], return_offsets_mapping=True, verbose=False)
    encoded = []
    for prompt, ids, offsets in zip(
        prompts, encoding["input_ids"], encoding["offset_mapping"], strict=True
    ):
        if len(ids) > tokenizer.model_max_length:
            raise BenchmarkError(
                f"a prompt takes {len(ids)} tokens, more than the masked model's context of "
                f"{tokenizer.model_max_length}: {prompt.text[:60]!r}"
            )
        of_record = [
            any(start < last and first < end for first, last in prompt.record)
            for start, end in offsets
        ]
        encoded.append(EncodedPrompt(ids, of_record))
    return encoded


def _new_model(
    tokenizer: PreTrainedTokenizerFast, hidden_size: int, layers: int, heads: int
) -> RobertaForMaskedLM:
    """An untrained float32 model, without dropout: every pass masks other tokens anyway."""
    return RobertaForMaskedLM(
        RobertaConfig(
            vocab_size=len(tokenizer),
            hidden_size=hidden_size,
            intermediate_size=2 * hidden_size,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            # RoBERTa numbers positions from the padding id on.
            max_position_embeddings=tokenizer.model_max_length + tokenizer.pad_token_id + 1,
            type_vocab_size=1,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            initializer_range=0.05,  # the usual 0.02 is for widths of many hundreds
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            tie_word_embeddings=True,
            dtype="float32",
        )
    )


def _optimise(
    model: RobertaForMaskedLM,
    training: Sequence[EncodedPrompt],
    held_out: Sequence[EncodedPrompt],
    tokenizer: PreTrainedTokenizerFast,
    steps: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
) -> None:
    """Fit masked tokens."""
    optimiser = Optimiser(model, learning_rate, steps)
    generator = torch.Generator().manual_seed(seed)
    batches = shuffled_batches(training, batch_size, seed)
    for step in range(1, steps + 1):
        model.train()
        batch = mask_batch(next(batches), tokenizer, generator)
        loss = cross_entropy(_masked_logits(model, batch), batch.masked_ids)
        optimiser.step(loss)
        if step % CHECK_EVERY == 0:
            accuracy = held_out_accuracy(model, held_out, tokenizer)
            logger.info("step %d/%d loss %.4f accuracy %.4f", step, steps, loss.item(), accuracy)
