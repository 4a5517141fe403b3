"""Train the tiny language models of the embedded default, in half a minute on one core.

They have the architecture of a Llama-3 or a Mistral model, and its tokenizer layout and chat
template (:mod:`pisoft.demo.tokenizers`), so that everything downstream treats them like the
real ones.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch.nn.functional import cross_entropy
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedTokenizerFast,
)

from pisoft.demo.tokenizers import Architecture, Dialogue, render, train_tokenizer
from pisoft.demo.training import (
    CHECK_EVERY,
    NO_LABEL,
    Optimiser,
    package_versions,
    shuffled_batches,
)
from pisoft.errors import BenchmarkError
from pisoft.models.saving import save_model
from pisoft.store.files import TRAINING_REPORT

logger = logging.getLogger(__name__)


TinyModel: TypeAlias = LlamaForCausalLM | MistralForCausalLM


EARLY_STOP_ACCURACY = 0.995


MASKED_DIALOGUES = 0.3  # fraction of the training dialogues that lose some user tokens


@dataclass(frozen=True)
class EncodedDialogue:
    """A tokenised dialogue: its ids, where the answer starts, which tokens the user wrote."""

    token_ids: list[int]
    answer_start: int
    user_tokens: list[bool]
    group: str


@dataclass(frozen=True)
class Batch:
    """Right-padded dialogues: ids, next-token labels, which tokens the user wrote; each (B, T)."""

    token_ids: torch.Tensor
    labels: torch.Tensor
    user_tokens: torch.Tensor


def train_tiny_model(
    directory: Path,
    *,
    architecture: Architecture,
    hidden_size: int,
    layers: int,
    heads: int,
    key_value_heads: int,
    vocabulary_size: int,
    context: int,
    steps: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
    training: Sequence[Dialogue],
    held_out: Sequence[Dialogue],
    required_accuracy: float = 0.98,
    settings: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Train a model and its tokenizer from scratch and save both, and a report, in ``directory``.

    The report, also written as ``training.json``, holds the held-out accuracy (share of dialogues
    whose whole greedy answer is right) overall and by group, the steps, the seconds, the package
    versions and the ``settings`` of the job. ``directory`` appears complete or not at all; the same
    seed on the same machine gives the same weights.

    Raises:
        BenchmarkError: the held-out accuracy is below ``required_accuracy``, a dialogue does not
            fit the context, or the architecture is unknown.
    """
    started = time.perf_counter()
    tokenizer = train_tokenizer(training, architecture, vocabulary_size)
    encoded = [_encode(dialogue, tokenizer, context) for dialogue in training]
    encoded_held_out = [_encode(dialogue, tokenizer, context) for dialogue in held_out]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = _new_model(
            tokenizer, architecture, hidden_size, layers, heads, key_value_heads, context
        )
    steps_taken = _optimise(
        model, encoded, encoded_held_out, tokenizer, steps, batch_size, learning_rate, seed
    )
    accuracy = exact_match(model, encoded_held_out, tokenizer)
    if not accuracy["overall"] >= required_accuracy:
        raise BenchmarkError(
            f"the tiny {architecture} model answers {accuracy['overall']:.4f} of the held-out "
            f"dialogues correctly after {steps_taken} steps, but {required_accuracy:.4f} is "
            f"required (by group: {accuracy['groups']}); raise its steps, width or learning rate"
        )
    report = {
        "architecture": architecture,
        "accuracy": accuracy["overall"],
        "accuracy_by_group": accuracy["groups"],
        "required_accuracy": required_accuracy,
        "parameters": model.num_parameters(),
        "steps": steps_taken,
        "steps_allowed": steps,
        "seed": seed,
        "seconds": round(time.perf_counter() - started, 1),
        "versions": package_versions(),
        "settings": settings,
    }
    save_model(directory, model, tokenizer, {TRAINING_REPORT: report})
    return report


