"""Reading records: from the Hugging Face hub, from one local file, or made on the spot.

Nothing heavy is imported until it is needed, so that the workflow can check column names while
it parses.
"""

from __future__ import annotations

import csv
import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal

from pisoft.config.datasets import EmbeddedDataset, FileDataset, HubDataset, Labels, TextField
from pisoft.config.slices.data import FetchSlice
from pisoft.contracts import EMPTY_RECORD, OK, UNKNOWN_LABEL
from pisoft.data.text import first_sentences
from pisoft.errors import BenchmarkError, did_you_mean
from pisoft.hub import first_line, hub_advice
from pisoft.records import label_key

Row = dict[str, Any]
DELIMITERS = {"csv": ",", "tsv": "\t"}
# Tab-separated corpora (SST-2) hold stray quotation marks that quote nothing.
QUOTING: dict[str, Literal[0, 3]] = {"csv": csv.QUOTE_MINIMAL, "tsv": csv.QUOTE_NONE}


@dataclass(frozen=True)
class Source:
    """Records as they were found, before any of them is interpreted."""

    origin: str  # file or repository, for messages
    columns: tuple[str, ...]
    records: Sequence[Mapping[str, Any]]
    evidence: Sequence[list[Row]] | None = None  # per record, offsets into a column


MakeRecords = Callable[[EmbeddedDataset, int], Source]
"""Makes a number of an embedded dataset's records: :func:`pisoft.embedded.source.made_source`."""


def fetch(settings: FetchSlice, make_records: MakeRecords) -> list[Row]:
    """Read a dataset as rows of contract kind `datasets`, in the order of the source.

    Texts lose white space at both ends, because chat templates trim messages: character offsets
    into a text must also hold in the prompt. A record with an empty text has status
    `empty_record`, one whose label has no label word `unknown_label`.

    Args:
        settings: source, and which columns hold texts, label, answer and id.
        make_records: makes the records of an embedded dataset.

    Raises:
        BenchmarkError: the source cannot be read, has no records, lacks a column, repeats an id,
            or no record's label has a label word.
    """
    source = _read(settings, make_records)
    _check_mapping(settings, source.columns, source.origin)
    if not source.records:
        raise BenchmarkError(f"{source.origin}: holds no records")
    rows = [_row(settings, source, index) for index in range(len(source.records))]
    if settings.labels is not None and all(row["label"] is None for row in rows):
        raise _no_known_label(settings.labels, source)
    for row, identifier in zip(rows, _identifiers(settings, source, rows), strict=True):
        row["sample_id"] = f"{settings.dataset}/{identifier}"
    return rows


def check_columns(settings: FetchSlice, make_records: MakeRecords) -> None:
    """Check the column names of a local or embedded source by its first line alone.

    Sources on the hub are not touched: the workflow does not use the network while it parses.

    Raises:
        BenchmarkError: the file cannot be read, or the configuration names an absent column.
    """
    source = settings.source
    if isinstance(source, FileDataset):
        columns = _file_columns(source)
        if source.format in DELIMITERS:  # the first record has as many values as columns
            next(_delimited(source, columns), None)
        _check_mapping(settings, columns, source.path)
    elif isinstance(source, EmbeddedDataset):
        made = make_records(source, 1)
        _check_mapping(settings, made.columns, made.origin)


# Reading --------------------------------------------------------------------------------------


def _read(settings: FetchSlice, make_records: MakeRecords) -> Source:
    source = settings.source
    if isinstance(source, HubDataset):
        return _from_hub(source)
    if isinstance(source, FileDataset):
        columns = _file_columns(source)
        records = _FILE_RECORDS[source.format](source, columns)
        return Source(source.path, columns, list(records))
    return make_records(source, source.records)


def _from_hub(source: HubDataset) -> Source:
    from datasets import load_dataset

    origin = f"hub dataset {source.repository}, split {source.split}"
    try:
        table = load_dataset(
            source.repository, source.configuration, split=source.split, revision=source.revision
        )
    except Exception as error:  # the libraries below raise dozens of classes, some undocumented
        advice = hub_advice(error, source.repository, source.revision, "datasets")
        raise BenchmarkError(f"{origin}: {advice}") from error
    return Source(origin, tuple(table.column_names), table.to_list())


