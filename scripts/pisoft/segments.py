"""Words and sentences of a tokenised text.

Both also split at gaps in the positions of tokens, which separate texts.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence

import numpy as np

_SENTENCE_END = re.compile(r"[.!?。！？؟…][\"'”’)\]]*\s*$")

Positions = Sequence[int] | np.ndarray


def words(texts: Sequence[str], positions: Positions) -> list[slice]:
    """Split tokens (m,) at white space, which stays with the following word if possible."""

    def ends(text: str, following: str) -> bool:
        return following[:1].isspace() or (text[-1:].isspace() and not text.isspace())

    return _parts(texts, positions, ends)


def sentences(texts: Sequence[str], positions: Positions) -> list[slice]:
    """Split tokens (m,) after `.`, `!`, `?` or `…` in front of a space, and at line ends."""

    def ends(text: str, following: str) -> bool:
        stops = "\n" in text or (_SENTENCE_END.search(text) and following[:1].isspace())
        return bool(stops) and "\n" not in following

    return _parts(texts, positions, ends)


def _parts(
    texts: Sequence[str], positions: Positions, ends: Callable[[str, str], bool]
) -> list[slice]:
    """Split tokens (m,) at gaps, and after tokens that end a part."""
    cuts = [
        cut
        for cut, (text, following) in enumerate(itertools.pairwise(texts), start=1)
        if positions[cut] != positions[cut - 1] + 1 or ends(text, following)
    ]
    return [slice(*span) for span in itertools.pairwise([0, *cuts, len(texts)])]
