"""Train the tiny language models of the embedded default, in half a minute on one core.

They have the architecture, tokenizer layout and chat template of Llama-3 or Mistral
(:mod:`pisoft.demo.tokenizers`), so everything downstream treats them like the real models.
"""

import logging
import math
import random
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import torch
from torch.nn.functional import cross_entropy
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedTokenizerFast,
)

from pisoft.config.models import TrainedModel
from pisoft.demo.tokenizers import Dialogue, render, train_tokenizer
from pisoft.errors import BenchmarkError
from pisoft.models.saving import save_trained

logger = logging.getLogger(__name__)

TinyModel: TypeAlias = LlamaForCausalLM | MistralForCausalLM

NO_LABEL = -100  # at positions that carry no loss
EARLY_STOP_ACCURACY = 0.995
CHECK_EVERY = 25  # steps from one held-out check and progress line to the next
MASKED_DIALOGUES = 0.3  # fraction of the training dialogues that lose some user tokens
WARMUP_FRACTION = 0.1
FINAL_LEARNING_RATE_FRACTION = 0.05
GRADIENT_NORM_LIMIT = 1.0


class EncodedDialogue(NamedTuple):
    """A tokenised dialogue: its ids, where the answer starts, which tokens the user wrote."""

    token_ids: list[int]
    answer_start: int
    user_tokens: list[bool]
    group: str


class Batch(NamedTuple):
    """Right-padded dialogues: ids, next-token labels, which tokens the user wrote; each (B, T)."""

    token_ids: torch.Tensor
    labels: torch.Tensor
    user_tokens: torch.Tensor


def train_tiny_model(
    directory: Path,
    source: TrainedModel,
    training: Sequence[Dialogue],
    held_out: Sequence[Dialogue],
    settings: Any = None,
) -> None:
    """Train a model and its tokenizer from scratch and save both, and a report, in ``directory``.

    The report, ``training.json``, holds the held-out accuracy (share of dialogues whose whole
    greedy answer is right) overall and by group, the steps, the seconds, the package versions and
    the ``settings`` of the job. ``directory`` appears complete or not at all; the same seed on the
    same machine gives the same weights.

    Raises:
        BenchmarkError: the held-out accuracy is below the required one, or a dialogue does not fit
            the context.
    """
    started = time.perf_counter()
    tokenizer = train_tokenizer(training, source.architecture, source.vocabulary_size)
    encoded, encoded_held_out = (
        [_encode(dialogue, tokenizer, source.context) for dialogue in dialogues]
        for dialogues in (training, held_out)
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(source.seed)
        model = _new_model(tokenizer, source)
    steps = _optimise(model, source, encoded, encoded_held_out, tokenizer)
    accuracy = exact_match(model, encoded_held_out, tokenizer)
    if not accuracy["overall"] >= source.required_accuracy:
        raise BenchmarkError(
            f"the tiny {source.architecture} model answers {accuracy['overall']:.4f} of the "
            f"held-out dialogues correctly after {steps} steps, but {source.required_accuracy:.4f} "
            f"is required (by group: {accuracy['groups']}); raise its steps, width or learning rate"
        )
    save_trained(
        directory,
        model,
        tokenizer,
        architecture=source.architecture,
        accuracy=accuracy["overall"],
        accuracy_by_group=accuracy["groups"],
        required_accuracy=source.required_accuracy,
        parameters=model.num_parameters(),
        steps=steps,
        steps_allowed=source.steps,
        seed=source.seed,
        seconds=round(time.perf_counter() - started, 1),
        settings=settings,
    )


@torch.no_grad()
def exact_match(
    model: TinyModel, dialogues: Sequence[EncodedDialogue], tokenizer: PreTrainedTokenizerFast
) -> dict[str, Any]:
    """Return the share of dialogues whose whole greedy answer, end token included, is right.

    It is ``{"overall": share, "groups": {group: share}}``.
    """
    model.eval()
    hits: dict[str, list[bool]] = defaultdict(list)
    for first in range(0, len(dialogues), 64):
        chunk = dialogues[first : first + 64]
        batch = _pad(chunk, tokenizer.pad_token_id)
        predicted = model(input_ids=batch.token_ids).logits.argmax(dim=-1)  # (B, T)
        # Greedy decoding reproduces the answer exactly when every token of it is the most
        # probable one given the true tokens before it: one forward pass replaces generation.
        right = (predicted == batch.labels) | (batch.labels == NO_LABEL)
        for dialogue, hit in zip(chunk, right.all(dim=1).tolist(), strict=True):
            hits[dialogue.group].append(hit)
    groups = {group: sum(values) / len(values) for group, values in sorted(hits.items())}
    overall = sum(map(sum, hits.values())) / max(1, len(dialogues))
    return {"overall": overall, "groups": groups}


def _encode(
    dialogue: Dialogue, tokenizer: PreTrainedTokenizerFast, context: int
) -> EncodedDialogue:
    """Render and tokenise a dialogue, finding the answer and the text of the user in it."""
    prompt = tokenizer.apply_chat_template(
        dialogue.messages, tokenize=False, add_generation_prompt=True
    )
    encoding = tokenizer(
        render(dialogue, tokenizer), add_special_tokens=False, return_offsets_mapping=True
    )
    ids, offsets = encoding["input_ids"], encoding["offset_mapping"]
    text = dialogue.messages[-1]["content"].strip()
    if len(ids) > context:
        raise BenchmarkError(
            f"a dialogue takes {len(ids)} tokens, more than the context of {context}: {text[:60]!r}"
        )
    first = prompt.rindex(text)
    answer_start = next(i for i, (start, _) in enumerate(offsets) if start >= len(prompt))
    user_tokens = [start < first + len(text) and end > first for start, end in offsets]
    return EncodedDialogue(ids, answer_start, user_tokens, dialogue.group)


def _pad(dialogues: Sequence[EncodedDialogue], padding_id: int) -> Batch:
    """Pad dialogues on the right; causal attention keeps the padding out of every answer."""
    shape = (len(dialogues), max(len(dialogue.token_ids) for dialogue in dialogues))
    token_ids = torch.full(shape, padding_id)
    labels = torch.full(shape, NO_LABEL)
    user_tokens = torch.zeros(shape, dtype=torch.bool)
    for row, dialogue in enumerate(dialogues):
        length = len(dialogue.token_ids)
        ids = torch.tensor(dialogue.token_ids)
        token_ids[row, :length] = ids
        # The position before a token predicts it; the last answer token is the end of the turn.
        labels[row, dialogue.answer_start - 1 : length - 1] = ids[dialogue.answer_start :]
        user_tokens[row, :length] = torch.tensor(dialogue.user_tokens)
    return Batch(token_ids, labels, user_tokens)


def _new_model(tokenizer: PreTrainedTokenizerFast, source: TrainedModel) -> TinyModel:
    """Return an untrained float32 model with tied embeddings."""
    shared = {
        "vocab_size": len(tokenizer),
        "hidden_size": source.hidden_size,
        "intermediate_size": 2 * source.hidden_size,
        "num_hidden_layers": source.layers,
        "num_attention_heads": source.heads,
        "num_key_value_heads": source.key_value_heads,
        "max_position_embeddings": source.context,
        "tie_word_embeddings": True,
        "initializer_range": source.hidden_size**-0.5,  # the usual 0.02 is for thousands
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": None,
        "dtype": "float32",
    }
    if source.architecture == "llama":
        return LlamaForCausalLM(LlamaConfig(**shared))
    return MistralForCausalLM(MistralConfig(**shared, sliding_window=source.context))


def _optimise(
    model: TinyModel,
    source: TrainedModel,
    training: Sequence[EncodedDialogue],
    held_out: Sequence[EncodedDialogue],
    tokenizer: PreTrainedTokenizerFast,
) -> int:
    """Fit the answers and return the number of steps; training ends early if the task is solved."""
    parameters = list(model.parameters())
    optimiser = torch.optim.AdamW(
        parameters, lr=source.learning_rate, betas=(0.9, 0.98), weight_decay=0.01
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, partial(_learning_rate_factor, steps=source.steps)
    )
    generator = torch.Generator().manual_seed(source.seed)
    batches = _shuffled_batches(training, source.batch_size, source.seed)
    for step in range(1, source.steps + 1):
        model.train()
        batch = _pad(next(batches), tokenizer.pad_token_id)
        loss = _answer_loss(model, batch, generator)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, GRADIENT_NORM_LIMIT)
        optimiser.step()
        schedule.step()
        if step % CHECK_EVERY == 0:
            accuracy = exact_match(model, held_out, tokenizer)
            logger.info("step %d/%d loss %.4f %s", step, source.steps, loss.item(), accuracy)
            if accuracy["overall"] >= EARLY_STOP_ACCURACY:
                return step
    return source.steps


