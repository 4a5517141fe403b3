"""Reading records: every format, every kind of invalid file, and the real files."""

import json
import math
import re
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.fetch_jobs import fetch_job, file_source, json_lines
from pisoft.config.datasets import (
    EmbeddedDataset,
    FileDataset,
    Haystack,
    HubDataset,
    Labels,
    TextField,
)
from pisoft.datasets.embedded import COLOURS, make_records
from pisoft.datasets.files import input_files
from pisoft.datasets.sources import check_columns, fetch
from pisoft.errors import BenchmarkError
from pisoft.store.parquet import EMPTY_RECORD, OK, TOO_MANY_WORDS, UNKNOWN_LABEL, write_rows

WORDS = Labels(column="label", words={1: "Positive", 0: "Negative"})
RECORDS = [{"text": "good film", "label": 1}, {"text": "bad film", "label": 0}]


def settings(source, **changes):
    return fetch_job(source, **{"task": "classification", "labels": WORDS} | changes)


def fields(*columns):
    return {column: TextField(column=column) for column in columns}


def fetched(folder, *records, **changes):
    return fetch(settings(json_lines(folder / "records", records), **changes))


def texts(rows):
    return [row["fields"]["text"] for row in rows]


# Formats --------------------------------------------------------------------------------------

FORMATS = {
    "csv": ('\ufefftext,label\r\n"good film",1\r\nbad film,0\r\n\r\n', None),
    "tsv": ("text\tlabel\ngood film\t1\nbad film\t0", None),
    "jsonl": ("\n".join(map(json.dumps, RECORDS)), None),
    "parquet": (b"", None),
    "csv without header": ("1,good film\n0,bad film", ("label", "text")),
}


@pytest.fixture(params=FORMATS)
def two_records(request, tmp_path):
    content, columns = FORMATS[request.param]
    source = file_source(tmp_path / "f", content, request.param.split()[0], columns=columns)
    if request.param == "parquet":
        pq.write_table(pa.Table.from_pylist(RECORDS), tmp_path / "f")
    return source


def test_every_format_gives_the_same_rows(two_records, tmp_path):
    check_columns(settings(two_records))
    rows = fetch(settings(two_records))
    write_rows(tmp_path / "out.parquet", "datasets", rows, {})
    assert rows == fetched(tmp_path, *RECORDS[::-1])[::-1], "ids as well"
    assert texts(rows) == ["good film", "bad film"]
    assert [row["label"] for row in rows] == ["Positive", "Negative"]
    for row in rows:
        assert (row["status"], row["evidence"], row["counterfactuals"]) == (OK, None, None)
        assert re.fullmatch("d/[0-9a-f]{16}", row["sample_id"])


LONG = "word " * 60_000


@pytest.mark.parametrize(
    ("form", "content", "expected"),
    [
        (
            "tsv", 'text\tlabel\n"open quote\t1\nsaid " and "" went\t0\n',
            ['"open quote', 'said " and "" went'],
        ),
        ("csv", f'text,label\n"a, ""b""\nc",1\n{LONG},0\n', ['a, "b"\nc', LONG.strip()]),
        (
            "jsonl", '{"text": "a \\ud83d b \\ud83d\\ude42", "label": 1}\n',  # a lone surrogate
            ["a \ufffd b 🙂"],
        ),
        ("csv", "text,label,,\na,1,,\n", ["a"]),
        ("jsonl", '{"text": " \\n a  b\\t", "label": 1}', ["a  b"]),
    ],
)  # fmt: skip
def test_texts_are_decoded_by_the_format(form, content, expected, tmp_path):
    assert texts(fetch(settings(file_source(tmp_path / "f", content, form)))) == expected


# Values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "status"),
    [
        *(({"text": text, "label": 1}, EMPTY_RECORD) for text in ("", "  \n", None, float("nan"))),
        ({"label": 1}, EMPTY_RECORD),
        ({"text": "so so", "label": 2}, UNKNOWN_LABEL),
        ({"text": "so so", "label": None}, UNKNOWN_LABEL),
        ({"text": "a  b\nc d", "label": 1}, OK),
        ({"text": "a  b\nc d e", "label": 1}, TOO_MANY_WORDS),
    ],
)
def test_an_unusable_record_is_a_row_with_a_status(tmp_path, record, status):
    *rows, row = fetched(tmp_path, *RECORDS, record, max_words=4)
    assert [one["status"] for one in rows] == [OK, OK]
    assert row["status"] == status
    assert (row["label"] is None) == (status == UNKNOWN_LABEL)


def test_unmapped_label_values_are_named(tmp_path, caplog):
    fetched(tmp_path, *RECORDS, {"text": "so so", "label": True}, {"text": "so", "label": "1.0"})
    (message,) = caplog.messages
    assert message.endswith("column 'label' holds values without a label word: 'true', '1.0'")