def _file_columns(source: FileDataset) -> tuple[str, ...]:
    """Return the column names of a local file, reading no further than needed."""
    if source.columns is not None and source.format not in DELIMITERS:
        raise BenchmarkError(
            f"{source.path}: `columns` is for csv and tsv files without a header line; "
            f"a {source.format} file names its columns itself"
        )
    if source.format == "parquet":
        import pyarrow.parquet as parquet

        return tuple(_parquet(source, parquet.read_schema).names)
    if source.columns is not None:
        return source.columns
    firsts: Iterator[Row] | Iterator[list[str]]
    if source.format == "jsonl":
        firsts = _json_lines(source, ())
    else:
        firsts = (values for _, values in _lines(source))
    for first in firsts:
        return tuple(first)
    raise BenchmarkError(f"{source.path}: holds no records")


def _delimited(source: FileDataset, columns: Sequence[str]) -> Iterator[Row]:
    """Yield the records of a csv or tsv file, every value as text."""
    lines = _lines(source)
    if source.columns is None:
        next(lines)
    for number, values in lines:
        if len(values) != len(columns):
            raise BenchmarkError(
                f"{source.path}: line {number} has {len(values)} values, expected {len(columns)}: "
                f"{', '.join(columns)}"
            )
        yield dict(zip(columns, values, strict=True))


def _lines(source: FileDataset) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and values of every line of a csv or tsv file that is not blank."""
    csv.field_size_limit(sys.maxsize)  # the default refuses values beyond 128 kB
    try:
        # A byte-order mark would become part of the first column's name.
        with open(source.path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(
                file,
                delimiter=DELIMITERS[source.format],
                quoting=QUOTING[source.format],
                strict=True,
            )
            for values in reader:
                if values:
                    yield reader.line_num, values
    except (OSError, UnicodeError, csv.Error) as error:
        raise _unreadable(source, error) from error


def _json_lines(source: FileDataset, columns: Sequence[str]) -> Iterator[Row]:
    """Yield the records of a jsonl file; `columns` is what the first one has."""
    try:
        with open(source.path, encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield _json_record(source, number, line)
    except (OSError, UnicodeError) as error:
        raise _unreadable(source, error) from error


def _json_record(source: FileDataset, number: int, line: str) -> Row:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise BenchmarkError(f"{source.path}: line {number} is not JSON: {error}") from error
    if not isinstance(record, dict):
        found = type(record).__name__
        raise BenchmarkError(f"{source.path}: line {number} must hold an object, found {found}")
    return record


def _parquet_records(source: FileDataset, columns: Sequence[str]) -> Iterator[Row]:
    import pyarrow.parquet as parquet

    yield from _parquet(source, parquet.read_table).to_pylist()


def _parquet(source: FileDataset, read: Any) -> Any:
    """Apply one of pyarrow's readers to the file."""
    from pyarrow import ArrowException

    try:
        return read(source.path)
    except (OSError, ArrowException) as error:
        raise _unreadable(source, error) from error


_FILE_RECORDS = {
    "csv": _delimited,
    "tsv": _delimited,
    "jsonl": _json_lines,
    "parquet": _parquet_records,
}


def _unreadable(source: FileDataset, error: Exception) -> BenchmarkError:
    return BenchmarkError(
        f"{source.path}: cannot be read as {source.format} in UTF-8: {first_line(error)}"
    )


# Interpreting ---------------------------------------------------------------------------------


def _check_mapping(settings: FetchSlice, columns: Sequence[str], origin: str) -> None:
    """Check that every column the configuration names exists."""
    wanted = {f"fields.{name}": field.column for name, field in settings.fields.items()}
    if settings.labels is not None:
        wanted["labels.column"] = settings.labels.column
    if settings.answer_column is not None:
        wanted["answer_column"] = settings.answer_column
    if settings.id_column is not None:
        wanted["id_column"] = settings.id_column
    for key, column in wanted.items():
        if column not in columns:
            raise BenchmarkError(
                f"dataset '{settings.dataset}': {key}: {origin} has no column '{column}'"
                + did_you_mean(column, columns)
            )
        if list(columns).count(column) > 1:
            raise BenchmarkError(
                f"dataset '{settings.dataset}': {key}: {origin} has several columns '{column}'"
            )


