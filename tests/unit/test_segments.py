"""Words and sentences, token by token."""

import numpy as np
import pytest

from pisoft.segments import sentences, words


def test_sentences_end_at_punctuation_line_ends_and_gaps():
    texts = ["A", " 3", ".", "5", " b", '."', " C", "?", "\n", "D", " e", "F"]
    positions = np.array([*range(11), 14])
    parts = ["".join(texts[part]) for part in sentences(texts, positions)]
    assert parts == ['A 3.5 b."', " C?\n", "D e", "F"]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([" a", " fi", "ne", " film", "."], [" a", " fine", " film."]),
        (["end", ".\n\n", "The", "\n", "next"], ["end.\n\n", "The", "\nnext"]),
    ],
)
def test_words_include_leading_white_space(texts, expected):
    assert ["".join(texts[part]) for part in words(texts, range(len(texts)))] == expected


def test_no_word_spans_a_gap():
    assert words(["fi", "ne"], [4, 6]) == [slice(0, 1), slice(1, 2)]