def test_words_of_all_fields_are_counted(tmp_path):
    records = [{"text": "a b c", "title": title, "label": 1} for title in ("d", "d e")]
    rows = fetched(tmp_path, *records, fields=fields("text", "title"), max_words=4)
    assert [row["status"] for row in rows] == [OK, TOO_MANY_WORDS]


def test_ids_come_from_a_column_or_hashes_with_duplicates_numbered(tmp_path):
    first, *others = (row["sample_id"] for row in fetched(tmp_path, *RECORDS[:1] * 3))
    assert others == [f"{first}-2", f"{first}-3"]
    records = [{**record, "key": number} for number, record in enumerate(RECORDS)]
    keyed = fetched(tmp_path, *records, id_column="key")
    assert [row["sample_id"] for row in keyed] == ["d/0", "d/1"]


@pytest.mark.parametrize(
    ("records", "changes", "message"),
    [
        (
            [{"text": "a", "label": "pos"}, {"text": "b", "label": "neg"}], {},
            r"without a label word: 'pos', 'neg'; it never holds '1' or '0', which `labels.words`",
        ),
        (
            [*RECORDS[:1], {"text": "b", "label": "O"}], {},
            "column 'label' holds values without a label word: 'O'; it never holds '0', which",
        ),
        (
            [{**record, "key": "k7"} for record in RECORDS], {"id_column": "key"},
            "id_column 'key': the id 'k7' is not unique",
        ),
        *(
            ([{**RECORDS[0], "key": "k1"}, RECORDS[1] | lacking], {"id_column": "key"},
            "record 2: id_column 'key': no id; give every record")
            for lacking in ({}, {"key": None}, {"key": ""}, {"key": math.nan})
        ),
    ],
)  # fmt: skip
def test_unusable_labels_and_ids_are_refused(tmp_path, records, changes, message):
    with pytest.raises(BenchmarkError, match=message):
        fetched(tmp_path, *records, **changes)


def test_answers_are_joined_by_line_and_texts_cut_to_first_sentences(tmp_path):
    record = {"text": " One. Two. Three.", "label": 1, "answers": ["one", "two"]}
    shortened = {"text": TextField(column="text", first_sentences=2)}
    (row,) = fetched(tmp_path, record, fields=shortened, answer_column="answers")
    assert (row["fields"]["text"], row["answer"]) == ("One. Two.", "one\ntwo")


@pytest.mark.parametrize("answer", ["a\ud83d", ["a\ud83d"]])
def test_lone_surrogates_in_ids_and_answers_are_replaced(answer, tmp_path):
    record = {"text": "t", "label": 1, "key": "k\ud83d", "answer": answer}
    source = json_lines(tmp_path / "f", [record])
    rows = fetch(settings(source, id_column="key", answer_column="answer"))
    write_rows(tmp_path / "out.parquet", "datasets", rows, {})
    assert [(row["sample_id"], row["answer"]) for row in rows] == [("d/k\ufffd", "a\ufffd")]


def test_texts_with_equal_concatenation_have_different_ids(tmp_path):
    records = [{"a": "x", "b": "yz"}, {"a": "xy", "b": "z"}]
    rows = fetched(tmp_path, *records, fields=fields("a", "b"), labels=None)
    assert rows[0]["sample_id"] != rows[1]["sample_id"]


def test_records_with_equal_column_values_form_a_cluster(tmp_path):
    records = [{"text": f"t{k}", "label": 1, "of": of} for k, of in enumerate(["a ", "b", "a", ""])]
    source = json_lines(tmp_path / "f", records)
    clusters = [row["cluster"] for row in fetch(settings(source, cluster_column="of"))]
    assert clusters[0] == clusters[2] != clusters[1]
    assert clusters[3] is None, "nothing is shared"
    assert {row["cluster"] for row in fetch(settings(source))} == {None}


# Errors ---------------------------------------------------------------------------------------


def embedded(task):
    return EmbeddedDataset(kind="embedded", task=task, records=20, seed=3)


@pytest.mark.parametrize("check", [fetch, check_columns])
@pytest.mark.parametrize(
    ("changes", "key", "column"),
    [
        ({"fields": {"text": TextField(column="txt")}}, "fields.text", "txt"),
        ({"labels": Labels(column="lable", words={1: "a", 0: "b"})}, "labels.column", "lable"),
        ({"answer_column": "answer"}, "answer_column", "answer"),
        ({"id_column": "id"}, "id_column", "id"),
        ({"cluster_column": "of"}, "cluster_column", "of"),
    ],
)
def test_absent_columns_are_named_with_available_ones(check, changes, key, column, two_records):
    with pytest.raises(BenchmarkError) as error:
        check(settings(two_records, **changes))
    message = str(error.value)
    assert f"{key}: {two_records.path} has no column '{column}'" in message
    assert "allowed: label, text" in message
    assert ("did you mean" in message) == (column in ("txt", "lable"))
    with pytest.raises(BenchmarkError, match="embedded task 'why' has no column 'text'"):
        check(fetch_job(embedded("why")))