def _learning_rate_factor(step: int, steps: int) -> float:
    """Return the learning rate as a share of its peak: warm-up, then cosine decay."""
    warmup = max(1, round(WARMUP_FRACTION * steps))
    if step < warmup:
        return (step + 1) / warmup
    progress = (step - warmup) / max(1, steps - warmup)
    cosine = (1 + math.cos(math.pi * progress)) / 2
    return FINAL_LEARNING_RATE_FRACTION + (1 - FINAL_LEARNING_RATE_FRACTION) * cosine


def _shuffled_batches(
    dialogues: Sequence[EncodedDialogue], size: int, seed: int
) -> Iterator[list[EncodedDialogue]]:
    """Yield batches forever, with a new order in each pass over the dialogues."""
    generator = random.Random(seed)
    while True:
        order = generator.sample(dialogues, len(dialogues))
        for first in range(0, len(order), size):
            yield order[first : first + size]


def _answer_loss(model: TinyModel, batch: Batch, generator: torch.Generator) -> torch.Tensor:
    """Return the cross-entropy of the answer tokens, with some user tokens masked."""
    embeddings = model.get_input_embeddings()(batch.token_ids)  # (B, T, H)
    embeddings = embeddings * _kept_tokens(batch.user_tokens, generator)[..., None]
    hidden = model.model(inputs_embeds=embeddings).last_hidden_state  # (B, T, H)
    labelled = batch.labels != NO_LABEL
    return cross_entropy(model.lm_head(hidden[labelled]), batch.labels[labelled])


def _kept_tokens(user_tokens: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Draw the tokens that keep their embedding, (B, T), 1 or 0.

    A fraction of the dialogues loses user tokens, each at a random rate between 0 and 1, so that
    the evaluation's ablated inputs are not off-distribution.
    """
    rows = len(user_tokens)
    masked = torch.rand(rows, 1, generator=generator) < MASKED_DIALOGUES
    rate = torch.rand(rows, 1, generator=generator) * masked
    return (torch.rand(user_tokens.shape, generator=generator) >= rate * user_tokens).float()
