"""Reading and writing the Parquet files that :mod:`pisoft.store.schemas` declares.

Files are checked against their schema when written and read. Writes are atomic: a temporary file in
the same folder, then a rename. Failures are rows with a `status`; rows are never missing.
"""

from __future__ import annotations

import itertools
import json
import logging
import platform
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pisoft.errors import BenchmarkError, did_you_mean
from pisoft.store.files import whole_files
from pisoft.store.schemas import FILES, SCHEMAS
from pisoft.store.shards import shards_of

OK = "ok"
EMPTY_RECORD = "empty_record"
UNKNOWN_LABEL = "unknown_label"
TOO_MANY_WORDS = "too_many_words"
NO_CONTENT_TOKENS = "no_content_tokens"
CONTROL_TOKEN = "control_token"
NO_EVIDENCE = "no_evidence"
ANSWER_NOT_STATED = "answer_not_stated"
ANSWER_UNCHANGED = "answer_unchanged"
PROMPT_TOO_LONG = "prompt_too_long"
EMPTY_GENERATION = "empty_generation"
NONFINITE_ATTRIBUTION = "nonfinite_attribution"
NONFINITE_LOGITS = "nonfinite_logits"
DEGENERATE_BASELINE = "degenerate_baseline"
ANSWER_NOT_LESS_LIKELY = "answer_not_less_likely"
NOT_APPLICABLE = "not_applicable"
TOO_LONG_FOR_MEMORY = "too_long_for_memory"
CONSTANT_SCORES = "constant_scores"
CONSTANT_CHANGES = "constant_changes"
TOO_FEW_MASKS = "too_few_masks"
OTHER_TARGET = "other_target"
STATUSES = {  # with their meanings
    OK: "there is a result",
    EMPTY_RECORD: "a field of the record has no text",
    UNKNOWN_LABEL: "the record's label has no label word",
    TOO_MANY_WORDS: "the record is longer than the dataset's `max_words`",
    NO_CONTENT_TOKENS: "no token of the prompt comes from the record, or none may be perturbed",
    CONTROL_TOKEN: "the record's text spells one of the model's control tokens",
    NO_EVIDENCE: "no token of the prompt is marked as evidence",
    ANSWER_NOT_STATED: "no evidence of the record states the model's answer",
    ANSWER_UNCHANGED: "the model answers the same when the evidence states another answer",
    PROMPT_TOO_LONG: "the prompt is too long even when shortened as far as allowed",
    EMPTY_GENERATION: "the model ended its answer before the first token",
    NONFINITE_ATTRIBUTION: "a score is not a finite number",
    NONFINITE_LOGITS: "a prediction of the model is not finite",
    DEGENERATE_BASELINE: "removing all perturbable tokens hardly changes the prediction",
    ANSWER_NOT_LESS_LIKELY: "removing all perturbable tokens does not make the answer less likely",
    NOT_APPLICABLE: "the metric is not defined for this dataset",
    TOO_LONG_FOR_MEMORY: "the sample does not fit into memory, even alone",
    CONSTANT_SCORES: "the scores that a mask keeps have the same sum for every mask, or a sum "
    "that follows from the number of tokens kept",
    CONSTANT_CHANGES: "all masks change the prediction equally",
    TOO_FEW_MASKS: "there are fewer than three masks to correlate over",
    OTHER_TARGET: "the scores explain another token than the random scores that drew the masks",
}
logger = logging.getLogger(__name__)

_REPAIR = "delete the file and run the workflow again"
ROWS_IN_A_GROUP = 2**16  # about one cell of a summary: readers of one cell skip other groups
PEAKS = ("peak_memory_mb", "peak_device_memory_mb")  # facts of which shards keep the maximum
PACKAGES = (
    *("torch", "transformers", "tokenizers", "inseq", "captum", "bitsandbytes"),
    *("datasets", "pyarrow", "pandas", "numpy"),
)


def meanings(statuses: Iterable[str]) -> str:
    """Explain the statuses other than `ok` in one line."""
    failures = dict.fromkeys(status for status in statuses if status != OK)
    return "; ".join(f"{status}: {STATUSES[status]}" for status in failures)


