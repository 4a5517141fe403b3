"""A run's summary: a file small enough to keep with the code, an entry of the leaderboard.

It contains means over samples with their intervals and tests, and the settings, but no record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pydantic import Field

from pisoft.config.base import Label, Name, Protocol, Strict
from pisoft.config.jobs.displays import LabelSettings
from pisoft.config.validation import validate
from pisoft.errors import BenchmarkError
from pisoft.pages.findings import Numbers
from pisoft.pages.index import version_facts
from pisoft.statistics.advantage import HALVES
from pisoft.statistics.alternatives import HALF_SAMPLES, OPERATORS
from pisoft.statistics.metrics import AUC_METRICS, AVERAGE
from pisoft.statistics.permutation_baseline import GAIN
from pisoft.statistics.results import select
from pisoft.store.files import whole_files
from pisoft.store.parquet import OK
from pisoft.store.schemas import RESULT

# Results, and the rows of them that are kept.
KEPT: dict[str, dict[str, Any]] = {
    "statistics": {"metric": [*AUC_METRICS, "soft_ns", "soft_nc", "expected_retained"]},
    "comparisons": {"metric": AUC_METRICS, "dataset": AVERAGE},
    "density_correlations": {"metric": [*AUC_METRICS, "soft_ns", "soft_nc"], "dataset": AVERAGE},
    "advantage": {"metric": ["pi_soft_ns", "pi_soft_nc"], "dataset": AVERAGE, "part": HALVES},
    "permutation_baseline": {"metric": AUC_METRICS, "dataset": AVERAGE, "part": GAIN},
    "accuracy": {},
    # For runs with other ablation operators.
    "sensitivity": {"part": [HALF_SAMPLES, *OPERATORS.values()]},
    "off_distribution": {},
    "decisions": {},  # for runs with comparisons to be decided
}
PROCEDURES = "Intervals: Hall's t; tests: step-down bootstrap-t of means"  # of new summaries
CELL = ["protocol", "model", "dataset", "metric", "method"]  # of single samples' values
DIGITS = 6  # significant digits


class Rows(Strict):
    """Rows of results; see :data:`pisoft.store.schemas.RESULT`."""

    columns: tuple[str, ...] = Field(description="Those with an entry in any row.")
    rows: tuple[list[int | float | str | None], ...] = Field(description="null: no entry.")


class Summary(Strict):
    """A run's summary."""

    run: Name = Field(description="Name of the run.")
    models: dict[Name, Label] = Field(min_length=1, description="Labels.")
    datasets: dict[Name, Label] = Field(min_length=1, description="Labels.")
    methods: dict[Name, Label] = Field(min_length=1, description="Labels.")
    protocols: tuple[Protocol, ...] = Field(min_length=1, description="Routing protocols.")
    origins: dict[Name, str] = Field(description="Source and revision of each model.")
    devices: dict[Name, str] = Field(description="What each model ran on.")
    versions: dict[str, list[str]] = Field(description="Of packages, and commits of the `code`.")
    procedures: str = Field(description="Of intervals and tests.")
    settings_hash: str = Field(description="Equal for comparable runs.")
    settings: dict[str, Any] = Field(description="What numbers depend on.")
    left_out: tuple[Label, ...] = Field((), description="Methods of the catalogue not run.")
    by_answer: tuple[dict[str, Any], ...] = ()
    """Orders of methods on samples answered rightly against those on the others."""
    previous: dict[str, str] = Field(default_factory=dict)
    """Verdicts on the page of real numbers before this one, by claim."""
    results: dict[str, Rows] = Field(description="By question.")
    samples: Rows | None = None
    """Values of single samples, which means are checked against: keys, then the values."""

    @property
    def facts(self) -> tuple[str, ...]:
        """Provenance, in sentences."""
        return (*self.origins.values(), *version_facts(self.versions), self.procedures)

    @property
    def labels(self) -> LabelSettings:
        """Labels of models, datasets and methods."""
        return LabelSettings(models=self.models, datasets=self.datasets, methods=self.methods)

    @property
    def numbers(self) -> Numbers:
        """The results."""
        rows = {kind: self._frame(kind) for kind in KEPT}
        return Numbers(rows, self.labels)

    def _frame(self, kind: str) -> pd.DataFrame:
        part = self.results.get(kind, Rows(columns=(), rows=()))
        rows = pd.DataFrame(part.rows, columns=part.columns, dtype=object)
        rows = rows.reindex(columns=[column.name for column in RESULT])
        for column in RESULT:
            if column.kind == pa.string():
                rows[column.name] = rows[column.name].astype(object).fillna("")
            elif column.nullable:
                rows[column.name] = rows[column.name].astype(np.float64)
            else:
                rows[column.name] = rows[column.name].fillna(0).astype(np.int64)
        return rows


def results_of(rows: Mapping[str, pd.DataFrame]) -> dict[str, Rows]:
    """Return the :data:`KEPT` rows of questions that were run, without empty columns."""
    parts = {}
    for kind, keys in KEPT.items():
        chosen = select(rows[kind], **keys).drop(columns="question").replace("", np.nan)
        if not chosen.empty:
            parts[kind] = rows_of(chosen[chosen.columns[chosen.notna().any()]])
    return parts


def samples_of(samples: pd.DataFrame) -> Rows:
    """Return both areas of single samples, from `soft_samples`.

    Rows keep the file's order, and omit the names of samples.
    """
    fine = select(samples, metric=AUC_METRICS, status=OK).dropna(subset="value")
    return rows_of(fine[[*CELL, "value"]])


def rows_of(table: pd.DataFrame) -> Rows:
    """Return the rows of a table, numbers rounded to :data:`DIGITS` digits."""
    values = table.astype(object).where(table.notna(), None).to_numpy().tolist()
    rounded = (
        [float(f"{v:.{DIGITS}g}") if isinstance(v, float) else v for v in row] for row in values
    )
    return Rows(columns=tuple(table), rows=tuple(rounded))


def keep(path: Path, summary: Summary) -> None:
    """Write a summary, one line per row."""
    content = summary.model_dump(mode="json", exclude_defaults=True)
    text = json.dumps(content, indent=1, ensure_ascii=False)
    # Innermost lists on one line: no JSON string contains a line break.
    text = re.sub(r"\[\n[^\[\]{}]*?\n *\]", lambda match: re.sub(r"\n *", " ", match[0]), text)
    with whole_files(path) as (written,):
        written.write_text(text + "\n", encoding="utf-8")


def kept(path: Path) -> Summary:
    """Read a summary.

    Raises:
        BenchmarkError: it does not exist, or is not valid.
    """
    return validate(Summary, read(path), str(path))


def read(path: Path) -> Any:
    """Read a summary's file without validation.

    Raises:
        BenchmarkError: the file does not exist, or is not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BenchmarkError(f"{path}: no summary of a run can be read there: {error}") from error
