"""Uncertainty of hand-made samples, through files as in the workflow."""

import functools
import json
import tempfile
from pathlib import Path

from pisoft.contracts import write_rows
from pisoft.statistics.uncertainty import Uncertainty, estimate


def estimated(rows, kind="soft_samples", resamples=200) -> Uncertainty:
    """Return the uncertainty of rows of `soft_samples` or `ranking_samples`."""
    return _estimated(json.dumps(rows), kind, resamples)


@functools.cache  # many tests look at the same rows
def _estimated(written: str, kind: str, resamples: int) -> Uncertainty:
    rows = json.loads(written)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{kind}.parquet"
        write_rows(path, kind, rows, {})
        return estimate([path], dict.fromkeys(row["dataset"] for row in rows), 1, resamples)
