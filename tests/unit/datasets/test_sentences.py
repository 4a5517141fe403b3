"""Sentence splitting on text as found in real biographies and narratives."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pisoft.datasets.sentences import first_sentences


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("J. R. R. Tolkien wrote books.", "They are long."),
        ("C.V. Ananda Bose is a civil servant.", "He is retired."),
        ("Modibo Adamu (c. 1771 – c. 1848) was a scholar.", "He led a revolt."),
        ("John Reed, Jr. (September 2, 1781) was a senator.", "Reed was born in Bridgewater."),
        ("He is the son of Martin Luther King Jr.", "He lives in Atlanta."),
        ("He moved to the U.S. Senate in 2009.", "Kappos was a lawyer."),
        ("He moved to the U.S.", "He became a citizen."),
        ("Mr. Smith met Dr. Jones at St. Mary's.", "Both left."),
        ("It costs 3.5 million euros.", "Nobody pays."),
        ("He was born on 12 Jan. 1950 in Lyon.", "His mother was French."),
        ("She came in at No. 5 in the charts.", "It was her best year."),
        ("He was born in 1950.", "Later he moved."),
        ("She was 25.", "Smith was 30."),
        ('He said "Stop!" and left.', "Nobody moved."),
        ('"Nobody moved."', "Then all ran."),
        ('He won the "Golden Age."', "Critics disagreed."),
        ("He left (see fig. 3. It shows this) at once.", "Nobody followed."),
        ("What happened?", "Nobody knows!"),
        ("Wait... what was that?", "It was nothing."),
        ("He sat.", "Bob sat too."),
        ("He enjoyed the sun.", "Children played."),
        ("A headline without a full stop", "\n\n\n\nThe text begins."),
        ("The text ends here.", "\n\nA new paragraph begins."),
    ],
)
def test_the_first_sentence_ends_where_a_reader_would_end_it(first, second):
    joiner = "" if second[0] == "\n" else " "
    text = f"{first}{joiner}{second} And so on, and so forth."
    assert first_sentences(text, 1) == first
    assert first_sentences(text, 2) == first + joiner + second


@pytest.mark.parametrize("text", ["", "no end", "One. Two.", "Only one sentence, asked for two."])
def test_a_text_with_too_few_sentences_stays_whole(text):
    assert first_sentences(text, 2) == text


@given(st.text(alphabet='aA1.!? \n"()é\u0301', max_size=60), st.integers(1, 4))
def test_the_result_is_a_prefix_and_grows_with_the_count(text, n):
    part = first_sentences(text, n)
    assert text.startswith(part)
    assert part == part.rstrip()
    assert first_sentences(text, n + 1).startswith(part)


def test_biographies_give_two_sentences(shared):
    """Every first two sentences of the real records end in a full stop and not in an initial."""
    for line in (shared / "data/wikibio/evaluation.jsonl").read_text("utf-8").strip().split("\n"):
        part = first_sentences(json.loads(line)["wiki_bio_text"], 2)
        assert part.endswith((".", '."', '".')), part
        assert not part.endswith((" Jr.", " c.", " b.", " St.")), part
        assert 60 < len(part) < 800, part


@pytest.mark.parametrize(
    "text",
    [
        "." * 100_000,
        "a. " * 50_000,
        "(" * 50_000 + "a. B " * 20_000,
        " " * 100_000 + ".",
        "a\n\n\n" * 30_000,
        "!" + "\"" * 100_000,
        "x" * 100_000 + ". Y " * 2,
        "1. A " * 20_000,
        "." + ")" * 100_000,
    ],
    ids=["dots", "initials", "brackets", "spaces", "blank lines", "quotes", "word", "numbers",
         "closing"],
)  # fmt: skip
@pytest.mark.timeout(60)
def test_splitting_time_is_not_quadratic(text):
    """100,000 full stops took 40 seconds."""
    assert text.startswith(first_sentences(text, 10**9).rstrip())
