"""Generated records: guarantees on evidence, labels and reproducibility."""

from __future__ import annotations

import re
from collections import Counter
from math import log

import pytest

from pisoft.config.datasets import Haystack
from pisoft.datasets.embedded import COLOURS, NAMES, OPINIONS, count_tokens, make_records

COUNT = 2000
TASKS = ("sentiment", "why")
STATEMENTS = {"needle": 1, "conflict": 2}
LONGEST_SENTENCE = 11  # tokens of a neutral one
WORDS = {label: set(words.split()) for label, words in OPINIONS.items()}


@pytest.fixture(scope="module")
def reviews():
    return make_records("sentiment", COUNT, seed=3)


@pytest.fixture(scope="module")
def narratives():
    return make_records("why", COUNT, seed=3)


def evidence_texts(record):
    """The texts that the evidence offsets point at."""
    return [
        record["fields"][span["field"]][span["start"] : span["end"]] for span in record["evidence"]
    ]


def filler_words(record):
    """The words of a review outside its evidence."""
    text = record["fields"]["text"]
    for span in reversed(record["evidence"]):
        text = text[: span["start"]] + text[span["end"] :]
    return re.findall(r"\w+", text)


HAYSTACK = Haystack(length=128)


@pytest.mark.parametrize(
    ("task", "options"),
    [*((task, ()) for task in TASKS), *((one, (HAYSTACK,)) for one in STATEMENTS)],
)
def test_records_depend_only_on_task_seed_index_and_options(task, options):
    records = make_records(task, 40, 5, *options)
    assert make_records(task, 40, 5, *options) == records
    assert make_records(task, 25, 5, *options) == records[:25]
    assert make_records(task, 40, 6, *options) != records
    assert records[17]["record_id"] == f"{task}-000017"
    assert len({record["record_id"] for record in records}) == 40
    assert (records[0]["counterfactuals"] is None) == (task in TASKS)
    if options:
        assert make_records(task, 40, 5, Haystack(length=129)) != records


@pytest.mark.parametrize("task", [*TASKS, *STATEMENTS])
def test_texts_are_rarely_repeated(task):
    records = make_records(task, COUNT, 0, *([HAYSTACK] if task in STATEMENTS else []))
    assert len({str(record["fields"]) for record in records}) > 0.99 * COUNT


def test_sentiment_evidence_is_exactly_the_opinion_words_of_the_label(reviews):
    assert not WORDS["positive"] & WORDS["negative"]
    assert len(WORDS["positive"]) == len(WORDS["negative"]) >= 24
    for record in reviews:
        text = record["fields"]["text"]
        marked, opinions = evidence_texts(record), WORDS["positive"] | WORDS["negative"]
        assert marked == [word for word in re.findall(r"\w+", text) if word in opinions]
        assert 1 <= len(marked) <= 3
        assert set(marked) <= WORDS[record["label"]]
        assert record["answer"] is None
        assert 12 <= len(text.split()) <= 30
        articles = re.findall(rf"\ban? (?:{'|'.join(marked)})\b", text, flags=re.I)
        assert not articles, "they tell the first letter"
    assert len({word.lower() for record in reviews for word in filler_words(record)}) >= 100


