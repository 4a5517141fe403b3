"""Words with marks as text with evidence: the characters of each run of marked words."""

import json
import re

import pytest

from pisoft.config.datasets import FileDataset, Rationale
from pisoft.config.jobs.records import FetchJob
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
def test_what_is_no_rationale_is_refused(tokens, mask, message):
    with pytest.raises(BenchmarkError, match=re.escape(message)):
        made(tokens, mask)


def test_rationales_become_evidence_of_fields(tmp_path):
    path = tmp_path / "records.jsonl"
    lines = [
        {"q": "is it", "tokens": [" It", "is", "so"], "mask": [0, 1, 1], "label": "True"},
        {"q": "is he", "tokens": ["No", "he", "is"], "mask": [1, 0, 0], "label": "False"},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    source = {"kind": "file", "path": str(path), "format": "jsonl",
              "rationale": {"words": "tokens", "marks": "mask"}}  # fmt: skip
    settings = {
        "dataset": "mine", "task": "classification", "source": source, "id_column": None,
        "answer_column": None,
        "fields": {"passage": {"column": "tokens"}, "question": {"column": "q"}},
        "labels": {"column": "label", "words": {"True": "true", "False": "false"}},
    }  # fmt: skip
    rows = fetch(FetchJob.model_validate(settings))
    assert [row["fields"]["passage"] for row in rows] == ["It is so", "No he is"]
    found = [[row["fields"][s["field"]][s["start"] : s["end"]] for s in row["evidence"]]
             for row in rows]  # fmt: skip
    assert found == [["is so"], ["No"]]
    source["rationale"]["marks"] = "masks"
    with pytest.raises(BenchmarkError, match=r"source.rationale.marks: .* no column 'masks'; did"):
        check_columns(FetchJob.model_validate(settings))


def test_only_formats_that_hold_lists_have_rationales():
    with pytest.raises(ValueError, match="a csv file holds no lists; allowed are jsonl and parq"):
        FileDataset(kind="file", path="a.csv", format="csv", rationale=COLUMNS)
