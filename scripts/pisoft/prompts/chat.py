"""Rendering of conversations as prompts, and tokenisation with character offsets."""

from __future__ import annotations

import logging
import signal
import string
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

from pisoft.config.datasets import Message
from pisoft.datasets.hub import first_line
from pisoft.errors import BenchmarkError

logger = logging.getLogger(__name__)

Conversation = list[dict[str, str]]
Range = tuple[int, int]  # characters, end-exclusive
LONGEST_TEMPLATE = 1_000_000  # characters; the longest in use have some ten thousand
LONGEST_RENDERING = 10.0  # seconds of processor time; templates in use take milliseconds
PRIVATE_USE = range(0x100000, 0x10FFFE)  # plane 16: characters without a meaning


@dataclass(frozen=True)
class Tokens:
    """Token ids of a text, with the range of characters that each token covers."""

    ids: list[int]
    offsets: list[Range]

    def overlapping(self, ranges: Iterable[Range]) -> list[bool]:
        """Return for each token whether it shares a character with one of the ranges."""
        ranges = list(ranges)
        return [
            any(start < last and end > first for first, last in ranges)
            for start, end in self.offsets
        ]


@dataclass(frozen=True)
class Span:
    """A range of a prompt's characters, and its content."""

    kind: Literal["message", "field"]
    name: str  # the role, or the field's name
    start: int = 0
    end: int = 0
    skipped: int = 0  # leading white space of the field's text, which the span leaves out

    @property
    def range(self) -> Range:
        """The range of characters, end-exclusive."""
        return self.start, self.end


# Chat formats ---------------------------------------------------------------------------------


class TemplateFormat:
    """The chat template that comes with a tokenizer.

    Raises:
        BenchmarkError: the tokenizer has no chat template, or one of over a million characters.
    """

    def __init__(self, tokenizer: Any, label_words: Sequence[str], where: str) -> None:
        if not tokenizer.chat_template:
            raise BenchmarkError(
                f"{where}: the tokenizer has no chat template; set `chat_template: plain` in the "
                "model's catalogue entry"
            )
        self.template: str = tokenizer.get_chat_template()
        if len(self.template) > LONGEST_TEMPLATE:
            raise BenchmarkError(
                f"{where}: the chat template has {len(self.template)} characters, allowed are "
                f"{LONGEST_TEMPLATE}"
            )
        self._tokenizer, self._where = tokenizer, where
        if "strftime_now" in self.template:
            logger.warning("%s: the chat template writes today's date into every prompt", where)

    def render(self, conversation: Conversation) -> str:
        """Return the prompt's text, up to the start of the assistant's answer.

        Raises:
            BenchmarkError: the template refuses the messages.
        """
        return self._apply(conversation, add_generation_prompt=True)

    def tokenise(self, text: str) -> Tokens:
        """Tokenise as `apply_chat_template` does."""
        return encode(self._tokenizer, text)

    def answered_ids(self, conversation: Conversation, answer: str) -> list[int]:
        """Return the token ids of the conversation followed by the assistant's answer."""
        answered = [*conversation, {"role": "assistant", "content": answer}]
        return encode(self._tokenizer, self._apply(answered, add_generation_prompt=False)).ids

    def _apply(self, conversation: Conversation, add_generation_prompt: bool) -> str:
        try:
            with _time_limit():
                return self._tokenizer.apply_chat_template(
                    conversation, tokenize=False, add_generation_prompt=add_generation_prompt
                )
        except Exception as error:  # a template is a program: it may fail in any way
            raise BenchmarkError(
                f"{self._where}: the chat template refuses the messages: {first_line(error)}"
            ) from error


@contextmanager
def _time_limit() -> Iterator[None]:
    """Limit a template's processor time, in the main thread only: signals reach no other."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise TimeoutError(f"it takes more than {LONGEST_RENDERING} s of processor time")

    previous = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_RENDERING)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)


class PlainFormat:
    """Begin-of-sequence token and the messages, joined by blank lines; for base models.

    A label word follows another blank line, which belongs to the prompt; open text has none.
    """

    template = ""

    def __init__(self, tokenizer: Any, label_words: Sequence[str], where: str) -> None:
        self._tokenizer = tokenizer
        self._begin: str = tokenizer.bos_token or ""
        # GPT-2's tokenizer splits a blank line differently before a word, so append one.
        self._anchor = label_words[0] if label_words else ""

    def render(self, conversation: Conversation) -> str:
        """Return the prompt's text."""
        contents = [message["content"].strip() for message in conversation]
        if self._anchor:
            contents.append("")
        return self._begin + "\n\n".join(contents)

    def tokenise(self, text: str) -> Tokens:
        """Tokenise as `tokenizer(text)` does."""
        tokens = self._encoded(text + self._anchor)
        length = sum(start < len(text) for start, _ in tokens.offsets)
        return Tokens(tokens.ids[:length], tokens.offsets[:length])

    def answered_ids(self, conversation: Conversation, answer: str) -> list[int]:
        """Return the token ids of the conversation followed by the assistant's answer."""
        return self._encoded(self.render(conversation) + answer).ids

    def _encoded(self, text: str) -> Tokens:
        """Tokenise after the begin-of-sequence token, so SentencePiece sees a beginning."""
        shift = len(self._begin)
        body = encode(self._tokenizer, text[shift:])
        begin = Tokens([self._tokenizer.bos_token_id], [(0, shift)]) if shift else Tokens([], [])
        offsets = [(start + shift, end + shift) for start, end in body.offsets]
        return Tokens(begin.ids + body.ids, begin.offsets + offsets)


