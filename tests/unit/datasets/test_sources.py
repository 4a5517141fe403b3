"""Reading records: every format, every way a file can be wrong, and the real files."""

import json
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pisoft.config.datasets import (
    EmbeddedDataset,
    FileDataset,
    Haystack,
    HubDataset,
    Labels,
    TextField,
)
from pisoft.config.jobs.records import FetchJob
from pisoft.datasets.embedded import COLOURS, make_records
from pisoft.datasets.files import input_files
from pisoft.datasets.sources import check_columns, fetch
from pisoft.errors import BenchmarkError
from pisoft.store.parquet import (
    EMPTY_RECORD,
    OK,
    TOO_MANY_WORDS,
    UNKNOWN_LABEL,
    provenance,
    read_rows,
    write_rows,
)

WORDS = Labels(column="label", words={1: "Positive", 0: "Negative"})
RECORDS = [{"text": "good film", "label": 1}, {"text": "bad film", "label": 0}]


def settings(source, **changes):
    values = {
        "dataset": "d",
        "task": "classification",
        "source": source,
        "fields": {"text": TextField(column="text")},
        "labels": WORDS,
        "id_column": None,
        "answer_column": None,
    }
    return FetchJob(**values | changes)


def file_source(path, content, form, **more):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return FileDataset(kind="file", path=str(path), format=form, **more)


def json_lines(path, records, form="jsonl"):
    return file_source(path, "\n".join(json.dumps(r) for r in records) + "\n", form)


def parquet(path, records):
    pq.write_table(pa.Table.from_pylist(records), path)
    return FileDataset(kind="file", path=str(path), format="parquet")


# Formats --------------------------------------------------------------------------------------


@pytest.fixture(params=["csv", "tsv", "jsonl", "parquet", "csv without header"])
def two_records(request, tmp_path):
    path = tmp_path / "records"
    if request.param == "jsonl":
        return json_lines(path, RECORDS)
    if request.param == "parquet":
        return parquet(path, RECORDS)
    if request.param == "tsv":
        return file_source(path, "text\tlabel\ngood film\t1\nbad film\t0", "tsv")
    if request.param == "csv":
        return file_source(path, '\ufefftext,label\r\n"good film",1\r\nbad film,0\r\n\r\n', "csv")
    return file_source(path, "1,good film\n0,bad film", "csv", columns=("label", "text"))


def test_every_format_gives_the_same_rows(two_records):
    rows = fetch(settings(two_records))
    check_columns(settings(two_records))
    assert [row["fields"] for row in rows] == [{"text": "good film"}, {"text": "bad film"}]
    assert [row["label"] for row in rows] == ["Positive", "Negative"]
    assert {row["status"] for row in rows} == {OK}
    assert [row["sample_id"] for row in rows] == ["d/" + h for h in (
        rows[0]["sample_id"][2:], rows[1]["sample_id"][2:]
    )]  # fmt: skip
    assert all(len(row["sample_id"]) == 2 + 16 for row in rows)
    assert rows[0]["evidence"] is None


def test_rows_fit_the_contract(two_records, tmp_path):
    rows = fetch(settings(two_records))
    path = tmp_path / "out.parquet"
    write_rows(path, "datasets", rows, provenance({}))
    assert read_rows(path, "datasets") == rows


def test_an_id_is_the_same_in_every_format_and_place(tmp_path):
    one = fetch(settings(json_lines(tmp_path / "a", RECORDS)))
    other = fetch(settings(parquet(tmp_path / "b", RECORDS[::-1])))
    assert [row["sample_id"] for row in one] == [row["sample_id"] for row in other[::-1]]


def test_tab_separated_quotation_marks_quote_nothing(tmp_path):
    text = 'text\tlabel\n"open quote\t1\nsaid " and "" went\t0\n'
    rows = fetch(settings(file_source(tmp_path / "f", text, "tsv")))
    assert [row["fields"]["text"] for row in rows] == ['"open quote', 'said " and "" went']


