"""What attribution needed: seconds of every sample, and memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from pisoft.config.jobs.summaries import RunJob
from pisoft.errors import BenchmarkError
from pisoft.statistics.reading import REPAIR, Files, Summary
from pisoft.store.parquet import OK, read_provenance, read_table

SECONDS = "seconds_per_sample"
MEMORY = ("peak_memory_mb", "peak_device_memory_mb")  # 10⁶ bytes; null: not on such a device
AGREEMENT = "float32_agreement"  # of scores in half precision, Spearman's rank correlation


def summaries(files: Files, settings: RunJob) -> dict[str, Summary]:
    """Return the numbers of each cell, from all `attribution_times` files."""
    return {"timings": map(timing_rows, files["attribution_times"])}


def timing_rows(path: Path) -> pd.DataFrame:
    """Summarise what attribution needed in a cell, as rows of `timings`.

    A sample's time is the sum over its steps. Means are over the samples with an ok step, `n` of
    them; the others are `n_failed`. Their spread is not how far times are off: a batch's time is
    shared by tokens, so that it shows how many tokens the samples have. Agreement with float32 is a
    mean over the `n` steps that were repeated.

    Raises:
        BenchmarkError: an unreadable file, or one that does not say on what it was computed.
    """
    steps, facts = read_table(path, "attribution_times").to_pandas(), read_provenance(path)
    if missing := [name for name in (*MEMORY, "device") if name not in facts]:
        raise BenchmarkError(f"{path}: its provenance lacks {', '.join(missing)}; {REPAIR}")
    samples = steps.assign(ok=steps["status"] == OK).groupby("sample_id", sort=False)
    samples = samples.agg({"seconds": "sum", "ok": "any", "prompt_tokens": "max"})
    timed = samples[samples["ok"]]
    values: dict[str, Any] = {
        SECONDS: timed["seconds"].mean(),
        "median_seconds": timed["seconds"].median(),
        "mean_prompt_tokens": timed["prompt_tokens"].mean(),
        **{name: facts[name] for name in MEMORY},
    }
    agreement = steps["float32_agreement"].dropna()
    counts = dict.fromkeys(values, len(timed))
    if len(agreement):
        values[AGREEMENT], counts[AGREEMENT] = agreement.mean(), len(agreement)
    rows = pd.DataFrame({"metric": values.keys(), "value": values.values(), "n": counts.values()})
    rows[["model", "method", "dataset"]] = path.with_suffix("").parts[-3:]
    return rows.assign(n_failed=len(samples) - len(timed), text=facts["device"])
