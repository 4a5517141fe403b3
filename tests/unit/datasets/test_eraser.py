"""ERASER's layout: documents, passages, rationales as evidence, and invalid files."""

import json

import pytest

from helpers.eraser_dataset import write_eraser
from helpers.fetch_jobs import fetch_job
from pisoft.config.datasets import FileDataset, Labels, TextField
from pisoft.datasets.files import input_files
from pisoft.datasets.sources import check_columns, fetch
from pisoft.errors import BenchmarkError
from pisoft.store.parquet import EMPTY_RECORD, OK

SENTENCES = ["A  first one .", "", "Salt is white", " and dry . ", "It is sold .", "The end ."]
TOKENS = [token for sentence in SENTENCES for token in sentence.split()]


def settings(*paths, **changes):
    source = FileDataset(kind="file", path=list(map(str, paths)), format="eraser")
    columns = {"passage": "passage", "question": "query"}
    fields = {name: TextField(column=column) for name, column in columns.items()}
    labels = Labels(column="classification", words={True: "true", False: "false"})
    values = {"dataset": "boolq", "task": "classification", "id_column": "annotation_id"}
    return fetch_job(source, **values | {"fields": fields, "labels": labels} | changes)


def read(*paths, **changes):
    check_columns(settings(*paths, **changes))
    return fetch(settings(*paths, **changes))


def marked(row):
    """Return the texts of a row's evidence."""
    return [row["fields"][s["field"]][s["start"] : s["end"]] for s in row["evidence"]]


def test_a_passage_spans_the_first_to_the_last_evidence_sentence(tmp_path):
    (row,) = read(write_eraser(tmp_path, {"d1": SENTENCES}, {"d1": [(11, 12), (5, 7), (5, 7)]}))
    assert row["sample_id"] == "boolq/d1"
    passage = "Salt is white and dry . It is sold ."
    assert row["fields"] == {"passage": passage, "question": "is it d1"}
    assert row["label"] == "true"
    assert marked(row) == ["is white", "is"]
    assert {span["field"] for span in row["evidence"]} == {"passage"}


@pytest.mark.parametrize("start", range(len(TOKENS)))
@pytest.mark.parametrize("length", [1, 3, len(TOKENS)])
def test_evidence_covers_its_tokens_in_every_text(start, length, tmp_path):
    end = min(start + length, len(TOKENS))
    path = write_eraser(tmp_path, {"d1": SENTENCES}, {"d1": [(start, end)]})
    fields = {"passage": TextField(column="passage"), "document": TextField(column="document")}
    (row,) = read(path, fields=fields)
    assert marked(row) == [" ".join(TOKENS[start:end])] * 2
    assert row["fields"]["document"] == " ".join(TOKENS)


def test_a_question_without_evidence_is_a_row_with_a_status(tmp_path):
    documents = {"d1": ["a \u00a0 b\u2028c ."], "d2": SENTENCES}  # white space other than spaces
    first, second = read(write_eraser(tmp_path, documents, {"d1": [(2, 3)], "d2": []}))
    assert (first["status"], marked(first)) == (OK, ["b\u2028c"])
    assert (second["status"], second["evidence"]) == (EMPTY_RECORD, [])


def test_splits_are_read_in_order_and_share_their_documents(tmp_path):
    paths = [
        write_eraser(tmp_path, {name: SENTENCES}, {name: [(0, 1)]}, split)
        for split, name in (("train", "d1"), ("val", "d2"))
    ]
    assert [row["sample_id"] for row in read(*paths)] == ["boolq/d1", "boolq/d2"]


def test_only_documents_with_evidence_are_inputs_of_the_job(tmp_path):
    documents = dict.fromkeys(("d1", "d2", "d3"), SENTENCES)
    path = write_eraser(tmp_path, documents, {"d1": [(0, 1)], "d2": [], "d3": [(0, 1), (2, 3)]})
    expected = [path, tmp_path / "docs/d1", tmp_path / "docs/d3"]
    assert input_files(settings(path).source) == list(map(str, expected))


OTHER = [{"docid": "d2", "start_token": 0, "end_token": 1}]


def first(**changes):
    """Return a function that changes the first evidence of a line."""
    return lambda line: line["evidences"][0][0].update(changes)


@pytest.mark.parametrize("check", [fetch, check_columns])
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda line: line.pop("query"), "query: is required and missing"),
        (lambda line: line.update(evidences=[{}]), "evidences.0: must be a list"),
        (first(docid="gone"), "docs/gone cannot be read"),
        (first(end_token=99), "docs/d1 has 17 tokens, but evidence from 0 to 99"),
        (first(end_token=0), "docs/d1 has 17 tokens, but evidence from 0 to 0"),
        (first(start_token=-1), "evidences.0.0.start_token: must be greater than or equal to 0"),
        (lambda line: line["evidences"].append(OTHER), "evidence in several documents: d1, d2"),
    ],
)
def test_problems_name_file_and_line(check, change, complaint, tmp_path):
    path = write_eraser(tmp_path, {"d1": SENTENCES}, {"d1": [(0, 1)]})
    line = json.loads(path.read_text())
    change(line)
    path.write_text(json.dumps(line))
    with pytest.raises(BenchmarkError) as error:
        check(settings(path))
    assert str(error.value).startswith(f"{path}: line 1")
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)


def test_real_rationales_become_evidence(shared, tmp_path):
    lines = (shared / "data/boolq/rationales.jsonl").read_text("utf-8").strip().split("\n")
    records = {str(record["annotation_id"]): record for record in map(json.loads, lines)}
    documents = {key: [" ".join(record["tokens"])] for key, record in records.items()}
    ranges = {key: runs(record["rationale_mask"]) for key, record in records.items()}
    rows = read(write_eraser(tmp_path, documents, ranges))
    assert len(rows) == len(records) == 64
    for row, record in zip(rows, records.values(), strict=True):
        pairs = zip(record["tokens"], record["rationale_mask"], strict=True)
        chosen = [token for token, kept in pairs if kept]
        assert row["status"] == OK
        assert row["fields"]["passage"].split(" ") == record["tokens"]
        assert " ".join(marked(row)).split(" ") == chosen


def runs(mask):
    """Return the ranges of a mask's ones."""
    edges = [i for i, (a, b) in enumerate(zip([0, *mask], [*mask, 0], strict=True)) if a != b]
    return list(zip(edges[::2], edges[1::2], strict=True))
