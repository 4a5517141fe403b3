"""Reading the records of a local file in any supported format.

Heavy imports wait until needed: the workflow checks column names while it parses.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Literal

from pisoft.config.datasets import FileDataset
from pisoft.datasets.eraser import COLUMNS, document_of, record_of
from pisoft.datasets.hub import first_line
from pisoft.errors import BenchmarkError

Row = dict[str, Any]
DELIMITERS = {"csv": ",", "tsv": "\t"}
# Tab-separated corpora (SST-2) hold stray quotation marks that quote nothing.
QUOTING: dict[str, Literal[0, 3]] = {"csv": csv.QUOTE_MINIMAL, "tsv": csv.QUOTE_NONE}


def read_file(path: str, source: FileDataset) -> tuple[tuple[str, ...], Iterator[Row]]:
    """Return the column names of a file, and an iterator that reads its records lazily.

    Records of format `eraser` also have `evidence`; values of csv and tsv files are texts.

    Raises:
        BenchmarkError: the file cannot be read, has no records, or `columns` are given for a format
            that names its columns itself; or, during iteration, a line is not a record.
    """
    if source.format in DELIMITERS:
        lines = _lines(path, source)
        columns = source.columns or next((tuple(values) for _, values in lines), None)
        records = _delimited(path, lines, columns or ())
    elif source.columns is not None:
        raise BenchmarkError(
            f"{path}: `columns` is for csv and tsv files without a header line; "
            f"a {source.format} file names its columns itself"
        )
    elif source.format == "parquet":
        columns = tuple(_parquet(path, lambda file: file.schema_arrow.names))
        records = _rows(path)
    else:
        located = _json_lines(path)
        if source.format == "eraser":
            located = ((where, record_of(line, path, where)) for where, line in located)
        first = [record for _, record in islice(located, 1)]
        columns = (COLUMNS if source.format == "eraser" else tuple(first[0])) if first else None
        records = chain(first, (record for _, record in located))
    if columns is None:
        raise BenchmarkError(f"{path}: holds no records")
    return columns, records


def input_files(source: FileDataset) -> list[str]:
    """Return all input files, including the documents that files of format `eraser` name.

    Raises:
        BenchmarkError: a file of format `eraser` cannot be read; see :func:`read_file`.
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


def _delimited(
    path: str, lines: Iterator[tuple[int, list[str]]], columns: Sequence[str]
) -> Iterator[Row]:
    """Yield the records of the lines after a header, with all values as text."""
    for number, values in lines:
        if len(values) != len(columns):
            raise BenchmarkError(
                f"{path}: line {number} has {len(values)} values, expected {len(columns)}: "
                f"{', '.join(columns)}"
            )
        yield dict(zip(columns, values, strict=True))


def _lines(path: str, source: FileDataset) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and values of every non-blank line of a csv or tsv file."""
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
    """Yield location and object of every non-blank line of a JSON Lines file."""
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
    except (ValueError, RecursionError) as error:  # also of endless nesting or numbers
        problem = getattr(error, "msg", first_line(error))  # without json's own line number
        raise BenchmarkError(f"{where} is no JSON object in one line: {problem}") from error
    if not isinstance(record, dict):
        raise BenchmarkError(f"{where} must hold an object, found {type(record).__name__}")
    return record


def _rows(path: str) -> Iterator[Row]:
    yield from _parquet(path, lambda file: file.read().to_pylist())


def _parquet(path: str, read: Callable[[Any], Any]) -> Any:
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            return read(file)
    # Python cannot represent some values, such as dates after the year 9999.
    except (OSError, ArrowException, ValueError, OverflowError) as error:
        raise _unreadable(path, "parquet", error) from error


def _unreadable(path: str, form: str, error: Exception) -> BenchmarkError:
    return BenchmarkError(f"{path}: cannot be read as {form} in UTF-8: {first_line(error)}")
