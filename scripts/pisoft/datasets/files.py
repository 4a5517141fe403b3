"""Reading the records of a local file, whatever its format.

Nothing heavy is imported until it is needed, so that the workflow can check column names while
it parses.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pisoft.config.datasets import FileDataset
from pisoft.datasets.eraser import COLUMNS, document_of, record_of
from pisoft.datasets.hub import first_line
from pisoft.errors import BenchmarkError

Row = dict[str, Any]
DELIMITERS = {"csv": ",", "tsv": "\t"}
# Tab-separated corpora (SST-2) hold stray quotation marks that quote nothing.
QUOTING: dict[str, Literal[0, 3]] = {"csv": csv.QUOTE_MINIMAL, "tsv": csv.QUOTE_NONE}


def file_columns(path: str, source: FileDataset) -> tuple[str, ...]:
    """Return the column names of a file, reading no further than needed.

    Args:
        path: one of the source's files.
        source: its format, and its columns if it has no header line.

    Raises:
        BenchmarkError: the file cannot be read, has no records, or `columns` are given for a format
            that names its columns itself.
    """
    if source.columns is not None and source.format not in DELIMITERS:
        raise BenchmarkError(
            f"{path}: `columns` is for csv and tsv files without a header line; "
            f"a {source.format} file names its columns itself"
        )
    if source.format == "parquet":
        import pyarrow.parquet as parquet

        return tuple(_parquet(path, parquet.read_schema).names)
    if source.columns is not None:
        return source.columns
    firsts: Iterator[Row] | Iterator[list[str]]
    if source.format in DELIMITERS:
        firsts = (values for _, values in _lines(path, source))
    else:
        firsts = file_records(path, source, ())
    for first in firsts:
        return COLUMNS if source.format == "eraser" else tuple(first)
    raise BenchmarkError(f"{path}: holds no records")


def file_records(path: str, source: FileDataset, columns: Sequence[str]) -> Iterator[Row]:
    """Yield the records of a file; those of format `eraser` have their `evidence` besides.

    Args:
        path: one of the source's files.
        source: its format, and its columns if it has no header line.
        columns: what :func:`file_columns` returns; only csv and tsv files need them.

    Raises:
        BenchmarkError: the file cannot be read, or a line of it is no record.
    """
    match source.format:
        case "csv" | "tsv":
            yield from _delimited(path, source, columns)
        case "jsonl":
            yield from (record for _, record in _json_lines(path))
        case "eraser":
            for where, annotation in _json_lines(path):
                yield record_of(annotation, path, where)
        case "parquet":
            import pyarrow.parquet as parquet

            yield from _parquet(path, parquet.read_table).to_pylist()


def input_files(source: FileDataset) -> list[str]:
    """Return all that is read: the files, and the documents that those of format `eraser` name.

    Raises:
        BenchmarkError: as :func:`file_records`, for what names the documents.
    """
    if source.format != "eraser":
        return list(source.paths)
    documents = {
        str(document)
        for path in source.paths
        for where, annotation in _json_lines(path)
        if (document := document_of(annotation, path, where)) is not None
    }
    return [*source.paths, *sorted(documents)]


def _delimited(path: str, source: FileDataset, columns: Sequence[str]) -> Iterator[Row]:
    """Yield the records of a csv or tsv file, every value as text."""
    lines = _lines(path, source)
    if source.columns is None:
        next(lines)
    for number, values in lines:
        if len(values) != len(columns):
            raise BenchmarkError(
                f"{path}: line {number} has {len(values)} values, expected {len(columns)}: "
                f"{', '.join(columns)}"
            )
        yield dict(zip(columns, values, strict=True))


def _lines(path: str, source: FileDataset) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and values of every line of a csv or tsv file that is not blank."""
    csv.field_size_limit(sys.maxsize)  # the default refuses values beyond 128 kB
    try:
        # A byte-order mark would become part of the first column's name.
        with open(path, encoding="utf-8-sig", newline="") as file:
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
        raise _unreadable(path, source.format, error) from error


def _json_lines(path: str) -> Iterator[tuple[str, Row]]:
    """Yield place and object of every line of a file of JSON lines that is not blank."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    where = f"{path}: line {number}"
                    yield where, _json_object(line, where)
    except (OSError, UnicodeError) as error:
        raise _unreadable(path, "jsonl", error) from error


def _json_object(line: str, where: str) -> Row:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:  # of nesting, or of numbers, without end
        raise BenchmarkError(f"{where} is not JSON: {first_line(error)}") from error
    if not isinstance(record, dict):
        raise BenchmarkError(f"{where} must hold an object, found {type(record).__name__}")
    return record


def _parquet(path: str, read: Any) -> Any:
    """Apply one of pyarrow's readers to the file."""
    from pyarrow import ArrowException

    try:
        return read(path)
    except (OSError, ArrowException) as error:
        raise _unreadable(path, "parquet", error) from error


def _unreadable(path: str, form: str, error: Exception) -> BenchmarkError:
    return BenchmarkError(f"{path}: cannot be read as {form} in UTF-8: {first_line(error)}")