ChatFormat = TemplateFormat | PlainFormat


# Tokenising -----------------------------------------------------------------------------------


def encode(tokenizer: Any, text: str) -> Tokens:
    """Tokenise a rendered text, control tokens included, with a fast tokenizer."""
    encoding = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    return Tokens(encoding["input_ids"], _untrimmed(encoding["offset_mapping"]))


def _untrimmed(offsets: Sequence[Range]) -> list[Range]:
    """Restore the ranges of white-space tokens that were trimmed to nothing."""
    covered: list[Range] = []
    previous = 0
    for start, end in offsets:
        covered.append((min(start, previous), end) if start == end else (start, end))
        previous = max(previous, end)
    return covered


# Spans ----------------------------------------------------------------------------------------


def conversation_of(messages: Sequence[Message], texts: Mapping[str, str]) -> Conversation:
    """Return the messages with the texts of a record inserted."""
    return [
        {"role": m.role, "content": "".join(_pieces(m.content, lambda name: texts[name]))}
        for m in messages
    ]


def render_with_spans(
    messages: Sequence[Message],
    texts: Mapping[str, str],
    render: Callable[[Conversation], str],
    where: str,
) -> tuple[str, list[Span]]:
    """Render a prompt and locate its messages and inserted texts (by field name).

    The template is rendered a second time with private-use characters around every message and
    text. White space at their ends stays outside, so templates may trim it. Errors name `where`.

    Raises:
        BenchmarkError: the template changes texts, so their position is unknown, or texts hold
            nearly all private-use characters.
    """
    plain = conversation_of(messages, texts)
    text = render(plain)
    marks = _Marks(text + "".join(turn["content"] for turn in plain), where)
    marked = []
    for message in messages:
        pieces = _pieces(message.content, lambda name: marks.wrap("field", name, texts[name]))
        content = marks.wrap("message", message.role, "".join(pieces))
        marked.append({"role": message.role, "content": content})
    unmarked, spans = marks.unwrap(render(marked))
    if unmarked != text:
        raise BenchmarkError(
            f"{where}: the chat template does more with the messages than insert them, so the "
            "place of a record's text is unknown; use another chat template"
        )
    return text, spans


def _pieces(content: str, insert: Callable[[str], str]) -> list[str]:
    """Return a message's literal texts and inserted texts, in order."""
    pieces = []
    for literal, name, _, _ in string.Formatter().parse(content):
        pieces.append(literal)
        if name is not None:
            pieces.append(insert(name))
    return pieces


class _Marks:
    """Pairs of private-use characters around spans, unused in the text that they mark."""

    def __init__(self, text: str, where: str) -> None:
        self._where = where
        taken = set(text)
        self._unused = (chr(code) for code in PRIVATE_USE if chr(code) not in taken)
        self._spans: dict[str, Span] = {}  # by opening mark
        self._openings: dict[str, str] = {}  # by closing mark

    def wrap(self, kind: Literal["message", "field"], name: str, text: str) -> str:
        """Return the text with marks around it, inside the white space at its ends."""
        core = text.strip()
        if not core:
            return text
        skipped = len(text) - len(text.lstrip())
        try:
            opening, closing = next(self._unused), next(self._unused)
        except StopIteration:
            raise BenchmarkError(
                f"{self._where}: messages and texts leave too few characters of plane 16 of the "
                "private use area to mark where they stand"
            ) from None
        self._spans[opening] = Span(kind, name, skipped=skipped)
        self._openings[closing] = opening
        return text[:skipped] + opening + core + closing + text[skipped + len(core) :]

    def unwrap(self, marked: str) -> tuple[str, list[Span]]:
        """Return the text without marks, and the marked spans in the order of their ends."""
        clean: list[str] = []
        spans: list[Span] = []
        starts: dict[str, int] = {}
        for character in marked:
            opening = self._openings.get(character)
            if character in self._spans:
                starts[character] = len(clean)
            elif opening is None:
                clean.append(character)
            elif opening in starts:
                span = replace(self._spans[opening], start=starts.pop(opening), end=len(clean))
                spans.append(span)
        return "".join(clean), spans