def test_comma_separated_values_may_be_quoted_and_long(tmp_path):
    long = "word " * 60_000
    text = f'text,label\n"a, ""b""\nc",1\n{long},0\n'
    rows = fetch(settings(file_source(tmp_path / "f", text, "csv")))
    assert [row["fields"]["text"] for row in rows] == ['a, "b"\nc', long.strip()]


# Values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [1, 1.0, True, "1"])
def test_a_label_is_found_whatever_its_type(value, tmp_path):
    words = Labels(column="label", words={1: "yes", 0: "no", "true": "yes!"})
    source = json_lines(tmp_path / "f", [{"text": "t", "label": value}])
    rows = fetch(settings(source, labels=words))
    assert rows[0]["label"] == ("yes!" if value is True else "yes")


def test_texts_lose_white_space_at_both_ends(tmp_path):
    rows = fetch(settings(json_lines(tmp_path / "f", [{"text": " \n a  b\t", "label": 1}])))
    assert rows[0]["fields"] == {"text": "a  b"}


@pytest.mark.parametrize("text", ["", "  \n", None, float("nan")])
def test_an_empty_text_is_a_row_with_a_status(text, tmp_path):
    records = [{"text": text, "label": 1}, *RECORDS]
    rows = fetch(settings(json_lines(tmp_path / "f", records)))
    assert [row["status"] for row in rows] == [EMPTY_RECORD, OK, OK]


def test_a_key_absent_from_one_line_is_an_empty_text(tmp_path):
    rows = fetch(settings(json_lines(tmp_path / "f", [*RECORDS, {"label": 1}])))
    assert rows[2]["status"] == EMPTY_RECORD


def test_an_unknown_label_is_a_row_with_a_status(tmp_path):
    records = [*RECORDS, {"text": "so so", "label": 2}, {"text": "none", "label": None}]
    rows = fetch(settings(json_lines(tmp_path / "f", records)))
    assert [row["status"] for row in rows] == [OK, OK, UNKNOWN_LABEL, UNKNOWN_LABEL]
    assert rows[2]["label"] is None


def test_a_record_of_more_words_than_allowed_is_a_row_with_a_status(tmp_path):
    records = [{"text": "a  b\nc", "title": title, "label": 1} for title in ("d", "d e", "f")]
    fields = {name: TextField(column=name) for name in ("text", "title")}
    rows = fetch(settings(json_lines(tmp_path / "f", records), fields=fields, max_words=4))
    assert [row["status"] for row in rows] == [OK, TOO_MANY_WORDS, OK]


def test_no_known_label_at_all_is_an_error_that_names_found_and_allowed(tmp_path):
    records = [{"text": "a", "label": "pos"}, {"text": "b", "label": "neg"}]
    with pytest.raises(BenchmarkError, match=r"found 'pos', 'neg'; .* allows 1, 0"):
        fetch(settings(json_lines(tmp_path / "f", records)))


def test_exact_duplicates_get_numbered_ids(tmp_path):
    rows = fetch(settings(json_lines(tmp_path / "f", [RECORDS[0]] * 3)))
    first = rows[0]["sample_id"]
    assert [row["sample_id"] for row in rows] == [first, f"{first}-2", f"{first}-3"]


def test_texts_that_join_to_the_same_bytes_differ_in_id(tmp_path):
    records = [{"a": "x", "b": "yz"}, {"a": "xy", "b": "z"}]
    fields = {"a": TextField(column="a"), "b": TextField(column="b")}
    source = json_lines(tmp_path / "f", records)
    rows = fetch(settings(source, fields=fields, labels=None, task="generation"))
    assert rows[0]["sample_id"] != rows[1]["sample_id"]


@pytest.mark.parametrize("lacking", [{}, {"key": None}, {"key": ""}])
def test_a_record_without_an_id_is_refused(tmp_path, lacking):
    """It became the sample d/None."""
    records = [{**RECORDS[0], "key": "k1"}, {**RECORDS[1], **lacking}]
    with pytest.raises(BenchmarkError, match="record 2: id_column 'key': no id; give every record"):
        fetch(settings(json_lines(tmp_path / "f", records), id_column="key"))