def write_rows(
    path: Path, kind: str, rows: Iterable[Mapping[str, Any]], provenance: Mapping[str, Any]
) -> None:
    """Write rows as a Parquet file of the given kind, atomically.

    Args:
        path: the file; missing folders are made.
        kind: a key of :data:`pisoft.store.schemas.SCHEMAS`.
        rows: mappings with exactly the schema's columns.
        provenance: provenance of the file; see :func:`provenance`.

    Raises:
        BenchmarkError: a column is missing, unknown, of the wrong type, or has a forbidden null; or
            the file cannot be written.
    """
    schema = SCHEMAS[kind]
    rows = list(rows)
    for row in rows:
        if set(row) != set(schema.names):
            columns = sorted(set(row) ^ set(schema.names))
            raise BenchmarkError(f"{path}: columns missing or unknown for '{kind}': {columns}")
    try:
        table = pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
    except (ValueError, TypeError, OverflowError) as error:
        raise BenchmarkError(f"{path}: a value does not fit '{kind}': {error}") from error
    write_table(path, kind, table, provenance)


def write_table(path: Path, kind: str, table: pa.Table, provenance: Mapping[str, Any]) -> None:
    """Write a table of the given kind atomically; see :func:`write_rows`."""
    _check_values(path, table.select(SCHEMAS[kind].names), kind)
    if "status" in table.column_names:
        _log_failures(path, table.column("status"))
    table = table.replace_schema_metadata(
        {b"pisoft": json.dumps({"kind": kind, **provenance}, sort_keys=True).encode()}
    )
    with whole_files(path) as (written,):
        pq.write_table(
            table,
            written,
            compression="zstd",
            row_group_size=ROWS_IN_A_GROUP,
            write_page_checksum=True,  # without, a flipped bit may go unnoticed
        )


def _check_values(path: Path, table: pa.Table, kind: str) -> None:
    """Check for forbidden nulls, also inside nested values, and for unknown statuses."""
    for column in FILES[kind].columns:
        if column.name not in table.column_names:
            continue
        values = table.column(column.name)
        nulls = 0 if column.nullable else values.null_count
        if not column.gaps:
            nulls += sum(map(_nulls_inside, values.chunks))
        if nulls:
            raise BenchmarkError(f"{path}: column '{column.name}' has {nulls} nulls, allowed: none")
    if "status" in table.column_names:
        for status in table.column("status").unique().to_pylist():
            if status not in STATUSES:
                raise BenchmarkError(
                    f"{path}: unknown status '{status}'{did_you_mean(status, STATUSES)}"
                )


def _nulls_inside(values: pa.Array) -> int:
    """Count the nulls inside the lists, maps and structs of an array."""
    if pa.types.is_list(values.type):
        parts = [values.flatten()]
    elif pa.types.is_map(values.type):
        parts = [values.items]
    else:
        parts = values.flatten() if pa.types.is_struct(values.type) else []
    return sum(part.null_count + _nulls_inside(part.drop_null()) for part in parts)


def _log_failures(path: Path, status: pa.ChunkedArray) -> None:
    """Log the number of rows that are not ok, by status."""
    counts = {item["values"]: item["counts"] for item in status.value_counts().to_pylist()}
    failed = [f"{count} {name}" for name, count in sorted(counts.items()) if name != OK]
    if failed:
        logger.warning("%s: of %d rows, %s", path.name, len(status), ", ".join(failed))


def read_table(
    path: Path, kind: str, columns: Sequence[str] | None = None, where: pc.Expression | None = None
) -> pa.Table:
    """Read a Parquet file or all shards of a cell, and check the schema.

    Args:
        path: the file, or the path of a sharded cell; see :mod:`pisoft.store.shards`.
        kind: a key of :data:`pisoft.store.schemas.SCHEMAS`.
        columns: columns to read and check; None: all.
        where: filter of rows; parts of the file without matching rows are skipped.

    Raises:
        BenchmarkError: missing or corrupt file, a column that is missing or of the wrong type, a
            forbidden null, an unknown status, or a sample in two shards.
    """
    names = SCHEMAS[kind].names if columns is None else list(columns)
    files = shards_of(path)
    tables = [_read_file(file, kind, names, where) for file in files]
    if len(files) == 1:
        return tables[0]
    if "sample_id" in names:
        _check_disjoint(files, tables)
    return pa.concat_tables(tables)


