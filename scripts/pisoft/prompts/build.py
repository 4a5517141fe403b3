"""Prompts of sampled records as token ids, with exact masks of each token's origin.

Rendering (:mod:`.chat`) yields the character spans of messages and inserted texts; a token belongs
to a span if they share a character.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Any

from pisoft.config.jobs.records import PromptJob
from pisoft.errors import BenchmarkError
from pisoft.prompts.chat import (
    ChatFormat,
    PlainFormat,
    Range,
    Span,
    TemplateFormat,
    Tokens,
    conversation_of,
    render_with_spans,
)
from pisoft.prompts.token_texts import token_texts
from pisoft.records import placeholders
from pisoft.store.parquet import CONTROL_TOKEN, NO_CONTENT_TOKENS, OK, PROMPT_TOO_LONG

logger = logging.getLogger(__name__)

Row = dict[str, Any]
DUMMY_TEXT = "example"  # placeholder for texts where only the assistant's turn matters


@dataclass(frozen=True)
class Prompt:
    """One rendered and tokenised prompt."""

    text: str
    spans: Sequence[Span]
    tokens: Tokens

    def fields(self) -> list[Span]:
        """Return the spans of inserted texts."""
        return [span for span in self.spans if span.kind == "field"]


def build_prompts(
    samples: Sequence[Row], settings: PromptJob, tokenizer: Any, context: int | None
) -> list[Row]:
    """Return rows of contract kind `prompts`, one per row of kind `samples` and in their order.

    Token ids equal `tokenizer.apply_chat_template(messages, add_generation_prompt=True)`. A record
    that spells a control token (`<|eot_id|>`, `[/INST]`) gets a status instead. A prompt that is
    too long loses the end of one text, never a part of the template. `tokenizer` is a fast one of
    transformers; `context` is the model's longest sequence in tokens, or None if unknown.

    Raises:
        BenchmarkError: the tokenizer has no chat template or one that refuses or rewrites the
            messages, label words share their first token, or the context has no room for a prompt.
    """
    builder = _Builder(settings, tokenizer, context)
    rows = [builder.row(sample) for sample in samples]
    failed = Counter(row["status"] for row in rows if row["status"] != OK)
    logger.info(
        "%s: %d prompts, %d truncated%s",
        builder.where,
        len(rows) - failed.total(),
        sum(row["truncated"] for row in rows),
        "".join(f", {count} {status}" for status, count in failed.items()),
    )
    return rows


class _Builder:
    """Builds the prompts of one model and dataset."""

    def __init__(self, settings: PromptJob, tokenizer: Any, context: int | None) -> None:
        self.where = f"model '{settings.model.name}', dataset '{settings.dataset}'"
        self._settings, self._tokenizer = settings, tokenizer
        chat_format = PlainFormat if settings.chat_template == "plain" else TemplateFormat
        self._format: ChatFormat = chat_format(tokenizer, settings.label_words, self.where)
        self._used_fields = sorted(
            {name for message in settings.messages for name in placeholders(message.content)}
        )
        # The conversation before an answer, with placeholders for the texts of records.
        self._example = conversation_of(
            settings.messages, dict.fromkeys(self._used_fields, DUMMY_TEXT)
        )
        self._limit = self._token_limit(context)
        self._candidates = self._candidate_tokens()

    def row(self, sample: Row) -> Row:
        """Return the prompt of one sample; a failed sample passes through with its status."""
        if sample["status"] != OK:
            return self._without_prompt(sample, sample["status"])
        fitted = self._fitted(sample["fields"])
        if fitted is None:
            return self._without_prompt(sample, PROMPT_TOO_LONG)
        prompt, truncated = fitted
        if self._spells_control_token(prompt):
            return self._without_prompt(sample, CONTROL_TOKEN)
        masks = self._masks(prompt, sample["evidence"])
        if not any(masks["content_mask"]):
            return self._without_prompt(sample, NO_CONTENT_TOKENS)
        return {
            **self._without_prompt(sample, OK),
            "input_ids": prompt.tokens.ids,
            "token_texts": token_texts(self._tokenizer, prompt.tokens.ids),
            **masks,
            "prompt_text": prompt.text,
            "counterfactuals": self._counterfactuals(prompt, sample["counterfactuals"]),
            "truncated": truncated,
        }

    def _without_prompt(self, sample: Row, status: str) -> Row:
        return {
            "sample_id": sample["sample_id"],
            "input_ids": [],
            "token_texts": [],
            "content_mask": [],
            "user_mask": [],
            "bos_mask": [],
            "evidence_mask": None,
            "counterfactuals": None,
            "prompt_text": "",
            "label": sample["label"],
            "label_words": list(self._candidates.values()),
            "label_token_ids": list(self._candidates),
            "truncated": False,
            "status": status,
        }

    def _masks(self, prompt: Prompt, evidence: Sequence[Row] | None) -> Row:
        """Return the masks, each with one truth value per token."""
        tokens, begin_id = prompt.tokens, self._tokenizer.bos_token_id
        users = [s.range for s in prompt.spans if (s.kind, s.name) == ("message", "user")]
        return {
            "content_mask": tokens.overlapping(span.range for span in prompt.fields()),
            "user_mask": tokens.overlapping(users),
            "bos_mask": [i == 0 and token == begin_id for i, token in enumerate(tokens.ids)],
            "evidence_mask": None
            if evidence is None
            else tokens.overlapping(_evidence_ranges(prompt, evidence)),
        }

    def _counterfactuals(
        self, prompt: Prompt, counterfactuals: Sequence[Row] | None
    ) -> list[Row] | None:
        """Return counterfactual prompts, each with the mask of its evidence in the clean prompt."""
        if counterfactuals is None:
            return None
        rows = []
        for changed in counterfactuals:
            fitted = self._fitted(changed["fields"])
            assert fitted is not None, "if it did not fit, the clean prompt would not either"
            mask = prompt.tokens.overlapping(_evidence_ranges(prompt, changed["evidence"]))
            ids = fitted[0].tokens.ids
            rows.append({"answer": changed["answer"], "evidence_mask": mask, "input_ids": ids})
        return rows

    def _token_limit(self, context: int | None) -> int | None:
        """Return the longest allowed prompt in tokens, or None if unlimited."""
        limits = [] if self._settings.max_tokens is None else [self._settings.max_tokens]
        reserved = self._settings.reserved_tokens
        if context is not None:
            if context <= reserved:
                raise BenchmarkError(
                    f"{self.where}: a context of {context} tokens leaves no room for a prompt "
                    f"beside {reserved} generated tokens; lower `generation.max_new_tokens`"
                )
            limits.append(context - reserved)
        return min(limits, default=None)

    def _fitted(self, texts: Mapping[str, str]) -> tuple[Prompt, bool] | None:
        """Return the prompt and whether it was shortened; None if it is too long even then."""
        texts = dict(texts)
        longest = max(self._used_fields, key=lambda field: len(texts[field]))
        name = self._settings.truncate or longest
        truncated = False
        while True:
            prompt = self._prompt(texts)
            excess = 0 if self._limit is None else len(prompt.tokens.ids) - self._limit
            if excess <= 0:
                return prompt, truncated
            if not texts[name]:
                return None
            texts[name] = _shortened(prompt, name, texts[name], excess)
            truncated = True

    def _prompt(self, texts: Mapping[str, str]) -> Prompt:
        messages = self._settings.messages
        text, spans = render_with_spans(messages, texts, self._format.render, self.where)
        return Prompt(text, spans, self._format.tokenise(text))

    def _spells_control_token(self, prompt: Prompt) -> bool:
        """Return whether a record's text, as opposed to the template, spells a control token."""
        tokens, controls = prompt.tokens, self._control_tokens
        inserted = tokens.overlapping(span.range for span in prompt.fields())
        return any(
            # The unknown token also encodes texts that do not spell it; these do not count.
            from_record and token in controls and controls[token] in prompt.text[start:end]
            for token, (start, end), from_record in zip(
                tokens.ids, tokens.offsets, inserted, strict=True
            )
        )

    @cached_property
    def _control_tokens(self) -> dict[int, str]:
        """Spelling of special tokens, and of other added tokens the chat template writes."""
        return {
            token_id: token.content
            for token_id, token in self._tokenizer.added_tokens_decoder.items()
            if token.special
            or (token.content in self._format.template and not token.content.isspace())
        }

    def _candidate_tokens(self) -> dict[int, str]:
        """Return the tokens that answer with a label word, each with its word.

        These are the first token of each word in the assistant's turn, which must differ, and
        further spellings: models do not always keep their template's space before an answer.
        """
        words = self._settings.label_words
        candidates: dict[int, str] = {}
        for word in words:
            for spelling in self._control_tokens.values():
                if spelling in word:
                    raise BenchmarkError(
                        f"{self.where}: label word '{word}' holds the control token {spelling!r}, "
                        "which cannot be an answer; choose another word"
                    )
            token = self._first_token(word)
            if token in candidates:
                raise BenchmarkError(
                    f"{self.where}: label words '{candidates[token]}' and '{word}' begin with the "
                    f"same token {self._tokenizer.decode([token])!r}; choose words that differ "
                    "there"
                )
            candidates[token] = word
        for word in words:
            for token in self._whole_word_tokens(word):
                candidates.setdefault(token, word)
        return candidates

    def _whole_word_tokens(self, word: str) -> list[int]:
        """Return single tokens that spell a word after the prompt, with and without a space."""
        text = self._format.render(self._example)
        prompt = self._format.tokenise(text).ids
        answers = [self._format.tokenise(text + space + word).ids for space in ("", " ")]
        return [
            ids[-1]
            for ids in answers
            if ids[:-1] == prompt and self._tokenizer.decode(ids[-1:]).strip() == word
        ]

    def _first_token(self, word: str) -> int:
        """Return the first token of a word with which the assistant answers the prompt.

        Some templates (Mistral v0.3) write the system message into the last turn, so it moves when
        an answer follows; the conversation without a system message is used then.
        """
        without_system = [turn for turn in self._example if turn["role"] != "system"]
        for conversation in filter(None, (self._example, without_system)):
            prompt = self._format.tokenise(self._format.render(conversation)).ids
            answered = self._format.answered_ids(conversation, word)
            if answered[: len(prompt)] == prompt and len(answered) > len(prompt):
                return answered[len(prompt)]
        raise BenchmarkError(
            f"{self.where}: the conversation answered with '{word}' does not begin with the "
            "prompt's tokens, so the answer's first token is unknown; use another chat template"
        )


def _shortened(prompt: Prompt, name: str, text: str, excess: int) -> str:
    """Cut about `excess` tokens, or more, off the end of a field's text."""
    spans = [span for span in prompt.fields() if span.name == name]
    if not spans:
        return ""
    span = spans[0]
    starts = [
        max(start, span.start)
        for start, end in prompt.tokens.offsets
        if start < span.end and end > span.start
    ]
    kept = len(starts) - ceil(excess / len(spans))
    if kept <= 0:
        return ""
    return text[: span.skipped + starts[kept] - span.start].rstrip()


def _evidence_ranges(prompt: Prompt, evidence: Sequence[Row]) -> list[Range]:
    """Return the character ranges of the evidence in the prompt, without parts cut off."""
    ranges = []
    for span in prompt.fields():
        for piece in evidence:
            if piece["field"] == span.name:
                start = span.start + max(0, piece["start"] - span.skipped)
                end = min(span.end, span.start + piece["end"] - span.skipped)
                if start < end:
                    ranges.append((start, end))
    return ranges
