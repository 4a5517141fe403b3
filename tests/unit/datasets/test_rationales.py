"""Marked words become text with evidence: one span per run of marked words."""

import re

import pytest

from helpers.fetch_jobs import fetch_job, json_lines
from pisoft.config.datasets import FileDataset, Rationale, TextField
from pisoft.datasets.rationales import with_evidence
from pisoft.datasets.sources import check_columns, fetch
from pisoft.errors import BenchmarkError

COLUMNS = Rationale(words="tokens", marks="mask")


def made(tokens, mask, **others):
    return with_evidence({"tokens": tokens, "mask": mask, **others}, COLUMNS, "f.jsonl: record 1")


def marked_texts(record):
    return [record["tokens"][span["start"] : span["end"]] for span in record["evidence"]]


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        ([0, 0, 0, 0], []),
        ([1, 0, 0, 0], ["It"]),
        ([0, 1, 1, 0], ["is naïve"]),
        ([1, 0, 1, 1], ["It", "naïve 🙂"]),
        ([1, 1, 1, 1], ["It is naïve 🙂"]),
    ],
)
def test_each_run_of_marked_words_is_a_span(mask, expected):
    record = made(["It", "is", "naïve", "🙂"], mask, question="why")
    assert record["tokens"] == "It is naïve 🙂"
    assert record["question"] == "why"
    assert marked_texts(record) == expected
    assert {span["field"] for span in record["evidence"]} <= {"tokens"}


@pytest.mark.parametrize(
    ("tokens", "mask", "message"),
    [
        ("It is", [1, 0], "f.jsonl: record 1: column 'tokens': expected a list of words"),
        (["It", 2], [1, 0], "column 'tokens': expected a list of words"),
        (["It"], None, "column 'mask': expected a list of 0 and 1"),
        (["It"], [2], "column 'mask': expected a list of 0 and 1"),
        (["It", "is"], [1], "column 'mask' marks 1 words, but column 'tokens' has 2"),
    ],
)
def test_invalid_rationales_are_refused(tokens, mask, message):
    with pytest.raises(BenchmarkError, match=re.escape(message)):
        made(tokens, mask)


def test_rationales_become_evidence_in_fields(tmp_path):
    lines = [
        {"text": [" It", "is", "so"], "mask": [0, 1, 1]},
        {"text": ["No", "he", "is"], "mask": [1, 0, 0]},
    ]
    source = json_lines(tmp_path / "f", lines, rationale=Rationale(words="text", marks="mask"))
    rows = fetch(fetch_job(source, fields={"passage": TextField(column="text")}))
    for row, text, marked in zip(rows, ("It is so", "No he is"), ("is so", "No"), strict=True):
        assert row["fields"] == {"passage": text}
        (span,) = row["evidence"]
        assert text[span["start"] : span["end"]] == marked
    source = source.model_copy(update={"rationale": Rationale(words="text", marks="masks")})
    with pytest.raises(BenchmarkError, match=r"source.rationale.marks: .* no column 'masks'; did"):
        check_columns(fetch_job(source))


def test_only_formats_with_lists_support_rationales():
    with pytest.raises(ValueError, match="a csv file holds no lists; allowed are jsonl and parq"):
        FileDataset(kind="file", path="a.csv", format="csv", rationale=COLUMNS)
