"""The Parquet files that carry the data: columns, types, nullability, reading and writing.

Every file is checked against its schema when it is written and when it is read. Writes are atomic:
a temporary file in the same folder, then a rename. Failures are rows with a `status`, never
missing rows.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pisoft.errors import BenchmarkError

OK = "ok"
EMPTY_RECORD = "empty_record"
UNKNOWN_LABEL = "unknown_label"
NO_CONTENT_TOKENS = "no_content_tokens"
PROMPT_TOO_LONG = "prompt_too_long"
EMPTY_GENERATION = "empty_generation"
NONFINITE_ATTRIBUTION = "nonfinite_attribution"
NONFINITE_LOGITS = "nonfinite_logits"
DEGENERATE_BASELINE = "degenerate_baseline"
NOT_APPLICABLE = "not_applicable"
STATUSES = (
    OK,
    EMPTY_RECORD,
    UNKNOWN_LABEL,
    NO_CONTENT_TOKENS,
    PROMPT_TOO_LONG,
    EMPTY_GENERATION,
    NONFINITE_ATTRIBUTION,
    NONFINITE_LOGITS,
    DEGENERATE_BASELINE,
    NOT_APPLICABLE,
)
logger = logging.getLogger(__name__)

ROWS_IN_A_GROUP = 2**16  # about a cell of a summary: readers of one cell skip the others
PACKAGES = ("torch", "transformers", "datasets", "pyarrow", "pandas", "numpy")


def _field(name: str, kind: pa.DataType, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=nullable)


_TEXT, _WHOLE, _REAL, _TRUTH = pa.string(), pa.int32(), pa.float64(), pa.bool_()
_TOKENS, _BITS, _FLOATS = pa.list_(_WHOLE), pa.list_(_TRUTH), pa.list_(pa.float32())
_TEXTS = pa.list_(_TEXT)
_SPAN = pa.struct([("field", _TEXT), ("start", _WHOLE), ("end", _WHOLE)])

_RECORD = (
    _field("sample_id", _TEXT),
    _field("fields", pa.map_(_TEXT, _TEXT)),
    _field("label", _TEXT, nullable=True),  # label word
    _field("answer", _TEXT, nullable=True),
    _field("evidence", pa.list_(_SPAN), nullable=True),  # character offsets into a field
    _field("status", _TEXT),
)

_CELL = tuple(_field(name, _TEXT) for name in ("protocol", "model", "method", "dataset"))
_STATISTIC = (
    _field("protocol", _TEXT, nullable=True),  # null: insertion and deletion
    *(_field(name, _TEXT) for name in ("model", "metric", "dataset", "method")),
)

SCHEMAS: dict[str, pa.Schema] = {
    "datasets": pa.schema(_RECORD),
    "samples": pa.schema(_RECORD),
    "prompts": pa.schema(
        [
            _field("sample_id", _TEXT),
            _field("input_ids", _TOKENS),  # (prompt tokens,)
            _field("token_texts", _TEXTS),  # what each of them says, for readers
            _field("content_mask", _BITS),  # tokens that come from the record
            _field("user_mask", _BITS),  # tokens of the user's turns
            _field("bos_mask", _BITS),  # the beginning-of-sequence token
            _field("evidence_mask", _BITS, nullable=True),
            _field("prompt_text", _TEXT),
            _field("label", _TEXT, nullable=True),
            _field("label_token_ids", _TOKENS),  # tokens that answer; none for open generation
            _field("label_words", _TEXTS),  # the label word of each of these tokens
            _field("truncated", _TRUTH),
            _field("status", _TEXT),
        ]
    ),
    "generations": pa.schema(
        [
            _field("sample_id", _TEXT),
            _field("output_ids", _TOKENS),
            _field("output_text", _TEXT),
            _field("output_token_texts", _TEXTS),  # what each token says, for readers
            _field("steps", _TOKENS),  # explained steps, 0 = first generated token
            _field("target_ids", _TOKENS),  # target token of each explained step
            _field("predicted_label", _TEXT, nullable=True),
            _field("label", _TEXT, nullable=True),
            _field("correct", _TRUTH, nullable=True),
            _field("greedy_token_id", _WHOLE, nullable=True),  # unconstrained first token
            _field("greedy_is_label", _TRUTH, nullable=True),
            _field("status", _TEXT),
        ]
    ),
    "attributions": pa.schema(
        [
            _field("sample_id", _TEXT),
            _field("step", _WHOLE),
            _field("raw_scores", _FLOATS, nullable=True),  # one per prompt token
            _field("converged", _TRUTH, nullable=True),  # iterative methods: stopped by their rule
            # The sample's and step's share of its batch's time, in proportion to the tokens that
            # the model has read at the step: a batch's shares add up to its time. The first run of
            # the job and attempts that ran out of memory are not timed.
            _field("seconds", _REAL, nullable=True),
            _field("status", _TEXT),
        ]
    ),
    "soft": pa.schema(
        [
            _field("sample_id", _TEXT),
            _field("step", _WHOLE),
            _field("pi", _REAL, nullable=True),  # null: the original metrics (alpha = 1)
            _field("perturbable", _WHOLE),  # number of perturbable tokens, m
            _field("alpha", _REAL, nullable=True),
            _field("achieved", _REAL, nullable=True),  # mean of the transformed scores
            _field("feasible", _TRUTH, nullable=True),  # reachable without the score floor
            _field("floored", _WHOLE, nullable=True),  # scores at or below the floor
            _field("ceiled", _WHOLE, nullable=True),  # scores at or above 1 - floor
            _field("h0", _REAL, nullable=True),  # H(clean, zero baseline)
            _field("identity", _REAL, nullable=True),  # H(clean, clean again): numerical noise
            # Of each draw, tokens kept by score (ns) or removed by score (nc): Hellinger distance,
            # from which the Bhattacharyya coefficient 1 - H² follows, total variation distance,
            # and change of the target's log-probability.
            _field("ns_distances", _FLOATS, nullable=True),
            _field("ns_total_variations", _FLOATS, nullable=True),
            _field("ns_log_probability_changes", _FLOATS, nullable=True),
            _field("nc_distances", _FLOATS, nullable=True),
            _field("nc_total_variations", _FLOATS, nullable=True),
            _field("nc_log_probability_changes", _FLOATS, nullable=True),
            _field("status", _TEXT),
        ]
    ),
    "ranking": pa.schema(
        [
            _field("sample_id", _TEXT),
            _field("curve", _TEXT),  # deletion or insertion
            _field("perturbable", _WHOLE),  # number of perturbable tokens, m
            _field("flips", _BITS, nullable=True),  # another label word is preferred, by step
            _field("auc", _REAL, nullable=True),  # mean of the flips
            _field("status", _TEXT),
        ]
    ),
    "soft_samples": pa.schema(
        [
            *_CELL,
            _field("sample_id", _TEXT),
            _field("metric", _TEXT),
            _field("value", _REAL, nullable=True),
            _field("status", _TEXT),
        ]
    ),
    "soft_curves": pa.schema(
        [
            *_CELL,
            _field("metric", _TEXT),
            _field("pi", _REAL),
            _field("mean", _REAL, nullable=True),
            _field("standard_error", _REAL, nullable=True),
            _field("n", _WHOLE),
            _field("n_failed", _WHOLE),
        ]
    ),
    # A number with its uncertainty; `dataset` may be `average`, the mean over datasets.
    "statistics": pa.schema(
        [
            *_STATISTIC,
            _field("value", _REAL, nullable=True),
            _field("low", _REAL, nullable=True),  # ends of the 95 % bootstrap interval
            _field("high", _REAL, nullable=True),
            _field("standard_error", _REAL, nullable=True),
            _field("n", _WHOLE),
            _field("n_failed", _WHOLE),
            _field("rank", _REAL, nullable=True),  # 1 is best; ties share the mean rank
            _field("rank_low", _REAL, nullable=True),  # ends of 95 % of the rank's resamples
            _field("rank_high", _REAL, nullable=True),
            _field("mean_rank", _REAL, nullable=True),  # over resamples
            _field("best_share", _REAL, nullable=True),  # of resamples in which it is best
            _field("best", _TEXT, nullable=True),  # the best method of this row of the table
            _field("p_value", _REAL, nullable=True),  # against the best, Holm over all pairs
        ]
    ),
    # Paired sign-flip permutation tests of every pair of methods.
    "comparisons": pa.schema(
        [
            *_STATISTIC,
            _field("other", _TEXT),
            _field("difference", _REAL),  # mean of method minus other over common samples
            _field("n", _WHOLE),  # common samples
            _field("p_value", _REAL),  # two-sided
            _field("p_holm", _REAL),  # over all pairs of the same cell
        ]
    ),
    "leave_one_out": pa.schema(
        [
            _field("protocol", _TEXT, nullable=True),
            _field("model", _TEXT),
            _field("metric", _TEXT),
            _field("left_out", _TEXT, nullable=True),  # dataset; null: none
            _field("method", _TEXT),
            _field("value", _REAL, nullable=True),
            _field("rank", _REAL, nullable=True),
        ]
    ),
    # Variance of a sample's value, by where it comes from.
    "variances": pa.schema(
        [
            _field("protocol", _TEXT),
            _field("model", _TEXT),
            _field("metric", _TEXT),
            _field("dataset", _TEXT),
            _field("method", _TEXT),
            _field("n", _WHOLE),
            _field("total", _REAL, nullable=True),
            _field("between_samples", _REAL, nullable=True),
            _field("monte_carlo", _REAL, nullable=True),
            _field("numerical", _REAL, nullable=True),
        ]
    ),
    # How far two methods agree on the tokens that matter; every two methods once.
    "agreement": pa.schema(
        [
            _field("model", _TEXT),
            _field("dataset", _TEXT),
            _field("method", _TEXT),
            _field("other", _TEXT),
            _field("statistic", _TEXT),  # kendall_tau or top_overlap
            _field("value", _REAL, nullable=True),  # mean over samples
            _field("standard_error", _REAL, nullable=True),  # of that mean
            _field("n", _WHOLE),
            _field("n_failed", _WHOLE),
        ]
    ),
    "ranking_samples": pa.schema(
        [
            _field("model", _TEXT),
            _field("method", _TEXT),
            _field("dataset", _TEXT),
            _field("sample_id", _TEXT, nullable=True),  # null: no sample of this dataset is ranked
            _field("metric", _TEXT),
            _field("value", _REAL, nullable=True),
            _field("status", _TEXT),
            _field("reason", _TEXT, nullable=True),  # why a dataset is not ranked
        ]
    ),
    "layer_study": pa.schema(
        [
            *_CELL,
            _field("token_weights", _TEXT),
            _field("depth", _WHOLE, nullable=True),  # layers that are summed; null: all of them
            _field("candidate", _TRUTH),  # a depth that may be selected
            _field("fixed", _TRUTH),  # the depth that the selected one is compared with
            _field("sample_id", _TEXT),
            _field("part", _TEXT),  # development (selects the depth) or rest (is reported)
            _field("metric", _TEXT),
            _field("value", _REAL, nullable=True),
            _field("status", _TEXT),
        ]
    ),
    "accuracy": pa.schema(
        [
            _field("model", _TEXT),
            _field("dataset", _TEXT),
            _field("n", _WHOLE),
            _field("n_failed", _WHOLE),
            _field("truncated", _WHOLE),
            _field("accuracy", _REAL, nullable=True),  # null for open generation
            _field("greedy_is_label", _REAL, nullable=True),
            _field("mean_prompt_tokens", _REAL, nullable=True),
            _field("mean_output_tokens", _REAL, nullable=True),
        ]
    ),
    "timings": pa.schema(
        [
            _field("model", _TEXT),
            _field("method", _TEXT),
            _field("dataset", _TEXT),
            _field("n", _WHOLE),
            _field("n_failed", _WHOLE),
            _field("seconds_per_sample", _REAL, nullable=True),  # mean, all steps of a sample
            _field("standard_error", _REAL, nullable=True),  # of that mean
            _field("median_seconds", _REAL, nullable=True),
            _field("mean_prompt_tokens", _REAL, nullable=True),
            _field("peak_memory_mb", _REAL),  # of the process, 10⁶ bytes
            _field("peak_device_memory_mb", _REAL, nullable=True),  # null on a CPU
            _field("device", _TEXT),
        ]
    ),
    "cost": pa.schema(
        [
            _field("rule", _TEXT),
            _field("model", _TEXT, nullable=True),  # null: for all models
            _field("jobs", _WHOLE),
            # Predicted; the limits differ where draws go on until a mean is known well enough.
            _field("forwards_low", _REAL),
            _field("forwards_high", _REAL),
            _field("tokens_low", _REAL),
            _field("tokens_high", _REAL),
            _field("flops_low", _REAL),
            _field("flops_high", _REAL),
            _field("timed_jobs", _WHOLE),  # with a benchmark file
            _field("seconds", _REAL, nullable=True),  # of these, wall-clock time added up
            _field("counted_jobs", _WHOLE),  # that counted their forwards and tokens
            _field("counted_forwards", _REAL, nullable=True),  # of these
            _field("counted_tokens", _REAL, nullable=True),
        ]
    ),
}


def write_rows(
    path: Path, kind: str, rows: Iterable[Mapping[str, Any]], provenance: Mapping[str, Any]
) -> None:
    """Write rows as a Parquet file of the given kind, atomically.

    Args:
        path: the file; missing folders are made.
        kind: a key of :data:`SCHEMAS`.
        rows: mappings with exactly the schema's columns.
        provenance: what made the file; see :func:`provenance`.

    Raises:
        BenchmarkError: a column is missing, unknown, of the wrong type, or null where it may not
            be; or the disk refuses the file.
    """
    schema = SCHEMAS[kind]
    rows = list(rows)
    for row in rows:
        if set(row) != set(schema.names):
            odd = sorted(set(row) ^ set(schema.names))
            raise BenchmarkError(f"{path}: columns missing or unknown for '{kind}': {odd}")
    try:
        table = pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise BenchmarkError(f"{path}: a value does not fit '{kind}': {error}") from error
    write_table(path, kind, table, provenance)


def write_table(path: Path, kind: str, table: pa.Table, provenance: Mapping[str, Any]) -> None:
    """Write a table of the given kind atomically; see :func:`write_rows`."""
    schema = SCHEMAS[kind]
    for field in schema:
        nulls = table.column(field.name).null_count
        if nulls and not field.nullable:
            raise BenchmarkError(f"{path}: column '{field.name}' has {nulls} nulls, allowed: none")
    if "status" in schema.names:
        unknown = set(table.column("status").unique().to_pylist()) - set(STATUSES)
        if unknown:
            raise BenchmarkError(f"{path}: unknown status {sorted(unknown)}")
        _log_failures(path, table.column("status"))
    table = table.replace_schema_metadata(
        {b"pisoft": json.dumps({"kind": kind, **provenance}, sort_keys=True).encode()}
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
        try:
            pq.write_table(table, temporary, compression="zstd", row_group_size=ROWS_IN_A_GROUP)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        finally:
            Path(temporary).unlink(missing_ok=True)
    except OSError as error:
        raise BenchmarkError(f"{path}: cannot be written: {error}") from error


def _log_failures(path: Path, status: pa.ChunkedArray) -> None:
    """Say how many rows are not ok, and why."""
    counts = {item["values"]: item["counts"] for item in status.value_counts().to_pylist()}
    failed = [f"{count} {name}" for name, count in sorted(counts.items()) if name != OK]
    if failed:
        logger.warning("%s: of %d rows, %s", path.name, len(status), ", ".join(failed))


def read_table(
    path: Path,
    kind: str,
    columns: Sequence[str] | None = None,
    where: pc.Expression | None = None,
) -> pa.Table:
    """Read a Parquet file and check it against its schema.

    Args:
        path: the file.
        kind: a key of :data:`SCHEMAS`.
        columns: those to read and check; None: all.
        where: which rows to read; parts of the file that hold none of them are skipped.

    Raises:
        BenchmarkError: missing or corrupt file, or a column that is missing or of another type.
    """
    fix = "delete the file and run the workflow again"
    names = SCHEMAS[kind].names if columns is None else list(columns)
    try:
        present = set(pq.read_schema(path).names)
        chosen = [name for name in names if name in present]
        table = pq.read_table(path, partitioning=None, columns=chosen, filters=where)
    except FileNotFoundError as error:
        raise BenchmarkError(f"{path}: no such file; {fix}") from error
    except (pa.ArrowInvalid, OSError) as error:
        raise BenchmarkError(f"{path}: is not a readable Parquet file ({error}); {fix}") from error
    for field in map(SCHEMAS[kind].field, names):
        if field.name not in present:
            raise BenchmarkError(f"{path}: column '{field.name}' is missing for '{kind}'; {fix}")
        found = table.schema.field(field.name).type
        if found != field.type:
            raise BenchmarkError(
                f"{path}: column '{field.name}' is {found}, expected {field.type}; {fix}"
            )
    return table.select(names)


def read_rows(path: Path, kind: str) -> list[dict[str, Any]]:
    """Read a checked Parquet file as a list of rows; see :func:`read_table`."""
    rows = read_table(path, kind).to_pylist()
    if kind in ("datasets", "samples"):
        for row in rows:
            row["fields"] = dict(row["fields"])
    return rows


def provenance(settings: Mapping[str, Any], **facts: Any) -> dict[str, Any]:
    """Return what made a result: settings, package versions, git commit, and further facts.

    Args:
        settings: the job's slice of the configuration.
        facts: for example `device` or `model_revision`.
    """
    return {
        "settings": dict(settings),
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
        "python": platform.python_version(),
        "git_commit": _git_commit(),
        **facts,
    }


def read_provenance(path: Path) -> dict[str, Any]:
    """Return the provenance stored in a Parquet file."""
    metadata = pq.read_schema(path).metadata or {}
    return json.loads(metadata.get(b"pisoft", b"{}"))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git_commit() -> str | None:
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