def _row(settings: FetchSlice, source: Source, index: int) -> Row:
    """Interpret one record; its `sample_id` follows when all records are known."""
    record = source.records[index]
    where = f"{source.origin}: record {index + 1}"
    raw = {
        name: _text(record.get(field.column), f"{where}: column '{field.column}'")
        for name, field in settings.fields.items()
    }
    texts = {name: _shortened(raw[name], field) for name, field in settings.fields.items()}
    word = None
    if settings.labels is not None:
        word = settings.labels.words.get(label_key(record.get(settings.labels.column)))
    status = OK
    if not all(texts.values()):
        status = EMPTY_RECORD
    elif settings.labels is not None and word is None:
        status = UNKNOWN_LABEL
    return {
        "sample_id": "",
        "fields": texts,
        "label": word,
        "answer": _answer(record.get(settings.answer_column)) if settings.answer_column else None,
        "evidence": _evidence(settings, source.evidence[index], raw, texts)
        if source.evidence is not None
        else None,
        "status": status,
    }


def _text(value: Any, where: str) -> str:
    """Return a value as text; missing values are empty."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if not isinstance(value, str | int | float):
        raise BenchmarkError(f"{where}: holds a {type(value).__name__}, expected text")
    # JSON may hold halves of surrogate pairs, which no file can store.
    return str(value).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _shortened(text: str, field: TextField) -> str:
    """Return what is kept of a column's text."""
    stripped = text.strip()
    if field.first_sentences is None:
        return stripped
    return first_sentences(stripped, field.first_sentences)


def _answer(value: Any) -> str | None:
    """Return a reference answer as text; several ones on a line each."""
    if isinstance(value, list | tuple):
        return "\n".join(str(one) for one in value)
    return None if value is None else str(value)


def _evidence(
    settings: FetchSlice, spans: Sequence[Row], raw: Mapping[str, str], texts: Mapping[str, str]
) -> list[Row]:
    """Move evidence from columns to fields, and drop what was cut off."""
    moved = []
    for name, field in settings.fields.items():
        offset = len(raw[name]) - len(raw[name].lstrip())
        for span in spans:
            start = max(0, span["start"] - offset)
            end = min(len(texts[name]), span["end"] - offset)
            if span["field"] == field.column and start < end:
                moved.append({"field": name, "start": start, "end": end})
    return moved


def _no_known_label(labels: Labels, source: Source) -> BenchmarkError:
    values = (label_key(record.get(labels.column)) for record in source.records)
    found = ", ".join(f"'{value}'" for value, _ in Counter(values).most_common(5))
    return BenchmarkError(
        f"{source.origin}: no value of column '{labels.column}' has a label word: "
        f"found {found}; `labels.words` allows {', '.join(labels.words)}"
    )


def _identifiers(settings: FetchSlice, source: Source, rows: Sequence[Row]) -> list[str]:
    """Return one unique, stable identifier per record."""
    column = settings.id_column or ("record_id" if source.evidence is not None else None)
    if column is None:
        return _text_hashes(rows)
    identifiers = [str(record.get(column)) for record in source.records]
    repeated = [value for value, count in Counter(identifiers).items() if count > 1]
    if repeated:
        raise BenchmarkError(
            f"{source.origin}: id_column '{column}': the id '{repeated[0]}' is not unique; "
            "choose another column, or none to use a hash of the texts"
        )
    return identifiers


def _text_hashes(rows: Sequence[Row]) -> list[str]:
    """Return a hash of each record's texts; repetitions of a record are numbered from 2."""
    seen: Counter[str] = Counter()
    identifiers = []
    for row in rows:
        digest = blake2b(digest_size=8)
        for name, text in sorted(row["fields"].items()):
            # Lengths keep different records from running together to the same bytes.
            digest.update(f"{len(name)} {len(text)} {name}{text}".encode())
        identifier = digest.hexdigest()
        seen[identifier] += 1
        repetition = f"-{seen[identifier]}" if seen[identifier] > 1 else ""
        identifiers.append(identifier + repetition)
    return identifiers
