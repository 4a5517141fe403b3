"""A masked language model, and the replacements it proposes for the tokens of a prompt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class MaskedLanguageModel:
    """A masked language model with its tokenizer."""

    network: Any
    tokenizer: Any
    name: str