@torch.no_grad()
def exact_match(
    model: TinyModel, dialogues: Sequence[EncodedDialogue], tokenizer: PreTrainedTokenizerFast
) -> dict[str, Any]:
    """Share of dialogues whose whole greedy answer, end token included, is the expected one.

    Returns ``{"overall": share, "groups": {group: share}}``.
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
    if len(encoding["input_ids"]) > context:
        raise BenchmarkError(
            f"a dialogue takes {len(encoding['input_ids'])} tokens, more than the context of "
            f"{context}: {dialogue.messages[-1]['content'][:60]!r}"
        )
    offsets = encoding["offset_mapping"]
    user_text = dialogue.messages[-1]["content"].strip()
    user_start = prompt.rindex(user_text)
    user_end = user_start + len(user_text)
    return EncodedDialogue(
        token_ids=encoding["input_ids"],
        answer_start=next(i for i, (start, _) in enumerate(offsets) if start >= len(prompt)),
        user_tokens=[start < user_end and end > user_start for start, end in offsets],
        group=dialogue.group,
    )


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


def _new_model(
    tokenizer: PreTrainedTokenizerFast,
    architecture: Architecture,
    hidden_size: int,
    layers: int,
    heads: int,
    key_value_heads: int,
    context: int,
) -> TinyModel:
    """An untrained float32 model of the architecture, with tied embeddings."""
    shared = {
        "vocab_size": len(tokenizer),
        "hidden_size": hidden_size,
        "intermediate_size": 2 * hidden_size,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": key_value_heads,
        "max_position_embeddings": context,
        "tie_word_embeddings": True,
        "initializer_range": hidden_size**-0.5,  # the usual 0.02 is for widths of thousands
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": None,
        "dtype": "float32",
    }
    if architecture == "llama":
        model: TinyModel = LlamaForCausalLM(LlamaConfig(**shared))
    else:
        model = MistralForCausalLM(MistralConfig(**shared, sliding_window=context))
    return model


def _optimise(
    model: TinyModel,
    training: Sequence[EncodedDialogue],
    held_out: Sequence[EncodedDialogue],
    tokenizer: PreTrainedTokenizerFast,
    steps: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
) -> int:
    """Fit the answers; return the steps taken, fewer than allowed if the task is solved early."""
    optimiser = Optimiser(model, learning_rate, steps)
    generator = torch.Generator().manual_seed(seed)
    batches = shuffled_batches(training, batch_size, seed)
    for step in range(1, steps + 1):
        model.train()
        batch = _pad(next(batches), tokenizer.pad_token_id)
        loss = _answer_loss(model, batch, generator)
        optimiser.step(loss)
        if step % CHECK_EVERY == 0:
            accuracy = exact_match(model, held_out, tokenizer)
            logger.info("step %d/%d loss %.4f %s", step, steps, loss.item(), accuracy)
            if accuracy["overall"] >= EARLY_STOP_ACCURACY:
                return step
    return steps


def _answer_loss(model: TinyModel, batch: Batch, generator: torch.Generator) -> torch.Tensor:
    """Cross-entropy of the answer tokens, some user tokens being masked."""
    embeddings = model.get_input_embeddings()(batch.token_ids)  # (B, T, H)
    embeddings = embeddings * _kept_tokens(batch.user_tokens, generator)[..., None]
    hidden = model.model(inputs_embeds=embeddings).last_hidden_state  # (B, T, H)
    labelled = batch.labels != NO_LABEL
    return cross_entropy(model.lm_head(hidden[labelled]), batch.labels[labelled])


def _kept_tokens(user_tokens: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Draw which tokens keep their embedding: 1 or 0, shape (B, T).

    A fraction of the dialogues loses user tokens, each such dialogue at a rate of its own between
    0 and 1, so that the model has met every degree of masking the evaluation will show it.
    """
    rows = len(user_tokens)
    masked = torch.rand(rows, 1, generator=generator) < MASKED_DIALOGUES
    rate = torch.rand(rows, 1, generator=generator) * masked
    return (torch.rand(user_tokens.shape, generator=generator) >= rate * user_tokens).float()
