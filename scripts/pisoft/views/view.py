"""Data for tables, figures and pages: results addressed by keys, and their labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa

from pisoft.config.jobs.displays import DisplayJob
from pisoft.errors import BenchmarkError, did_you_mean
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.reading import Files
from pisoft.statistics.results import KEYS, select
from pisoft.store.schemas import RESULT
from pisoft.views.registry import Display, displays_in, files_of

Keys = Mapping[str, Any]
Number = Any  # a row of results, its columns as attributes
MOST_DECIMALS = 3
MISSING: Number = SimpleNamespace(
    **{column.name: "" if pa.types.is_string(column.kind) else np.nan for column in RESULT},
    is_best=False,
    decimals=0,
)
"""Stands for a number that the results do not have."""


@dataclass(frozen=True)
class Results:
    """Rows of one question, and ordered labels of methods and datasets (without the average)."""

    rows: pd.DataFrame
    methods: Mapping[str, str]
    datasets: Mapping[str, str]

    def select(self, **keys: Any) -> Results:
        """Return the rows whose keys have a value, or one of several values."""
        return self.with_rows(select(self.rows, **keys))

    def with_rows(self, rows: pd.DataFrame) -> Results:
        """Return the results of some rows, with their labels."""
        methods, datasets = {*rows["method"], *rows["other"]}, set(rows["dataset"])
        return Results(
            rows,
            {name: label for name, label in self.methods.items() if name in methods},
            {name: label for name, label in self.datasets.items() if name in datasets},
        )

    @property
    def with_average(self) -> dict[str, str]:
        """Labels of the datasets and, if there are several, of their average."""
        average = {AVERAGE: "Average"} if len(self.datasets) > 1 else {}
        return {**self.datasets, **average}

    @property
    def summary(self) -> str:
        """The dataset that summarises all: the average, or the only dataset."""
        return list(self.with_average)[-1]

    @property
    def values(self) -> pd.DataFrame:
        """The content of a CSV file: values, intervals, n, failures, and all non-empty columns."""
        rows = self.rows.drop(columns="question").replace("", np.nan)
        always = ("value", "low", "high", "n", "n_failed")
        return rows[[name for name in rows if name in always or rows[name].notna().any()]]

    @cached_property
    def _constant(self) -> dict[str, Any]:
        return {key: values.iloc[0] for key, values in self._keys.items() if values.nunique() == 1}

    @cached_property
    def _numbers(self) -> dict[tuple[Any, ...], Number]:
        rows, keys = self.rows, self._keys
        best_ranks = rows["rank"].where(rows["method"] == rows["best"])
        # NaN where the best method is not among the rows: then none is marked as the best.
        ranks = best_ranks.groupby([keys[key] for key in KEYS if key != "method"]).transform("min")
        numbers = rows.assign(is_best=rows["rank"] == ranks, decimals=decimals(rows)).itertuples()
        return dict(zip(keys.itertuples(index=False, name=None), numbers, strict=True))

    @cached_property
    def _keys(self) -> pd.DataFrame:
        """The keys of every row; a position that does not apply is "", like other keys."""
        return self.rows[KEYS].astype(object).where(self.rows[KEYS].notna(), "")

    def number(self, keys: Keys) -> Number:
        """Return the row with these keys, or :data:`MISSING`; other keys are the shared ones."""
        full = {**self._constant, **keys}
        return self._numbers.get(tuple(full.get(key, "") for key in KEYS), MISSING)

    def numbers(self, **keys: Any) -> dict[str, Number]:
        """Return the number of every method."""
        return {name: self.number({**keys, "method": name}) for name in self.methods}


def decimals(rows: pd.DataFrame) -> pd.Series:
    """Return the number of decimals of each number, the same for a metric on a dataset.

    The typical half-width of an interval is then 3 to 30 units of the last decimal. The maximum,
    also without intervals, is :data:`MOST_DECIMALS`.
    """
    reach = (rows["high"] - rows["low"]) / 2
    typical = reach.groupby([rows["metric"], rows["dataset"]]).transform("median")
    digits = np.floor(1 - np.log10(typical.where(typical > 0) / 3))
    return digits.clip(0, MOST_DECIMALS).fillna(MOST_DECIMALS).astype(int)


@dataclass(frozen=True)
class View:
    """The input of a table or figure.

    `files` are by question or kind of rows; `cell` holds the keys shown (such as `protocol` and
    `model`); `title` excludes the cell.
    """

    files: Files
    settings: DisplayJob
    cell: Mapping[str, str]
    title: str = ""

    @property
    def heading(self) -> str:
        """The title with model, dataset and protocol."""
        return " · ".join(filter(None, (self.title, self.where)))

    @property
    def where(self) -> str:
        """Model, dataset and protocol in words, for titles."""
        return self.settings.where(self.cell)

    def results(self, question: str, **keys: Any) -> Results:
        """Return the results of a question for the cell, including those without a protocol.

        Raises:
            BenchmarkError: the file has no row for the cell.
        """
        results = self.results_if_any(question)
        if results.rows.empty:
            cell = ", ".join(f"{key} '{name}'" for key, name in self.cell.items())
            raise BenchmarkError(f"{self.files[question][0]}: holds no row for {cell}")
        return results.select(**keys)

    def results_if_any(self, question: str) -> Results:
        """Return the results of a question for the cell, possibly none."""
        cell = {key: (name, "") for key, name in self.cell.items() if key in KEYS}
        rows = self.files.rows_if_any(question, **cell)
        methods = {**self.settings.methods, **self.settings.controls}
        return Results(rows, methods, self.settings.datasets).with_rows(rows)


# Tables and figures as functions ------------------------------------------------------------------

F = TypeVar("F", bound=Callable[..., Any])
DRAWN: dict[str, tuple[Display, Callable[..., Any]]] = {}
"""By its module, each imported display and its function."""


def display(title: str, **arguments: Any) -> Callable[[F], F]:
    """Register a function as a table or figure; arguments of :class:`Display` must be literals."""
    described = Display(title=title, **arguments)

    def mark(function: F) -> F:
        DRAWN[function.__module__] = described, function
        return function

    return mark


def drawing(room: str, name: str) -> tuple[Display, Callable[..., Any]]:
    """Import a table or a figure.

    Raises:
        BenchmarkError: no such name, with the nearest match.
    """
    names = displays_in(room)
    if name not in names:
        raise BenchmarkError(f"pisoft/{room}: unknown name '{name}'{did_you_mean(name, names)}")
    module = f"pisoft.{room}.{name}"
    import_module(module)
    return DRAWN[module]


def displayed(
    room: str, paths: Iterable[str], patterns: Mapping[str, str], settings: DisplayJob
) -> Iterator[tuple[str, Display, View, Any]]:
    """Yield path, description, view and result of tables or figures.

    `room` is `tables` or `figures`; `paths` are paths below that folder, without suffix; `patterns`
    are as in :func:`pisoft.views.registry.files_of`.
    """
    for path in paths:
        described, function = drawing(room, path.split("/")[0])
        cell = described.cell(path)
        files = Files(files_of(described, patterns, cell, settings))
        view = View(files, settings, cell, described.title)
        yield path, described, view, function(view)
