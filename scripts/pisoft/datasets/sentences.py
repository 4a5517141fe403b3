"""Splitting running English text into sentences."""

from __future__ import annotations

import re

# Full stops, question or exclamation marks with closing quotes or brackets, before white space and
# a possible start of a sentence; or a last word before a blank line.
_END = re.compile(
    r"""(?<![.!?])[.!?]++["'”’)\]]*+(?=\s+["'“‘(\[]*[A-Z\d])"""
    r"""|(?<=[^\s.!?"'”’)\]])(?=[^\S\n]*+\n[^\S\n]*+\n)"""
)
_LONGEST_WORD = 40  # characters inspected before a full stop
# After initials, abbreviations and dates, a sentence goes on unless a typical first word follows.
_ABBREVIATION = re.compile(
    r"(?<![\w'])(?:[^\W\d_]|(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}|ca|vs|Mr|Mrs|Ms|Dr|Prof|Rev|St|Ft|Mt|"
    r"Gen|Col|Maj|Capt|Lt|Sgt|Gov|Sen|Rep|Jr|Sr|Inc|Ltd|Co|Corp|No|Vol|Jan|Feb|Mar|Apr|Jun|Jul|Aug|"
    r"Sept?|Oct|Nov|Dec)\.$"
)
_BEGINNING = re.compile(
    r"\s+(?:He|She|It|They|His|Her|Its|Their|The|A|An|In|On|At|After|From|This|As|When|While|For|"
    r"During|Since)\b"
)


def first_sentences(text: str, n: int) -> str:
    """Return the first `n` sentences of a text, n ≥ 1.

    This is a prefix without trailing white space, so character offsets stay valid. Initials ("John
    F. Kennedy"), titles, dates ("c. 1850"), decimal numbers and parentheses do not end a sentence.
    """
    count = depth = begin = 0
    for boundary in _END.finditer(text):
        end = boundary.end()
        depth += text.count("(", begin, end) - text.count(")", begin, end)
        begin = end
        goes_on = _ABBREVIATION.search(text, max(0, end - _LONGEST_WORD), end)
        if depth > 0 or (goes_on and not _BEGINNING.match(text, end)):
            continue
        count += 1
        if count == n:
            return text[:end]
    return text.rstrip()