def test_an_id_column_names_the_samples(tmp_path):
    records = [{**record, "key": number} for number, record in enumerate(RECORDS)]
    rows = fetch(settings(json_lines(tmp_path / "f", records), id_column="key"))
    assert [row["sample_id"] for row in rows] == ["d/0", "d/1"]


def test_a_repeated_id_is_an_error_that_names_it(tmp_path):
    records = [{**record, "key": "k7"} for record in RECORDS]
    with pytest.raises(BenchmarkError, match="id_column 'key': the id 'k7' is not unique"):
        fetch(settings(json_lines(tmp_path / "f", records), id_column="key"))


def test_half_a_surrogate_pair_can_be_stored(tmp_path):
    content = b'{"text": "a \\ud83d b \\ud83d\\ude42", "label": 1}\n'
    rows = fetch(settings(file_source(tmp_path / "f", content, "jsonl")))
    assert rows[0]["fields"]["text"] == "a \ufffd b 🙂"


def test_several_answers_are_kept_on_a_line_each(tmp_path):
    records = [{"text": "t", "label": 1, "answers": ["one", "two"]}]
    rows = fetch(settings(json_lines(tmp_path / "f", records), answer_column="answers"))
    assert rows[0]["answer"] == "one\ntwo"


def test_records_that_share_the_value_of_a_column_are_a_cluster(tmp_path):
    records = [{"text": f"t{k}", "label": 1, "of": of} for k, of in enumerate(["a ", "b", "a", ""])]
    source = json_lines(tmp_path / "f", records)
    clusters = [row["cluster"] for row in fetch(settings(source, cluster_column="of"))]
    assert clusters[0] == clusters[2] != clusters[1]
    assert clusters[3] is None, "nothing is shared"
    assert {row["cluster"] for row in fetch(settings(source))} == {None}


def test_only_the_first_sentences_are_kept(tmp_path):
    records = [{"text": " One. Two. Three.", "label": 1}]
    fields = {"text": TextField(column="text", first_sentences=2)}
    rows = fetch(settings(json_lines(tmp_path / "f", records), fields=fields))
    assert rows[0]["fields"]["text"] == "One. Two."


# Errors ---------------------------------------------------------------------------------------


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
def test_an_absent_column_is_named_with_what_is_there(check, changes, key, column, two_records):
    with pytest.raises(BenchmarkError) as error:
        check(settings(two_records, **changes))
    message = str(error.value)
    assert f"{key}: {two_records.path} has no column '{column}'" in message
    assert "allowed: label, text" in message
    if column in ("txt", "lable"):
        assert "did you mean" in message


@pytest.mark.parametrize(
    ("form", "content", "complaint"),
    [
        ("jsonl", "", "holds no records"),
        ("csv", "", "holds no records"),
        ("csv", "text,label\n", "holds no records"),
        ("jsonl", '{"text": 1\n', "line 1 is not JSON"),
        ("jsonl", '{"text": "a", "label": 1}\n[1]\n', "line 2 must hold an object, found list"),
        ("jsonl", '{"text": ["a"], "label": 1}\n', "record 1: column 'text': holds a list"),
        ("csv", "text,label\na,1\nb\n", "line 3 has 1 values, expected 2: text, label"),
        ("csv", 'text,label\n"a,1\n', "cannot be read as csv"),
        ("csv", "text,text,label\na,b,1\n", "has several columns 'text'"),
        ("csv", b"text,label\n\xff\xfe,1\n", "cannot be read as csv in UTF-8"),
        ("parquet", "no parquet", "cannot be read as parquet"),
    ],
)
def test_a_broken_file_is_one_clear_error(form, content, complaint, tmp_path):
    source = file_source(tmp_path / "records.x", content, form)
    with pytest.raises(BenchmarkError, match=complaint) as error:
        fetch(settings(source))
    assert "records.x" in str(error.value)
    assert "\n" not in str(error.value)


def test_column_names_for_a_format_that_has_its_own_are_an_error(tmp_path):
    source = file_source(tmp_path / "f", json.dumps(RECORDS[0]), "jsonl", columns=("a", "b"))
    with pytest.raises(BenchmarkError, match="`columns` is for csv and tsv"):
        check_columns(settings(source))


