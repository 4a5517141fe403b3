"""Reading records from the Hugging Face hub, local files or embedded generators.

Heavy imports wait until needed: the workflow checks column names while it parses.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from pisoft.config.datasets import EmbeddedDataset, FileDataset, HubDataset, Labels, TextField
from pisoft.config.jobs.records import FetchJob
from pisoft.datasets.embedded import make_records
from pisoft.datasets.files import DELIMITERS, read_file
from pisoft.datasets.hub import COMMIT, hub_advice, read_commit
from pisoft.datasets.rationales import with_evidence
from pisoft.datasets.sentences import first_sentences
from pisoft.errors import BenchmarkError, did_you_mean
from pisoft.records import label_key
from pisoft.store.parquet import EMPTY_RECORD, OK, TOO_MANY_WORDS, UNKNOWN_LABEL

logger = logging.getLogger(__name__)

Row = dict[str, Any]


@dataclass(frozen=True)
class Source:
    """Raw records of a file or a split, before interpretation."""

    origin: str  # file, or repository and split, for messages
    columns: tuple[str, ...]
    records: Sequence[Mapping[str, Any]]
    evidence: Sequence[list[Row]] | None = None  # per record, offsets into a column
    counterfactuals: Sequence[list[Row]] | None = None  # per record, with texts by column


def fetch(settings: FetchJob) -> list[Row]:
    """Read a dataset as rows of contract kind `datasets`, in the order of its files or splits.

    Texts are stripped, because chat templates trim messages and character offsets into a text must
    also hold in the prompt. The status is `empty_record` for an empty text, `unknown_label` for a
    label without a label word, and `too_many_words` for more than `max_words`.

    Raises:
        BenchmarkError: a file or split cannot be read, has no records, lacks a column, or differs
            in columns from the first; an id is missing or repeated; or labels have no label word
            while a label word has no record.
    """
    configured = settings.source
    if isinstance(configured, HubDataset):
        sources = _from_hub(configured)
    elif isinstance(configured, FileDataset):
        sources = [_from_file(path, configured) for path in configured.paths]
    else:
        sources = [_generated(configured, configured.records)]
    _check_columns(settings, {source.origin: source.columns for source in sources})
    for source in sources:
        if not source.records:
            raise BenchmarkError(f"{source.origin}: holds no records")
    rows = [
        _row(settings, source, index) for source in sources for index in range(len(source.records))
    ]
    origin = " and ".join(source.origin for source in sources)
    if isinstance(configured, HubDataset):
        origin = _hub_origin(configured, configured.splits)
    if settings.labels is not None:
        _check_labels(settings.labels, sources, origin)
    column = settings.id_column or (
        "record_id" if isinstance(configured, EmbeddedDataset) else None
    )
    identifiers = _text_hashes(rows) if column is None else _identifiers(sources, column, origin)
    for row, identifier in zip(rows, identifiers, strict=True):
        row["sample_id"] = f"{settings.dataset}/{identifier}"
    return rows


def at_commit(settings: FetchJob, record: Path | None) -> FetchJob:
    """Pin a hub dataset to its recorded commit; without a record, return it unchanged."""
    source = settings.source
    if record is None or not isinstance(source, HubDataset):
        return settings
    commit = read_commit(record, source.repository, source.revision)
    return settings.model_copy(update={"source": source.model_copy(update={"revision": commit})})


def check_columns(settings: FetchJob) -> None:
    """Check the column names of a local or embedded source, reading only the start of each file.

    Hub sources are not checked: the workflow does not use the network while it parses.

    Raises:
        BenchmarkError: a file cannot be read or has other columns than the first, or the
            configuration names an absent column, or columns of a file with a header line.
    """
    source = settings.source
    if isinstance(source, FileDataset):
        columns = {}
        for path in source.paths:
            columns[path], records = read_file(path, source)
            if source.format in DELIMITERS:
                first = next(records, None)  # has as many values as columns
                if source.columns and first and {*first} == {*first.values()}:
                    raise BenchmarkError(
                        f"dataset '{settings.dataset}': source.columns: {path} has a header line; "
                        "leave `columns` out"
                    )
        _check_columns(settings, columns)
    elif isinstance(source, EmbeddedDataset):
        example = _generated(source, 1)
        _check_columns(settings, {example.origin: example.columns})


# Reading --------------------------------------------------------------------------------------


def _from_hub(source: HubDataset) -> list[Source]:
    from datasets import load_dataset_builder

    origin = _hub_origin(source, source.splits)
    try:
        builder = load_dataset_builder(
            source.repository, source.configuration, revision=source.revision
        )
        # On any failure, the library falls back to its last cached version, of any commit.
        if COMMIT.fullmatch(source.revision) and builder.hash != source.revision:
            raise BenchmarkError(
                f"{origin}: commit {source.revision} cannot be fetched, and the local cache holds "
                f"commit {builder.hash}: run `make fetch` where there is a network"
            )
        builder.download_and_prepare()
        tables = [builder.as_dataset(split=split) for split in source.splits]
    except BenchmarkError:
        raise
    except Exception as error:  # the libraries below raise dozens of classes, some undocumented
        advice = hub_advice(error, source.repository, source.revision, "datasets")
        raise BenchmarkError(f"{origin}: {advice}") from error
    return [
        Source(_hub_origin(source, [split]), tuple(table.column_names), table.to_list())
        for split, table in zip(source.splits, tables, strict=True)
    ]


def _from_file(path: str, source: FileDataset) -> Source:
    columns, lines = read_file(path, source)
    records = list(lines)
    if source.rationale is not None:
        records = [
            with_evidence(record, source.rationale, f"{path}: record {number}")
            for number, record in enumerate(records, start=1)
        ]
    has_evidence = source.format == "eraser" or source.rationale is not None
    evidence = [record["evidence"] for record in records] if has_evidence else None
    return Source(path, columns, records, evidence)


def _generated(source: EmbeddedDataset, count: int) -> Source:
    generated = make_records(source.task, count, source.seed, source.haystack)
    names = ("record_id", "label", "answer")  # in addition to the text fields
    records = [record["fields"] | {name: record[name] for name in names} for record in generated]
    evidence = [record["evidence"] for record in generated]
    counterfactuals = (
        [record["counterfactuals"] for record in generated] if source.haystack else None
    )
    origin = f"embedded task '{source.task}'"
    return Source(origin, tuple(records[0]), records, evidence, counterfactuals)


def _hub_origin(source: HubDataset, splits: Sequence[str]) -> str:
    noun = "split" if len(splits) == 1 else "splits"
    return f"hub dataset {source.repository}, {noun} {' and '.join(splits)}"


# Interpreting ---------------------------------------------------------------------------------


def _check_columns(settings: FetchJob, columns: Mapping[str, Sequence[str]]) -> None:
    """Check that files or splits, by origin, have the configured columns, and all the same ones."""
    column_names: dict[str, str | None]
    column_names = {f"fields.{name}": field.column for name, field in settings.fields.items()}
    column_names |= {name: getattr(settings, name) for name in ("answer_column", "id_column")}
    column_names["cluster_column"] = settings.cluster_column
    if settings.labels is not None:
        column_names["labels.column"] = settings.labels.column
    if isinstance(settings.source, FileDataset) and settings.source.rationale is not None:
        column_names["source.rationale.words"] = settings.source.rationale.words
        column_names["source.rationale.marks"] = settings.source.rationale.marks
    for origin, present in columns.items():
        for key, column in column_names.items():
            where = f"dataset '{settings.dataset}': {key}: {origin}"
            if column is None:
                continue
            if column not in present:
                hint = did_you_mean(column, present)
                if len(present) == 1 and {*present[0]} & {";", "\t"}:
                    hint = f": all of '{present[0]}' is one column; csv has commas, tsv has tabs"
                raise BenchmarkError(f"{where} has no column '{column}'{hint}")
            if list(present).count(column) > 1:
                raise BenchmarkError(f"{where} has several columns '{column}'")
    first = next(iter(columns))
    for origin, present in columns.items():
        if set(present) != set(columns[first]):
            raise BenchmarkError(
                f"dataset '{settings.dataset}': {origin} has the columns {', '.join(present)}, but "
                f"{first} has {', '.join(columns[first])}; give records of the same columns"
            )


def _check_labels(labels: Labels, sources: Sequence[Source], origin: str) -> None:
    """Warn of values without a label word; refuse them if a label word has no records."""
    values = Counter(
        label_key(record.get(labels.column)) for source in sources for record in source.records
    )
    unknown = [f"'{value}'" for value, _ in values.most_common() if value not in labels.words]
    absent = [f"'{value}'" for value in labels.words if value not in values]
    if not unknown:
        return
    listed = ", ".join(unknown[:5])
    problem = f"{origin}: column '{labels.column}' holds values without a label word: {listed}"
    if absent:
        raise BenchmarkError(
            f"{problem}; it never holds {' or '.join(absent)}, which `labels.words` has a word for"
        )
    logger.warning(problem)


def _row(settings: FetchJob, source: Source, index: int) -> Row:
    """Interpret one record; its `sample_id` is set once all records are known."""
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
    elif settings.max_words is not None and _word_count(texts) > settings.max_words:
        status = TOO_MANY_WORDS
    return {
        "sample_id": "",
        "fields": texts,
        "label": word,
        "answer": _answer(record.get(settings.answer_column)) if settings.answer_column else None,
        "evidence": _evidence(settings, source.evidence[index], raw, texts)
        if source.evidence is not None
        else None,
        "counterfactuals": [
            _counterfactual(settings, changed, raw) for changed in source.counterfactuals[index]
        ]
        if source.counterfactuals is not None
        else None,
        "cluster": _cluster(settings, record, where),
        "status": status,
    }


def _counterfactual(settings: FetchJob, counterfactual: Row, raw: Mapping[str, str]) -> Row:
    """Return a counterfactual of a record with its label word, evidence and texts by field."""
    columns = {name: field.column for name, field in settings.fields.items()}
    fields = counterfactual["fields"]
    texts = {name: fields.get(column, raw[name]) for name, column in columns.items()}
    words = settings.labels.words if settings.labels else {}
    return {
        "answer": words.get(counterfactual["answer"]),
        "evidence": _evidence(settings, counterfactual["evidence"], raw, texts),
        "fields": texts,
    }


def _cluster(settings: FetchJob, record: Mapping[str, Any], where: str) -> str | None:
    """Return a hash of the record's value in the cluster column, or None if there is none."""
    column = settings.cluster_column
    text = _text(record.get(column), f"{where}: column '{column}'").strip() if column else ""
    return blake2b(text.encode(), digest_size=8).hexdigest() if text else None


