"""How values of a record are read: labels as text, and the fields that a message inserts."""

from __future__ import annotations

import string
from typing import Any


def label_key(value: Any) -> str:
    """Return the text under which a label value is looked up (`True` → `"true"`, `1.0` → `"1"`)."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = str(value)
    return text.lower() if text in ("True", "False") else text


def placeholders(template: str) -> list[str]:
    """Return the field names that a message template inserts, in order."""
    return [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]