@pytest.mark.parametrize(
    ("first_line", "complaint"),
    [
        ("a\t1\textra", "line 1 has 3 values, expected 2"),
        ("label\ttext", "source.columns: .*f has a header line; leave `columns` out"),
    ],
)
def test_column_names_that_do_not_fit_are_noticed_before_any_job(first_line, complaint, tmp_path):
    source = file_source(tmp_path / "f", first_line + "\n", "tsv", columns=("text", "label"))
    with pytest.raises(BenchmarkError, match=complaint):
        check_columns(settings(source))


# Several files --------------------------------------------------------------------------------


def files(folder, *contents, form="jsonl", **more):
    paths = [json_lines(folder / f"{n}.x", records).path for n, records in enumerate(contents)]
    return FileDataset(kind="file", path=paths, format=form, **more)


def test_records_of_several_files_follow_each_other(tmp_path):
    source = files(tmp_path, RECORDS, [{"text": "so so", "label": 0}, RECORDS[0]])
    check_columns(settings(source))
    rows = fetch(settings(source))
    assert [row["fields"]["text"] for row in rows] == [
        "good film", "bad film", "so so", "good film",
    ]  # fmt: skip
    assert rows[3]["sample_id"] == rows[0]["sample_id"] + "-2"
    assert len({row["sample_id"] for row in rows}) == 4


def test_a_list_of_one_file_is_that_file(tmp_path):
    source = files(tmp_path, RECORDS)
    alone = json_lines(tmp_path / "alone", RECORDS)
    assert fetch(settings(source)) == fetch(settings(alone))


def test_an_id_that_two_files_give_is_refused(tmp_path):
    source = files(tmp_path, *([{**record, "key": 7}] for record in RECORDS))
    with pytest.raises(BenchmarkError) as error:
        fetch(settings(source, id_column="key"))
    first, second = source.path
    assert str(error.value) == (
        f"{first} and {second}: id_column 'key': the id '7' is not unique; choose another column, "
        "or none to use a hash of the texts"
    )


@pytest.mark.parametrize("check", [fetch, check_columns])
@pytest.mark.parametrize(
    ("second", "complaint"),
    [
        ([{"txt": "a", "label": 1}], "fields.text: {} has no column 'text'; did you mean 'txt'"),
        (
            [{**RECORDS[0], "note": 1}],
            "{} has the columns text, label, note, but {} has text, label",
        ),
        ([], "{}: holds no records"),
    ],
)
def test_a_file_with_other_columns_than_the_first_is_named(check, second, complaint, tmp_path):
    source = files(tmp_path, RECORDS, second)
    with pytest.raises(BenchmarkError) as error:
        check(settings(source))
    assert complaint.format(*source.path[::-1]) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_broken_line_of_a_later_file_is_named(tmp_path):
    source = files(tmp_path, RECORDS, [RECORDS[0], {"text": ["a"], "label": 1}])
    with pytest.raises(BenchmarkError, match=r"1\.x: record 2: column 'text': holds a list"):
        fetch(settings(source))


def test_every_file_is_an_input_of_its_job(tmp_path):
    assert input_files(files(tmp_path, RECORDS, RECORDS)) == [f"{tmp_path}/0.x", f"{tmp_path}/1.x"]


# Embedded and hub -----------------------------------------------------------------------------


def embedded(task):
    return EmbeddedDataset(kind="embedded", task=task, records=20, seed=3)


def test_embedded_records_keep_ids_labels_and_evidence():
    words = Labels(column="label", words={"positive": "Positive", "negative": "Negative"})
    given = settings(embedded("sentiment"), labels=words)
    check_columns(given)
    for row, record in zip(fetch(given), make_records("sentiment", 20, 3), strict=True):
        assert row["sample_id"] == f"d/{record['record_id']}"
        assert row["fields"] == record["fields"]
        assert row["label"] == words.words[record["label"]]
        assert row["evidence"] == record["evidence"]
        assert row["answer"] is None


