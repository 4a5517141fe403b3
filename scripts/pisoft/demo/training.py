"""What the trainings of all tiny models share: byte-level tokenizer, optimiser, batches."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import tokenizers
import torch
import transformers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

# A token is a word with the space before it, a run of line ends, or other white space: text next
# to a special token is cut the same way whether or not more text follows.
TOKEN_BOUNDARIES = r" ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s*[\r\n]+|\s+"

NO_LABEL = -100  # at positions that carry no loss
CHECK_EVERY = 25  # steps from one held-out check and progress line to the next
WARMUP_FRACTION = 0.1
FINAL_LEARNING_RATE_FRACTION = 0.05
WEIGHT_DECAY = 0.01
GRADIENT_NORM_LIMIT = 1.0

Item = TypeVar("Item")


def byte_level_backend() -> Tokenizer:
    """Return an untrained byte-level BPE tokenizer."""
    backend = Tokenizer(BPE())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(TOKEN_BOUNDARIES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    return backend


def train_backend(
    backend: Tokenizer,
    texts: Iterable[str],
    vocabulary_size: int,
    special_tokens: Sequence[str | AddedToken],
) -> None:
    """Learn the merges of a byte-level BPE tokenizer.

    The vocabulary holds the special tokens (which get the first ids), the 256 bytes and the merges.
    """
    trainer = BpeTrainer(
        vocab_size=vocabulary_size,
        special_tokens=list(special_tokens),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)


class Optimiser:
    """AdamW with warm-up, cosine decay and clipped gradients, for a fixed number of steps."""

    def __init__(self, model: torch.nn.Module, learning_rate: float, steps: int) -> None:
        self._parameters = list(model.parameters())
        self._optimiser = torch.optim.AdamW(
            self._parameters, lr=learning_rate, betas=(0.9, 0.98), weight_decay=WEIGHT_DECAY
        )
        self._schedule = torch.optim.lr_scheduler.LambdaLR(
            self._optimiser, lambda step: learning_rate_factor(step, steps)
        )

    def step(self, loss: torch.Tensor) -> None:
        """Move the parameters down the gradient of a loss."""
        self._optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._parameters, GRADIENT_NORM_LIMIT)
        self._optimiser.step()
        self._schedule.step()


def learning_rate_factor(step: int, steps: int) -> float:
    """Return the share of the peak learning rate: a warm-up, then a cosine to a small fraction."""
    warmup = max(1, round(WARMUP_FRACTION * steps))
    if step < warmup:
        return (step + 1) / warmup
    progress = min(1.0, (step - warmup) / max(1, steps - warmup))
    cosine = (1 + math.cos(math.pi * progress)) / 2
    return FINAL_LEARNING_RATE_FRACTION + (1 - FINAL_LEARNING_RATE_FRACTION) * cosine


def shuffled_batches(items: Sequence[Item], batch_size: int, seed: int) -> Iterator[list[Item]]:
    """Yield batches without end: every pass over the items in a new order."""
    generator = random.Random(seed)
    while True:
        order = generator.sample(range(len(items)), len(items))
        for first in range(0, len(order), batch_size):
            yield [items[index] for index in order[first : first + batch_size]]


def package_versions() -> dict[str, str]:
    """Return the versions of the packages that a training's result depends on."""
    return {package.__name__: package.__version__ for package in (torch, transformers, tokenizers)}
