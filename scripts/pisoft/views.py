"""What tables, figures and pages show: results by their keys, and what things are called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from pisoft.columns import RESULT
from pisoft.config.slices import DisplaySlice
from pisoft.errors import BenchmarkError
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.reading import Files
from pisoft.statistics.results import KEYS, select

Keys = Mapping[str, Any]
Number = Any  # a row of results, its columns as attributes
MISSING: Number = SimpleNamespace(
    **{column.name: "" if column.name in ("text", *KEYS) else np.nan for column in RESULT}
)
"""The number that stands where there is none."""


@dataclass(frozen=True)
class Results:
    """Rows of results, and the labels of what they are of.

    Attributes:
        rows: results of one question, or of several.
        methods: label of each method that they are of, in order.
        datasets: label of each dataset that they are of, in order; the average is none.
    """

    rows: pd.DataFrame
    methods: Mapping[str, str]
    datasets: Mapping[str, str]

    def select(self, **keys: Any) -> Results:
        """Return the rows whose keys have the given value, or one of several."""
        return self.of(select(self.rows, **keys))

    def of(self, rows: pd.DataFrame) -> Results:
        """Return other rows, with the labels of what these are of."""
        methods, datasets = {*rows["method"], *rows["other"]}, set(rows["dataset"])
        return Results(
            rows,
            {name: label for name, label in self.methods.items() if name in methods},
            {name: label for name, label in self.datasets.items() if name in datasets},
        )

    @property
    def with_average(self) -> dict[str, str]:
        """Labels of the datasets and, of several, of their average."""
        return {**self.datasets, AVERAGE: "Avg"} if len(self.datasets) > 1 else dict(self.datasets)

    @property
    def summary(self) -> str:
        """The dataset whose numbers sum up: the average, or the only one."""
        return list(self.with_average)[-1]

    @cached_property
    def _varying(self) -> list[str]:
        return [key for key in KEYS if self.rows[key].nunique(dropna=False) > 1]

    @cached_property
    def _numbers(self) -> dict[tuple[Any, ...], Number]:
        best = self.rows.groupby(["protocol", "model", "metric", "dataset"])["rank"].transform(
            "min"
        )
        rows = self.rows.assign(is_best=self.rows["rank"] == best)
        keys = rows[self._varying].astype(object).where(rows[self._varying].notna(), "")
        names = zip(*(keys[key] for key in self._varying), strict=True)
        return dict(zip(names if self._varying else [()], rows.itertuples(), strict=True))

    def number(self, keys: Keys) -> Number:
        """Return the row of these keys; :data:`MISSING` if there is none.

        A key that is not given is that of all rows, or does not apply.
        """
        return self._numbers.get(tuple(keys.get(key, "") for key in self._varying), MISSING)

    def numbers(self, **keys: Any) -> dict[str, Number]:
        """Return the number of every method."""
        return {name: self.number({**keys, "method": name}) for name in self.methods}


@dataclass(frozen=True)
class View:
    """What one table or figure is made from.

    Attributes:
        files: by the kind of their rows.
        settings: labels and the like.
        cell: what is shown, such as `protocol` and `model`.
    """

    files: Files
    settings: DisplaySlice
    cell: Mapping[str, str]

    @property
    def where(self) -> str:
        """Model, dataset and protocol in words, for titles."""
        return self.settings.where(self.cell)

    def results(self, question: str, **keys: Any) -> Results:
        """Return the results of a question for the cell; those without a protocol are of every one.

        Args:
            question: a kind of rows.
            keys: see :meth:`Results.select`.

        Raises:
            BenchmarkError: the file has no row for the cell.
        """
        return self.results_if_any(question, required=True).select(**keys)

    def results_if_any(self, question: str, required: bool = False) -> Results:
        """Return the results of a question for the cell, of which there may be none."""
        rows = self.files.rows(question)
        rows = select(rows, **{key: (name, "") for key, name in self.cell.items() if key in KEYS})
        if required and rows.empty:
            wanted = ", ".join(f"{key} '{name}'" for key, name in self.cell.items())
            raise BenchmarkError(f"{self.files[question][0]}: holds no row for {wanted}")
        settings = self.settings
        methods = {**settings.methods, **settings.controls}
        return Results(rows, methods, settings.datasets).of(rows)


def with_rows(results: Results, rows: pd.DataFrame) -> Results:
    """Return results with other rows and the same labels."""
    return replace(results, rows=rows)