def test_labels_are_balanced_and_independent_of_the_opinion_word_count(reviews):
    for count in (2, 10, COUNT):
        labels = Counter(record["label"] for record in reviews[:count])
        assert labels == dict.fromkeys(OPINIONS, count // 2)
    positive, negative = (
        sum(len(r["evidence"]) for r in reviews if r["label"] == label) / (COUNT / 2)
        for label in OPINIONS
    )
    assert positive == pytest.approx(negative, abs=0.15)


def test_filler_does_not_predict_the_label(reviews):
    half = COUNT // 2
    counts = {label: Counter() for label in OPINIONS}
    for record in reviews[:half]:
        counts[record["label"]].update(filler_words(record))
    totals = {label: sum(counter.values()) for label, counter in counts.items()}

    def log_odds(word):
        positive, negative = (
            log((counts[label][word] + 1) / (totals[label] + 1)) for label in OPINIONS
        )
        return positive - negative

    right = sum(
        (sum(map(log_odds, filler_words(record))) > 0) == (record["label"] == "positive")
        for record in reviews[half:]
    )
    # A naive Bayes classifier on the filler is at chance: within six standard errors of one half.
    assert abs(right / half - 0.5) < 6 * 0.5 / half**0.5


def test_the_answer_is_the_evidence_clause_of_the_person_in_question(narratives):
    for record in narratives:
        (reason,) = evidence_texts(record)
        assert record["answer"] == reason
        assert record["label"] is None
        name = record["fields"]["question"].split()[2]
        narrative = record["fields"]["narrative"]
        sentence = narrative[: record["evidence"][0]["start"]].rpartition(". ")[2]
        assert sentence.startswith(f"{name} ")
        assert sentence.endswith(" because ")
        assert narrative.count(reason) == 1
        assert 6 <= len(reason.split()) <= 12, "long enough for two explained steps"


def test_the_position_of_the_answer_varies(narratives):
    places = Counter(
        record["fields"]["narrative"][: record["evidence"][0]["start"]].count(". ")
        for record in narratives
    )
    assert set(places) == {0, 1, 2}
    assert max(places.values()) < 0.4 * COUNT


def test_the_first_word_of_an_answer_does_not_predict_later_ones(narratives):
    sixth_words = {}
    for record in narratives:
        words = record["answer"].split()
        sixth_words.setdefault(words[0], set()).add(words[5])
    assert len(sixth_words) >= 12
    assert all(len(words) >= 5 for words in sixth_words.values())


# Statements in a haystack -----------------------------------------------------------------------


def text_of(record, counterfactual=None):
    """Return the text of a record, or of one of its counterfactuals."""
    return (counterfactual or record)["fields"]["text"]


def statements_of(text):
    """Return the verb and the colour of every sentence of a person."""
    return re.findall(rf"(?:{'|'.join(NAMES.split())}) (\w+) (\w+)\.", text)


@pytest.mark.parametrize("task", STATEMENTS)
@pytest.mark.parametrize("length", [32, 128, 513, 4096])
def test_a_haystack_is_filled_with_whole_sentences(task, length):
    for record in make_records(task, 10, 0, Haystack(length=length)):
        for text in (record, *record["counterfactuals"]):
            assert length - LONGEST_SENTENCE < count_tokens(text_of(text)) <= length


@pytest.mark.parametrize("task", STATEMENTS)
@pytest.mark.parametrize("distractors", [0, 3, 10])
def test_evidence_is_the_verb_and_colour_of_each_statement(task, distractors):
    for record in make_records(task, 200, 1, Haystack(length=128, distractors=distractors)):
        stated = statements_of(text_of(record))
        planted = [colour for verb, colour in stated if verb == "picked"]
        assert len(planted) == STATEMENTS[task]
        assert len(stated) == len(planted) + distractors
        assert len(set(planted)) == len(planted)
        assert not {colour for verb, colour in stated if verb != "picked"} & {*planted}
        assert evidence_texts(record) == [f"picked {colour}" for colour in planted]
        words = Counter(re.findall(r"\w+", text_of(record)))
        assert words["picked"] == len(planted)
        assert sum(words[name] for name in NAMES.split()) == len(stated)
        assert sum(words[colour] for colour in COLOURS) == len(stated)
        assert [one["answer"] for one in record["counterfactuals"]] == planted
        assert record["label"] == planted[0]
        for one, colour in zip(record["counterfactuals"], planted, strict=True):
            assert evidence_texts(record | {"evidence": one["evidence"]}) == [f"picked {colour}"]


@pytest.mark.parametrize("task", STATEMENTS)
def test_a_counterfactual_changes_one_colour_to_an_unused_one(task):
    for record in make_records(task, 200, 2, Haystack(length=96)):
        words = re.split(r"\b", text_of(record))
        for one in record["counterfactuals"]:
            changed = zip(words, re.split(r"\b", text_of(one)), strict=True)
            ((old, new),) = [pair for pair in changed if pair[0] != pair[1]]
            assert old == one["answer"]
            assert new in COLOURS
            assert new not in words


@pytest.mark.parametrize("depth", [0, 0.25, 0.5, 1])
def test_a_needle_is_at_its_depth(depth):
    for record in make_records("needle", 20, 4, Haystack(length=512, depths=(depth,))):
        text, start = text_of(record), record["evidence"][0]["start"]
        others = re.findall(r"\. |\.$", text)
        before = text[:start].count(". ")
        assert before == pytest.approx(depth * (len(others) - 1), abs=0.5)


def test_every_depth_has_every_colour_as_an_answer():
    depths = (0, 0.3, 1)
    answers = Counter()
    for record in make_records("needle", 48, 5, Haystack(length=256, depths=depths)):
        place = record["evidence"][0]["start"] / len(text_of(record))
        answers[record["label"], min(depths, key=lambda depth, at=place: abs(depth - at))] += 1
    assert answers == {(colour, depth): 2 for colour in COLOURS for depth in depths}


def test_conflicting_statements_cover_all_pairs_of_depths():
    records = make_records("conflict", 100, 6, Haystack(length=512, depths=(0, 0.5, 1)))
    pairs = Counter(
        tuple(
            round(2 * one["evidence"][0]["start"] / len(text_of(record)))
            for one in record["counterfactuals"]
        )
        for record in records
    )
    assert set(pairs) == {(0, 1), (0, 2), (1, 2)}
    assert min(pairs.values()) > 15


@pytest.mark.parametrize("task", STATEMENTS)
def test_statements_and_distractors_do_not_depend_on_the_length(task):
    short, long = (make_records(task, 30, 7, Haystack(length=length)) for length in (64, 1024))
    for one, other in zip(short, long, strict=True):
        assert evidence_texts(one) == evidence_texts(other)
        assert Counter(statements_of(text_of(one))) == Counter(statements_of(text_of(other)))
