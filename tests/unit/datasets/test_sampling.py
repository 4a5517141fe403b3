"""Sampling is balanced, reproducible, and stable when the count grows."""

import itertools
import logging
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pisoft.datasets.sampling import sample
from pisoft.errors import BenchmarkError
from pisoft.store.parquet import EMPTY_RECORD, OK


def rows(labels, status=OK):
    return [
        {"sample_id": f"d/{n}", "fields": {"text": f"text {n}"}, "label": label, "answer": None,
         "status": status}
        for n, label in enumerate(labels)
    ]  # fmt: skip


def ids(chosen):
    return [row["sample_id"] for row in chosen]


@given(
    st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=60),
    st.lists(st.integers(1, 70), min_size=1, max_size=5),
)
def test_shards_partition_the_sample_for_every_count(labels, counts):
    """So a larger count keeps every sample of a smaller one."""
    records, bounds = rows(labels), sorted(counts)
    pieces = [sample(records, last, 1, first) for first, last in itertools.pairwise([0, *bounds])]
    assert [row for piece in pieces for row in piece] == sample(records, bounds[-1], 1)
    assert sample(records, None, 1, bounds[-1]) == sample(records, None, 1)[sum(map(len, pieces)) :]


@given(st.integers(1, 40), st.integers(0, 5))
def test_labels_are_balanced_in_every_prefix(count, seed):
    chosen = sample(rows(["a", "b"] * 30), count, seed)
    assert len(chosen) == count
    for length in range(1, count + 1):
        counts = Counter(row["label"] for row in chosen[:length])
        assert abs(counts["a"] - counts["b"]) <= 1


def test_samples_depend_on_the_seed_and_not_on_the_record_order():
    records = rows(["a", "b"] * 20)
    shuffled = random.Random(0).sample(records, len(records))
    assert sample(records, 10, 1) == sample(shuffled, 10, 1)
    assert ids(sample(records, 10, 1)) != ids(sample(records, 10, 2))
    assert sorted(ids(sample(records, None, 1))) == sorted(ids(records)), "without a count, all"


def test_samples_of_a_label_do_not_depend_on_other_labels():
    records = rows("a" * 20 + "b" * 20)
    chosen = [sample(some, 8, 1) for some in (records, records[:20] + records[30:])]
    of_a, same = ([row["sample_id"] for row in one if row["label"] == "a"] for one in chosen)
    assert of_a == same


def test_a_rare_label_is_not_compensated_by_others(caplog):
    with caplog.at_level(logging.WARNING):
        chosen = sample(rows(["a"] * 3 + ["b"] * 50), 20, 1)
    assert Counter(row["label"] for row in chosen) == {"a": 3, "b": 10}
    assert "label 'a' has 3 records, fewer than 10 of 20" in caplog.text


def test_failed_records_are_counted_and_never_sampled(caplog):
    records = [*rows([None] * 3), {"sample_id": "d/bad", "label": None, "status": EMPTY_RECORD}]
    with caplog.at_level(logging.INFO):
        assert "d/bad" not in ids(sample(records, None, 1))
    assert "not sampled: 1 empty_record" in caplog.text


def test_no_usable_record_is_an_error():
    with pytest.raises(BenchmarkError, match="no usable record among 2"):
        sample(rows([None, None], EMPTY_RECORD), 1, 1)


def repeated(*changes):
    """Return records with the same text, each with its changes."""
    (row,) = rows([None])
    return [row | {"sample_id": f"d/{index}"} | change for index, change in enumerate(changes)]


def test_duplicate_texts_are_sampled_once_with_all_answers(caplog):
    records = repeated(*({"answer": answer} for answer in ("a", "b", "a", None)))
    records += rows("xy")[1:]
    with caplog.at_level(logging.INFO):
        first, other = sorted(sample(records, None, 1), key=lambda row: row["label"] or "")
    assert (first["sample_id"], first["answer"]) == ("d/0", "a\nb")
    assert (other["sample_id"], other["answer"]) == ("d/1", None)
    assert "3 that repeat an earlier record's texts; 0 texts have several labels" in caplog.text


def test_a_text_with_contradictory_labels_keeps_the_first_and_is_counted(caplog):
    records = repeated({"label": "a"}, {"label": "b"}, {"label": "a"})
    with caplog.at_level(logging.INFO):
        (chosen,) = sample(records, None, 1)
    assert chosen == records[0]
    assert "2 that repeat an earlier record's texts; 1 texts have several labels" in caplog.text


def test_a_failed_record_does_not_hide_its_duplicates():
    records = repeated({"status": EMPTY_RECORD}, {})
    assert ids(sample(records, None, 1)) == ["d/1"]


def test_texts_equal_in_only_one_field_are_no_duplicates():
    fields = [{"narrative": "the same", "question": f"{n}"} for n in range(3)]
    records = repeated(*({"fields": one} for one in fields))
    assert len(sample(records, None, 1)) == 3
