"""Texts of tokens for readers; models never see them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

NOT_UTF8 = "\N{REPLACEMENT CHARACTER}"
ANCHOR = "a"  # decoders drop the space before a text's first token, so each is decoded after this
_BYTE_PIECE = re.compile("<0x[0-9A-F]{2}>")


def token_texts(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """Return the text of each token of ids (tokens,), its leading space included.

    A token that begins or ends inside a character has no text; its stray bytes are written as in
    the vocabulary, `<0xF0>`, or as `\\xf0` for a byte-level vocabulary. The tokenizer is a fast one
    of transformers.
    """
    anchor = tokenizer.encode(ANCHOR, add_special_tokens=False)[-1:]
    before = len(tokenizer.decode(anchor))
    texts = {token: tokenizer.decode([*anchor, token])[before:] for token in set(ids)}
    return [
        _stray_bytes(tokenizer.convert_ids_to_tokens(token), texts[token])
        if NOT_UTF8 in texts[token]
        else texts[token]
        for token in ids
    ]


def _stray_bytes(piece: str, text: str) -> str:
    """Return the text of a vocabulary entry whose bytes are not whole characters."""
    if _BYTE_PIECE.fullmatch(piece):
        return piece
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    by_character = {character: byte for byte, character in bytes_to_unicode().items()}
    if not set(piece) <= set(by_character):
        return text
    return bytes(by_character[character] for character in piece).decode(errors="backslashreplace")