def test_counterfactuals_have_label_words_and_the_texts_of_fields():
    haystack = Haystack(length=40)
    source = EmbeddedDataset(kind="embedded", task="conflict", haystack=haystack, records=9, seed=3)
    words = Labels(column="label", words={colour: colour.upper() for colour in COLOURS})
    given = settings(source, labels=words, fields={"story": TextField(column="text")})
    for row, record in zip(fetch(given), make_records("conflict", 9, 3, haystack), strict=True):
        for one, made in zip(row["counterfactuals"], record["counterfactuals"], strict=True):
            assert one["answer"] == made["answer"].upper()
            assert one["fields"] == {"story": made["fields"]["text"]}
            assert one["evidence"] == [made["evidence"][0] | {"field": "story"}]


def test_records_without_planted_statements_have_no_counterfactuals():
    words = Labels(column="label", words={"positive": "Positive", "negative": "Negative"})
    rows = fetch(settings(embedded("sentiment"), labels=words))
    assert {row["counterfactuals"] for row in rows} == {None}


def test_embedded_evidence_follows_renamed_and_shortened_fields():
    fields = {"story": TextField(column="narrative", first_sentences=1)}
    given = settings(
        embedded("why"), fields=fields, labels=None, task="generation", answer_column="answer"
    )
    kept = 0
    for row in fetch(given):
        for span in row["evidence"]:
            kept += 1
            assert span["field"] == "story"
            assert row["fields"]["story"][span["start"] : span["end"]] == row["answer"]
    assert 0 < kept < 20  # asked about the first person or not


def test_an_absent_column_of_an_embedded_task_is_named():
    with pytest.raises(BenchmarkError, match="embedded task 'why' has no column 'text'"):
        check_columns(settings(embedded("why"), labels=None, task="generation"))


def test_the_hub_is_not_touched_by_the_column_check(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    check_columns(settings(HubDataset(kind="hub", repository="a/b", split="test")))


def on_the_hub(monkeypatch, **splits):
    """Let the hub have one repository with these splits, and return a source that reads them."""
    import datasets

    def as_dataset(split):
        if split not in splits:
            raise ValueError(f'Unknown split "{split}". Should be one of {list(splits)}.')
        return datasets.Dataset.from_list(splits[split])

    made = SimpleNamespace(download_and_prepare=lambda: None, as_dataset=as_dataset)
    monkeypatch.setattr(datasets, "load_dataset_builder", lambda *names, revision: made)
    return HubDataset(kind="hub", repository="o/n", split=list(splits))


def test_splits_of_the_hub_follow_each_other(monkeypatch):
    source = on_the_hub(monkeypatch, train=RECORDS, test=RECORDS[:1])
    first, second, third = fetch(settings(source))
    assert [first["label"], second["label"], third["label"]] == ["Positive", "Negative", "Positive"]
    assert third["sample_id"] == first["sample_id"] + "-2"


def test_splits_that_do_not_go_together_are_named(monkeypatch):
    keyed = [{**RECORDS[0], "key": "k"}]
    source = on_the_hub(monkeypatch, train=keyed, test=keyed, other=RECORDS)
    pair = source.model_copy(update={"split": ("train", "test")})
    with pytest.raises(BenchmarkError, match=r"^hub dataset o/n, splits train and test: id_column"):
        fetch(settings(pair, id_column="key"))
    complaint = (
        "hub dataset o/n, split other has the columns text, label, but hub dataset o/n, split"
    )
    with pytest.raises(BenchmarkError, match=complaint):
        fetch(settings(source))
    wrong = source.model_copy(update={"split": ("train", "tset")})
    with pytest.raises(BenchmarkError, match=r'splits train and tset: .*Unknown split "tset"'):
        fetch(settings(wrong))


# Real records ---------------------------------------------------------------------------------


def test_real_tab_separated_sentences_are_all_read(shared):
    source = FileDataset(
        kind="file",
        path=str(shared / "data/sst2/validation.tsv"),
        format="tsv",
        columns=("text", "label"),
    )
    rows = fetch(settings(source))
    assert len(rows) == 872
    assert {row["status"] for row in rows} == {OK}
    assert sum(row["label"] == "Positive" for row in rows) == 444
