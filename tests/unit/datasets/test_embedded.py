"""The embedded records: what they promise about evidence, labels and growth."""

from __future__ import annotations

import re
from collections import Counter
from math import log

import pytest

from pisoft.datasets.embedded import OPINIONS, make_records

COUNT = 2000
TASKS = ("sentiment", "why")
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
    """The words of a review without those of the evidence."""
    text = record["fields"]["text"]
    for span in reversed(record["evidence"]):
        text = text[: span["start"]] + text[span["end"] :]
    return re.findall(r"\w+", text)


@pytest.mark.parametrize("task", TASKS)
def test_records_depend_on_task_seed_and_index_alone(task):
    records = make_records(task, 40, seed=5)
    assert make_records(task, 40, seed=5) == records
    assert make_records(task, 25, seed=5) == records[:25]
    assert make_records(task, 40, seed=6) != records


@pytest.mark.parametrize("task", TASKS)
def test_record_ids_name_task_and_index_and_are_unique(task):
    ids = [record["record_id"] for record in make_records(task, 30, seed=0)]
    assert ids[17] == f"{task}-000017"
    assert len(set(ids)) == 30


@pytest.mark.parametrize("task", TASKS)
def test_a_narrative_or_review_is_seldom_repeated(task):
    texts = [str(record["fields"]) for record in make_records(task, COUNT, seed=0)]
    assert len(set(texts)) > 0.99 * COUNT


def test_sentiment_evidence_is_exactly_the_opinion_words_of_the_label(reviews):
    for record in reviews:
        found = evidence_texts(record)
        words = re.findall(r"\w+", record["fields"]["text"])
        planted = [word for word in words if word in WORDS["positive"] | WORDS["negative"]]
        assert found == planted
        assert 1 <= len(found) <= 3
        assert set(found) <= WORDS[record["label"]]
        assert record["answer"] is None


def test_sentiment_labels_are_balanced_at_every_even_count(reviews):
    for count in (2, 10, COUNT):
        assert Counter(record["label"] for record in reviews[:count]) == {
            "positive": count // 2,
            "negative": count // 2,
        }


def test_polarities_share_no_word_and_are_equally_many():
    assert not WORDS["positive"] & WORDS["negative"]
    assert len(WORDS["positive"]) == len(WORDS["negative"]) >= 24


def test_number_of_opinion_words_says_nothing_about_the_label(reviews):
    mean = {
        label: sum(len(r["evidence"]) for r in reviews if r["label"] == label) / (COUNT / 2)
        for label in OPINIONS
    }
    assert mean["positive"] == pytest.approx(mean["negative"], abs=0.15)


def test_filler_does_not_tell_the_label(reviews):
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
    # A naive Bayes classifier of the filler guesses: six standard errors around one half.
    assert abs(right / half - 0.5) < 6 * 0.5 / half**0.5


def test_no_article_before_an_opinion_word_tells_its_first_letter(reviews):
    for record in reviews:
        for span in record["evidence"]:
            before = record["fields"]["text"][: span["start"]].split()
            assert not before or before[-1].lower() not in ("a", "an")


def test_reviews_are_short_texts_of_a_varied_vocabulary(reviews):
    lengths = [len(record["fields"]["text"].split()) for record in reviews]
    assert min(lengths) >= 12
    assert max(lengths) <= 30
    assert len({word.lower() for record in reviews for word in filler_words(record)}) >= 100


def test_answer_is_the_clause_at_the_evidence_of_the_person_asked_about(narratives):
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


def test_answers_are_long_enough_for_two_explained_steps(narratives):
    lengths = [len(record["answer"].split()) for record in narratives]
    assert min(lengths) >= 6
    assert max(lengths) <= 12


def test_no_place_in_the_narrative_is_where_the_answer_always_is(narratives):
    places = Counter(
        record["fields"]["narrative"][: record["evidence"][0]["start"]].count(". ")
        for record in narratives
    )
    assert set(places) == {0, 1, 2}
    assert max(places.values()) < 0.4 * COUNT


def test_later_words_of_an_answer_do_not_follow_from_its_first(narratives):
    sixth_words = {}
    for record in narratives:
        words = record["answer"].split()
        sixth_words.setdefault(words[0], set()).add(words[5])
    assert len(sixth_words) >= 12
    assert all(len(words) >= 5 for words in sixth_words.values())