def _read_file(
    path: Path, kind: str, names: Sequence[str], where: pc.Expression | None
) -> pa.Table:
    """Read columns of one file; see :func:`read_table`."""
    # Opened once: the file may be replaced while it is read.
    with _readable(path), pa.OSFile(str(path)) as file:
        present = set(pq.read_schema(file).names)
        columns = [name for name in names if name in present]
        table = pq.read_table(file, columns=columns, filters=where, page_checksum_verification=True)
        table.validate(full=True)  # checks that texts are UTF-8
    for field in map(SCHEMAS[kind].field, names):
        if field.name not in present:
            raise BenchmarkError(
                f"{path}: column '{field.name}' is missing for '{kind}'; {_REPAIR}"
            )
        stored = table.schema.field(field.name).type
        if stored != field.type:
            raise BenchmarkError(
                f"{path}: column '{field.name}' is {stored}, expected {field.type}; {_REPAIR}"
            )
    _check_values(path, table, kind)
    return table.select(names)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn errors of reading a file into one-line messages."""
    try:
        yield
    except FileNotFoundError as error:
        raise BenchmarkError(f"{path}: no such file; the workflow makes it") from error
    except PermissionError as error:  # the file may be sound
        raise BenchmarkError(f"{path}: cannot be read: {error}") from error
    except (OSError, ValueError, pa.ArrowException) as error:
        raise BenchmarkError(
            f"{path}: is not a readable Parquet file ({error}); {_REPAIR}"
        ) from error


def _check_disjoint(files: Sequence[Path], tables: Sequence[pa.Table]) -> None:
    """Check that no sample is in two shards."""
    file_of: dict[str, Path] = {}
    for file, table in zip(files, tables, strict=True):
        for sample in table.column("sample_id").unique().to_pylist():
            if sample in file_of:
                raise BenchmarkError(
                    f"{file}: sample '{sample}' is also in {file_of[sample]}; delete both and run "
                    "the workflow again"
                )
            file_of[sample] = file


def read_rows(path: Path, kind: str) -> list[dict[str, Any]]:
    """Read a checked Parquet file as a list of rows; see :func:`read_table`."""
    rows = read_table(path, kind).to_pylist()
    if kind in ("datasets", "samples"):
        for row in rows:
            row["fields"] = dict(row["fields"])
            for counterfactual in row["counterfactuals"] or ():
                counterfactual["fields"] = dict(counterfactual["fields"])
    return rows


def provenance(settings: Mapping[str, Any], **facts: Any) -> dict[str, Any]:
    """Return a result's provenance: settings, versions, git commit, and facts such as `device`."""
    return {
        "settings": dict(settings),
        "packages": _versions(),
        "python": platform.python_version(),
        "git_commit": _git_commit(),
        **facts,
    }


def read_provenance(path: Path) -> dict[str, Any]:
    """Return the provenance stored in a Parquet file; empty if it has none.

    If the shards of a cell differ in a fact, memory peaks give the maximum, other facts a list as
    text.

    Raises:
        BenchmarkError: no such file, or it cannot be read.
    """
    return _merged([_provenance_of_file(file) for file in shards_of(path)])


def made_with(paths: Iterable[Path]) -> dict[str, tuple[str, ...]]:
    """Return all versions of packages, Python and the code that files were made with.

    Raises:
        BenchmarkError: no such file, or it cannot be read.
    """
    versions: dict[str, dict[str, None]] = {}
    for file in itertools.chain.from_iterable(map(shards_of, paths)):
        stored = _provenance_of_file(file)
        code = {"code": stored.get("git_commit"), "python": stored.get("python")}
        for name, release in {**code, **stored.get("packages", {})}.items():
            versions.setdefault(name, {})[release] = None
    return {name: tuple(filter(None, releases)) for name, releases in versions.items()}


def computed_on(paths: Iterable[Path]) -> str:
    """Return all devices that files were computed on: a run may continue on another one.

    Raises:
        BenchmarkError: no such file, or it cannot be read.
    """
    files = itertools.chain.from_iterable(map(shards_of, paths))
    devices = (_provenance_of_file(file).get("device") for file in files)
    return " and ".join(dict.fromkeys(filter(None, devices)))


def _provenance_of_file(path: Path) -> dict[str, Any]:
    """Return the provenance stored in one file; see :func:`read_provenance`."""
    with _readable(path):
        metadata = pq.read_schema(path).metadata or {}
        stored = json.loads(metadata.get(b"pisoft", b"{}"))
    return stored if isinstance(stored, dict) else {}


def _merged(facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the facts of several files; see :func:`read_provenance`."""
    common: dict[str, Any] = {}
    for name in dict.fromkeys(itertools.chain(*facts)):
        values: list[Any] = [shard.get(name) for shard in facts]
        if all(value == values[0] for value in values):
            common[name] = values[0]
        elif name in PEAKS:
            common[name] = max(value for value in values if value is not None)
        elif all(isinstance(value, dict) for value in values):
            common[name] = _merged(values)
        else:
            common[name] = ", ".join(dict.fromkeys(map(str, values)))
    return common


def _versions() -> dict[str, str]:
    """Return the versions of the installed packages; no environment has all of them."""
    versions = {}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def _git_commit() -> str | None:
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