def _text(value: Any, where: str) -> str:
    """Return a value as text; missing values are empty."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if not isinstance(value, str | int | float):
        raise BenchmarkError(f"{where}: holds a {type(value).__name__}, expected text")
    return _storable(value)


def _storable(value: Any) -> str:
    """Return a value as text without lone surrogates, which JSON may hold but no file can."""
    return str(value).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _shortened(text: str, field: TextField) -> str:
    stripped = text.strip()
    if field.first_sentences is None:
        return stripped
    return first_sentences(stripped, field.first_sentences)


def _word_count(texts: Mapping[str, str]) -> int:
    return sum(len(text.split()) for text in texts.values())


def _answer(value: Any) -> str | None:
    """Return a reference answer as text; a list becomes one line per answer."""
    if isinstance(value, list | tuple):
        return "\n".join(map(_storable, value))
    return None if value is None else _storable(value)


def _evidence(
    settings: FetchJob, spans: Sequence[Row], raw: Mapping[str, str], texts: Mapping[str, str]
) -> list[Row]:
    """Map evidence from columns to fields, without parts that were cut off."""
    moved = []
    for name, field in settings.fields.items():
        offset = len(raw[name]) - len(raw[name].lstrip())
        for span in spans:
            start = max(0, span["start"] - offset)
            end = min(len(texts[name]), span["end"] - offset)
            if span["field"] == field.column and start < end:
                moved.append({"field": name, "start": start, "end": end})
    return moved


def _identifiers(sources: Sequence[Source], column: str, origin: str) -> list[str]:
    """Return the values of an id column, which must be present and unique."""
    identifiers: Counter[str] = Counter()
    for source in sources:
        for number, record in enumerate(source.records, start=1):
            value = record.get(column)
            if value in (None, "") or value != value:  # NaN
                raise BenchmarkError(
                    f"{source.origin}: record {number}: id_column '{column}': no id; give every "
                    "record one, or choose no column to use a hash of the texts"
                )
            identifiers[_storable(value)] += 1
    for value, count in identifiers.items():
        if count > 1:
            raise BenchmarkError(
                f"{origin}: id_column '{column}': the id '{value}' is not unique; choose another "
                "column, or none to use a hash of the texts"
            )
    return list(identifiers)


def _text_hashes(rows: Sequence[Row]) -> list[str]:
    """Return a hash of each record's texts; repeated hashes are numbered from 2."""
    seen: Counter[str] = Counter()
    identifiers = []
    for row in rows:
        digest = blake2b(digest_size=8)
        for name, text in sorted(row["fields"].items()):
            # Lengths prevent different records from concatenating to the same bytes.
            digest.update(f"{len(name)} {len(text)} {name}{text}".encode())
        identifier = digest.hexdigest()
        seen[identifier] += 1
        repetition = f"-{seen[identifier]}" if seen[identifier] > 1 else ""
        identifiers.append(identifier + repetition)
    return identifiers
