"""What attribution needed: seconds of every sample, and memory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pisoft.config.slices import RunSlice
from pisoft.contracts import OK, read_provenance, read_table
from pisoft.errors import BenchmarkError
from pisoft.statistics.reading import Files, Summary

_FACTS = ("peak_memory_mb", "peak_device_memory_mb", "device")


Settings = RunSlice


def summaries(files: Files, settings: RunSlice) -> dict[str, Summary]:
    """Return one row for each cell, from all `attribution_times` files."""
    return {"timings": timing_rows(files["attribution_times"])}


def timing_rows(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Summarise what attribution needed, as rows of kind `timings`.

    A sample's time is the sum over its steps. Means are over the samples with an ok step, `n` of
    them; the others are `n_failed`. Their spread is not how far times are off: a batch's time is
    shared by tokens, so that it shows how many tokens the samples have.

    Args:
        paths: `attribution_times` files `…/{model}/{method}/{dataset}.parquet`.

    Raises:
        BenchmarkError: an unreadable file, or one that does not say on what it was computed.
    """
    return [_timing_row(path) for path in paths]


def _timing_row(path: Path) -> dict[str, Any]:
    steps = read_table(path, "attribution_times")
    facts = read_provenance(path)
    missing = [name for name in _FACTS if name not in facts]
    if missing:
        raise BenchmarkError(
            f"{path}: its provenance lacks {', '.join(missing)}; delete the file and run the "
            "workflow again"
        )
    model, method, dataset = path.with_suffix("").parts[-3:]
    samples = _samples(steps)
    timed = samples.filter(samples.column("ok"))
    seconds, n = timed.column("seconds"), timed.num_rows
    return {
        "model": model,
        "method": method,
        "dataset": dataset,
        "n": n,
        "n_failed": samples.num_rows - n,
        "seconds_per_sample": pc.mean(seconds).as_py(),
        "median_seconds": pc.quantile(seconds, 0.5)[0].as_py(),
        "mean_prompt_tokens": pc.mean(timed.column("tokens")).as_py(),
        **{name: facts[name] for name in _FACTS},
    }


def _samples(steps: pa.Table) -> pa.Table:
    """Return seconds, ok and prompt tokens of each sample from `attribution_times` rows."""
    columns = {
        "sample_id": steps.column("sample_id"),
        "seconds": steps.column("seconds"),
        "ok": pc.equal(steps.column("status"), OK),
        "tokens": steps.column("prompt_tokens"),
    }
    reductions = [("seconds", "sum"), ("ok", "any"), ("tokens", "max")]
    samples = pa.table(columns).group_by("sample_id").aggregate(reductions)
    return samples.rename_columns(
        {f"{name}_{reduction}": name for name, reduction in reductions} | {"sample_id": "sample_id"}
    )