COLUMNS = {"columns": ("text", "label")}


def parquet(**columns):
    """Return the bytes of a Parquet file."""
    with pa.BufferOutputStream() as stream:
        pq.write_table(pa.table({"text": ["a"], "label": [1]} | columns), stream)
        return stream.getvalue().to_pybytes()


NO_UTF8 = pa.Array.from_buffers(
    pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")]
)
YEAR_33658 = pa.array([10**15], pa.timestamp("ms"))


@pytest.mark.parametrize(
    ("form", "content", "more", "complaint"),
    [
        ("jsonl", "", {}, "holds no records"),
        ("csv", "text,label\n", {}, "holds no records"),
        ("jsonl", '{"text": 1\n', {}, "line 1 is no JSON object in one line: Ex"),
        ("jsonl", '[{"text": "a",\n"label": 1}]', {}, "line 1 is no JSON object in one line"),
        ("jsonl", '{"text": "a", "label": 1}\n[1]\n', {}, "line 2 must hold an object, found list"),
        ("jsonl", '{"text": ["a"], "label": 1}\n', {}, "record 1: column 'text': holds a list"),
        ("csv", "text,label\na,1\nb\n", {}, "line 3 has 1 values, expected 2: text, label"),
        ("csv", 'text,label\n"a,1\n', {}, "cannot be read as csv"),
        ("csv", "text,text,label\na,b,1\n", {}, "has several columns 'text'"),
        ("csv", "text;label\na;1\n", {}, "no column 'text': all of 'text;label' is one column; "),
        ("csv", "text\tlabel\na\t1\n", {}, "is one column; csv has commas, tsv has tabs"),
        ("csv", b"text,label\n\xff\xfe,1\n", {}, "cannot be read as csv in UTF-8"),
        ("parquet", "no parquet", {}, "cannot be read as parquet"),
        ("parquet", parquet(text=NO_UTF8), {}, "cannot be read as parquet"),
        ("parquet", parquet(written=YEAR_33658), {}, "cannot be read as parquet"),
        ("jsonl", json.dumps(RECORDS[0]), COLUMNS, "`columns` is for csv and tsv"),
        ("tsv", "a\t1\textra\n", COLUMNS, "line 1 has 3 values, expected 2"),
        ("tsv", "label\ttext\n", COLUMNS, "source.columns: .*x has a header line"),
    ],
)
def test_a_broken_file_gives_one_clear_error(form, content, more, complaint, tmp_path):
    source = file_source(tmp_path / "records.x", content, form, **more)
    with pytest.raises(BenchmarkError, match=complaint) as error:
        (check_columns if more else fetch)(settings(source))  # before any job
    assert more or "records.x" in str(error.value)
    assert "\n" not in str(error.value)


# Several files --------------------------------------------------------------------------------


def files(folder, *contents):
    paths = [json_lines(folder / f"{n}.x", records).path for n, records in enumerate(contents)]
    return FileDataset(kind="file", path=paths, format="jsonl")


def test_records_of_several_files_are_concatenated(tmp_path):
    more = [{"text": "so so", "label": 0}, RECORDS[0]]
    source = files(tmp_path, RECORDS, more)
    assert input_files(source) == [f"{tmp_path}/0.x", f"{tmp_path}/1.x"]
    check_columns(settings(source))
    assert fetch(settings(source)) == fetched(tmp_path, *RECORDS, *more)


@pytest.mark.parametrize("check", [fetch, check_columns])
@pytest.mark.parametrize(
    ("second", "complaint"),
    [
        ([{"txt": "a", "label": 1}], "fields.text: {} has no column 'text'; did you mean 'txt'"),
        ([{**RECORDS[0], "note": 1}], "{} has the columns text, label, note, but {} has text, la"),
        ([], "{}: holds no records"),
    ],
)
def test_a_file_whose_columns_differ_from_the_first_is_named(check, second, complaint, tmp_path):
    source = files(tmp_path, RECORDS, second)
    with pytest.raises(BenchmarkError) as error:
        check(settings(source))
    assert complaint.format(*source.path[::-1]) in str(error.value)
    assert "\n" not in str(error.value)


