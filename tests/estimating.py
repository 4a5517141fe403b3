"""Uncertainty of hand-made samples, through files as in the workflow."""

import functools
import json
import tempfile
from pathlib import Path
from types import SimpleNamespace

from pisoft.contracts import write_rows
from pisoft.statistics.uncertainty import uncertainty


def estimated(rows, kind="soft_samples", resamples=200) -> SimpleNamespace:
    """Return the uncertainty of rows of `soft_samples` or `ranking_samples`."""
    return _estimated(json.dumps(rows), kind, resamples)


@functools.cache  # many tests look at the same rows
def _estimated(written: str, kind: str, resamples: int) -> SimpleNamespace:
    rows = json.loads(written)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{kind}.parquet"
        write_rows(path, kind, rows, {})
        datasets = list(dict.fromkeys(row["dataset"] for row in rows))
        return SimpleNamespace(**uncertainty([path], datasets, 1, resamples))
