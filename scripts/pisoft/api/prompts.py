"""Prompts from texts and messages, as rows of contract `prompts`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from pandas import DataFrame

from pisoft.api.models import AnyModel, load
from pisoft.config.datasets import Message
from pisoft.config.jobs.fields import LoadedModel
from pisoft.config.jobs.records import PromptJob
from pisoft.config.validation import validate
from pisoft.errors import BenchmarkError, in_one_line
from pisoft.models.model import LanguageModel
from pisoft.prompts.build import build_prompts
from pisoft.store.parquet import OK, PROMPT_TOO_LONG, STATUSES
from pisoft.store.schemas import SCHEMAS

Prompt = dict[str, Any]
"""Row of contract `prompts`: `input_ids`, `token_texts`, `content_mask` and others."""
Messages = str | Sequence[Mapping[str, str]]
"""Plain text, or turns with `role` and `content`."""


@in_one_line
def prompt(model: AnyModel, messages: Messages, *, label_words: Sequence[str] = ()) -> Prompt:
    """Build a prompt whose user turns are its content, which perturbations may touch.

    Args:
        model: the model that will read it; see :func:`pisoft.load`.
        messages: turns with `role` (`system` or `user`) and `content` for the model's chat
            template; or plain text, for models without a template.
        label_words: answers to choose from; by default, the model generates freely.

    Raises:
        BenchmarkError: an invalid message, no content, or too many tokens for the model.
    """
    return usable_prompt(load(model), messages, label_words)


def usable_prompt(
    model: LanguageModel, messages: Messages | Prompt, label_words: Sequence[str] = ()
) -> Prompt:
    """Return a prompt unchanged if it is built, else build it by :func:`prompt`."""
    row = _row(model, messages, label_words, "prompt")
    if row["status"] != OK:
        raise BenchmarkError(f"prompt: cannot be built: {row['status']}: {STATUSES[row['status']]}")
    check_length(model, row["input_ids"], "prompt")
    return row


def prompt_rows(
    model: LanguageModel, prompts: Iterable[Messages | Prompt], reserved: int = 0
) -> list[Prompt]:
    """Return a row for each prompt; the status of a row says why a prompt could not be built.

    Args:
        model: the model that will read them.
        prompts: results or arguments of :func:`prompt`.
        reserved: number of tokens that the model reads after a prompt.

    Raises:
        BenchmarkError: not a list, an item that is not a prompt, or two equal ones.
    """
    if isinstance(prompts, str | Mapping | DataFrame) or not isinstance(prompts, Iterable):
        kind = type(prompts).__name__
        raise BenchmarkError(
            f"prompts: expected a list of prompts, got {kind}; write [prompt] for one"
        )
    rows: dict[str, Prompt] = {}
    for index, messages in enumerate(prompts):
        where = f"prompts: item {index}"
        row = _row(model, messages, (), where)
        if model.context is not None and len(row["input_ids"]) + reserved > model.context:
            row["status"] = PROMPT_TOO_LONG
        if row["sample_id"] in rows:
            first = [*rows].index(row["sample_id"])
            raise BenchmarkError(f"{where} is the same as item {first}; remove one of them")
        rows[row["sample_id"]] = row
    if not rows:
        raise BenchmarkError("prompts: the list is empty")
    return [*rows.values()]


def check_length(model: LanguageModel, ids: Sequence[int], where: str) -> None:
    """Raise a BenchmarkError if there are too many tokens for the model."""
    if model.context is not None and len(ids) > model.context:
        raise BenchmarkError(
            f"{where}: {len(ids)} tokens are more than the {model.context} that model "
            f"'{model.name}' can read"
        )


def _row(
    model: LanguageModel, messages: Messages | Prompt, label_words: Sequence[str], where: str
) -> Prompt:
    if isinstance(messages, dict) and "input_ids" in messages:
        if missing := [name for name in SCHEMAS["prompts"].names if name not in messages]:
            raise BenchmarkError(
                f"{where}: lacks {', '.join(missing)}, which a prompt of `pisoft.prompt` has"
            )
        if label_words:
            raise BenchmarkError("label_words: a prompt that has been built keeps its own")
        return dict(messages)
    plain = isinstance(messages, str)
    dialogue: Any = [{"role": "user", "content": messages}] if plain else messages
    if isinstance(dialogue, Mapping) or not isinstance(dialogue, Sequence):
        kind = type(messages).__name__
        raise BenchmarkError(f"{where}: expected a text or a list of messages, got {kind}")
    turns = [_turn(turn, f"{where}: message {index}") for index, turn in enumerate(dialogue)]
    if not any(turn["role"] == "user" and turn["content"].strip() for turn in dialogue):
        raise BenchmarkError(f"{where}: there is no user message with text")
    fields = {f"text{index}": turn["content"] for index, turn in enumerate(dialogue)}
    # Plain text and a chat of the same words are different prompts.
    text = "\n".join(f"{'text' if plain else turn['role']} {turn['content']}" for turn in dialogue)
    key = blake2b(text.encode(), digest_size=8).hexdigest()
    record = {"sample_id": key, "fields": fields, "label": None, "status": OK}
    record |= dict.fromkeys(("evidence", "counterfactuals"))
    unused = dict.fromkeys(("dtype", "quantization", "device"), "")
    settings = PromptJob(
        model=LoadedModel(name=model.name, repository=None, revision=None, **unused),
        chat_template="plain" if plain else "tokenizer",
        dataset="prompt",
        messages=tuple(_with_field(turn, name) for turn, name in zip(turns, fields, strict=True)),
        label_words=_checked_words(label_words),
        truncate=None,
        max_tokens=None,
        reserved_tokens=0,
    )
    (row,) = build_prompts([record], settings, model.tokenizer, context=None)
    return row


def _turn(turn: Any, where: str) -> Message:
    """Return a turn with its content escaped for `str.format`."""
    if not isinstance(turn, Mapping):
        kind = type(turn).__name__
        raise BenchmarkError(f"{where}: expected a message with `role` and `content`, got {kind}")
    content = turn.get("content")
    if isinstance(content, str):
        turn = {**turn, "content": content.replace("{", "{{").replace("}", "}}")}
    return validate(Message, turn, where)


def _with_field(turn: Message, name: str) -> Message:
    """Return a turn; the content of a user turn becomes the field."""
    return turn.model_copy(update={"content": f"{{{name}}}"}) if turn.role == "user" else turn


def _checked_words(words: Any) -> tuple[str, ...]:
    is_list = isinstance(words, Iterable) and not isinstance(words, str)
    checked = tuple(words) if is_list else (None,)
    if not all(isinstance(word, str) and word.strip() for word in checked):
        raise BenchmarkError(f"label_words: expected a list of words, got {words!r}")
    return checked