def test_invalid_records_of_later_files_are_named_with_the_file(tmp_path):
    source = files(tmp_path, RECORDS, [RECORDS[0], {"text": ["a"], "label": 1}])
    with pytest.raises(BenchmarkError, match=r"1\.x: record 2: column 'text': holds a list"):
        fetch(settings(source))
    source = files(tmp_path, *([{**record, "key": 7}] for record in RECORDS))
    both = " and ".join(source.path)
    with pytest.raises(BenchmarkError, match=f"^{both}: id_column 'key': the id '7' is not unique"):
        fetch(settings(source, id_column="key"))


# Embedded and hub -----------------------------------------------------------------------------


def test_embedded_records_keep_ids_labels_and_evidence():
    words = Labels(column="label", words={"positive": "Positive", "negative": "Negative"})
    given = settings(embedded("sentiment"), labels=words)
    check_columns(given)
    for row, record in zip(fetch(given), make_records("sentiment", 20, 3), strict=True):
        for name in ("fields", "evidence", "answer", "counterfactuals"):
            assert row[name] == record[name]
        assert row["sample_id"] == f"d/{record['record_id']}"
        assert row["label"] == words.words[record["label"]]


def test_counterfactuals_have_label_words_and_field_texts():
    haystack = Haystack(length=40)
    source = EmbeddedDataset(kind="embedded", task="conflict", haystack=haystack, records=9, seed=3)
    words = Labels(column="label", words={colour: colour.upper() for colour in COLOURS})
    given = settings(source, labels=words, fields={"story": TextField(column="text")})
    for row, record in zip(fetch(given), make_records("conflict", 9, 3, haystack), strict=True):
        for one, made in zip(row["counterfactuals"], record["counterfactuals"], strict=True):
            assert one["answer"] == made["answer"].upper()
            assert one["fields"] == {"story": made["fields"]["text"]}
            assert one["evidence"] == [made["evidence"][0] | {"field": "story"}]


def test_embedded_evidence_follows_renamed_and_shortened_fields():
    fields = {"story": TextField(column="narrative", first_sentences=1)}
    given = fetch_job(embedded("why"), fields=fields, answer_column="answer")
    kept = 0
    for row in fetch(given):
        for span in row["evidence"]:
            kept += 1
            assert span["field"] == "story"
            assert row["fields"]["story"][span["start"] : span["end"]] == row["answer"]
    assert 0 < kept < 20  # the question is about the first person or the second


def test_the_column_check_does_not_access_the_hub(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    check_columns(settings(HubDataset(kind="hub", repository="a/b", split="test")))


def on_the_hub(monkeypatch, **splits):
    """Add a repository with these splits to the hub; return a source that reads it."""
    import datasets

    def as_dataset(split):
        if split not in splits:
            raise ValueError(f'Unknown split "{split}". Should be one of {list(splits)}.')
        return datasets.Dataset.from_list(splits[split])

    def load_dataset_builder(*names, revision):
        assert (names, revision) == (("o/n", "c"), "r")
        return SimpleNamespace(download_and_prepare=lambda: None, as_dataset=as_dataset)

    monkeypatch.setattr(datasets, "load_dataset_builder", load_dataset_builder)
    return HubDataset(
        kind="hub", repository="o/n", configuration="c", revision="r", split=list(splits)
    )


def test_hub_splits_are_concatenated(monkeypatch, tmp_path):
    source = on_the_hub(monkeypatch, train=RECORDS, test=RECORDS[:1])
    assert fetch(settings(source)) == fetched(tmp_path, *RECORDS, RECORDS[0])


def test_incompatible_splits_are_named(monkeypatch):
    keyed = [{**RECORDS[0], "key": "k"}]
    source = on_the_hub(monkeypatch, train=keyed, test=keyed, other=RECORDS)
    pair = source.model_copy(update={"split": ("train", "test")})
    with pytest.raises(BenchmarkError, match=r"^hub dataset o/n, splits train and test: id_column"):
        fetch(settings(pair, id_column="key"))
    complaint = "o/n, split other has the columns text, label, but hub dataset o/n, split"
    with pytest.raises(BenchmarkError, match=complaint):
        fetch(settings(source))
    wrong = source.model_copy(update={"split": ("train", "tset")})
    with pytest.raises(BenchmarkError, match=r'splits train and tset: .*Unknown split "tset"'):
        fetch(settings(wrong))


def test_real_tab_separated_sentences_are_all_read(shared):
    path = str(shared / "data/sst2/validation.tsv")
    rows = fetch(settings(FileDataset(kind="file", path=path, format="tsv", **COLUMNS)))
    assert len(rows) == 872
    assert {row["status"] for row in rows} == {OK}
    assert sum(row["label"] == "Positive" for row in rows) == 444
