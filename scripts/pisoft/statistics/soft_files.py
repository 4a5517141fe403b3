"""The `soft` files: their cells, and the steps of theirs that count.

A step counts if all of its rows are ok, and its H₀ is large enough to divide by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from pisoft.errors import BenchmarkError
from pisoft.statistics.reading import REPAIR
from pisoft.store.parquet import DEGENERATE_BASELINE, OK, read_table

DISTANCES = ("ns_distances", "nc_distances")
_COLUMNS = ["sample_id", "step", "pi", "status"]
_NUMBERS = ("perturbable", "achieved", "h0", "identity", "h0_noise", "ns_noise", "nc_noise")


@dataclass(frozen=True)
class Steps:
    """The G steps of a file whose rows are all ok, a line each, original metrics before the grid's.

    Attributes:
        status: by `sample_id`, in the order of the file: `ok`, or why the sample has no such step.
        sample: position in `status` of each step's sample, (G,).
        line: position of each step, by `sample_id` and `step`.
        failed: the first status that is not ok of all other steps, by `sample_id` and `step`.
        grid: retaining probabilities, (P,).
        measured: whether there are draws, (G, 1 + P); of every step at equally many π.
        numbers: numbers by column, (G, 1 + P).
        draws: numbers of each draw by column, (G, 1 + P, K); NaN where not measured.
    """

    status: pd.Series
    sample: np.ndarray
    line: dict[tuple[str, int], int]
    failed: dict[tuple[str, int], str]
    grid: np.ndarray
    measured: np.ndarray
    numbers: dict[str, np.ndarray]
    draws: dict[str, np.ndarray]

    @property
    def h0(self) -> np.ndarray:
        """H₀ of each step, (G, 1)."""
        return self.numbers["h0"][:, :1]

    @property
    def ok(self) -> pd.Index:
        """The S samples with a step, by `sample_id`."""
        return self.status.index[self.status == OK]

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Return means over the steps of each sample with one, (S, …), of values (G, …)."""
        means = pd.DataFrame(values).groupby(self.sample).mean().to_numpy()
        return means.reshape(-1, *values.shape[1:])

    def where_measured(self, curves: np.ndarray) -> np.ndarray:
        """Return samples of curves (G, P) or (G, 1 + P), NaN where none of their steps is measured.

        A sample counts by the share of its steps that are measured there: its value is
        m + n (mean of v − m over its steps) / W, with n such samples, W the sum of their shares,
        and m the mean of v over samples by these shares, which is that of the values as well.
        """
        measured = self.measured[:, -curves.shape[1] :]
        if measured.all():
            return self.mean(curves)
        shares = self.mean(measured.astype(float))
        total = np.where(shares.any(axis=0), shares.sum(axis=0), np.nan)
        sums = self.mean(np.where(measured, curves, 0.0))
        means = sums.sum(axis=0) / total
        values = means + (sums - shares * means) * (shares > 0).sum(axis=0) / total
        return np.where(shares > 0, values, np.nan)


def completed(curves: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Complete the curves of samples, (S, P), NaN where not measured; their means stay unbiased.

    With m the mean at one π over the n samples measured there, and f the share of all values that
    is measured, the completed values are m + c (v − m) / f where v is measured and m elsewhere (the
    difference estimator of survey sampling, Särndal et al. 1992, section 6.3); c² = n / (n − 1), as
    m is their mean. So their mean is m, their variance is that of m, and an area under completed
    curves is, on average, the area under the mean curve. Where no sample is measured, m is
    interpolated.
    """
    measured = ~np.isnan(curves)
    if measured.all():
        return curves
    counts = measured.sum(axis=0)
    at = counts > 0
    mean = np.interp(grid, grid[at], np.nanmean(curves[:, at], axis=0))
    freedom = np.sqrt(counts / np.maximum(counts - 1, 1))
    return mean + np.where(measured, freedom * (curves - mean) / measured.mean(), 0.0)


def read_soft(path: Path, minimum_h0: float, further: Sequence[str] = ()) -> Steps:
    """Read the steps of a `soft` file that count, with further columns of each draw's numbers.

    An ok row whose H₀ is below the minimum counts as `degenerate_baseline`, and so does one whose
    H₀ is below the largest difference that half precision makes to one of its cell.

    Raises:
        BenchmarkError: an unreadable file, an ok row without distances, or a step that lacks a
            retaining probability.
    """
    columns = [*_COLUMNS, *_NUMBERS, *DISTANCES, *further]
    return usable_steps(path, read_table(path, "soft", columns), minimum_h0, further)


def usable_steps(
    path: Path, table: pa.Table, minimum_h0: float, further: Sequence[str] = ()
) -> Steps:
    """Return the steps that count of rows of contract `soft`; see :func:`read_soft`."""
    measured = [*DISTANCES, *further]
    rows = table.select([*_COLUMNS, *_NUMBERS]).to_pandas()
    least = np.fmax(minimum_h0, rows["h0_noise"].abs().max())  # the latter NaN if there is none
    rows.loc[(rows["status"] == OK) & (rows["h0"] < least), "status"] = DEGENERATE_BASELINE
    grid = np.unique(rows["pi"].dropna().to_numpy())
    steps = whole_steps(path, rows, table.select(measured), _NUMBERS, grid)
    for name in ("h0", "achieved"):
        if not np.isfinite(steps.numbers[name]).all():
            raise BenchmarkError(f"{path}: an ok row has no finite value for '{name}'; {REPAIR}")
    for name, draws in steps.draws.items():
        measured_draws = draws[steps.measured]
        if not (np.isfinite(measured_draws) & (measured_draws >= 0)).all():
            raise BenchmarkError(f"{path}: an ok row's '{name}' are no distances; {REPAIR}")
    return steps


def whole_steps(
    path: Path, rows: pd.DataFrame, measured: pa.Table, numbers: Sequence[str], grid: np.ndarray
) -> Steps:
    """Arrange the rows of a `soft` file by step; of steps with a row that is not ok, none.

    Args:
        path: named in errors.
        rows: `sample_id`, `step`, `pi`, `status`, and the columns `numbers`.
        measured: lists with a number per draw, in the order of the rows.
        grid: retaining probabilities, rising, (P,).

    Raises:
        BenchmarkError: a step that lacks or repeats a retaining probability, or a row without
            draws.
    """
    sample, identifiers = pd.factorize(rows["sample_id"])
    rows = rows.assign(sample=sample)
    failed = rows["status"] != OK
    kept = rows[~failed.groupby([sample, rows["step"]]).transform("any")]
    kept = kept.sort_values(["sample", "step", "pi"], na_position="first")
    first = kept.drop_duplicates(["sample", "step"])
    line = np.concatenate([[0.0], grid])  # 0 stands for the original metrics, which have no π
    whole = np.array_equal(kept["pi"].fillna(0.0), np.tile(line, len(first)))
    if not whole or (len(kept) and grid.size < 2):
        raise BenchmarkError(
            f"{path}: an ok step lacks or repeats a retaining probability; {REPAIR}"
        )
    failures = rows[failed]
    status = failures.groupby("sample")["status"].first().reindex(range(len(identifiers)))
    status[first["sample"]] = OK
    shape = (len(first), line.size)
    lists = measured.take(pa.array(kept.index))
    present = lists.column(0).is_valid().to_numpy().reshape(shape)
    if not present[:, 0].all() or np.unique(present[:, 1:].sum(axis=1)).size > 1:
        raise BenchmarkError(f"{path}: an ok row has no '{lists.column_names[0]}'; {REPAIR}")
    return Steps(
        status.set_axis(identifiers),
        first["sample"].to_numpy(),
        {key: at for at, key in enumerate(zip(first["sample_id"], first["step"], strict=True))},
        failures.groupby(["sample_id", "step"])["status"].first().to_dict(),
        grid,
        present,
        {name: kept[name].to_numpy().reshape(shape) for name in numbers},
        {name: _by_draw(path, lists, name, present) for name in measured.column_names},
    )


def _by_draw(path: Path, table: pa.Table, column: str, measured: np.ndarray) -> np.ndarray:
    """Return the rows' lists in float64, (G, 1 + P, K ≥ 1); NaN where nothing is measured."""
    lists = table.column(column).filter(pa.array(measured.ravel()))
    lengths = pc.fill_null(pc.list_value_length(lists), 0).unique().to_pylist() or [1]
    if 0 in lengths:
        raise BenchmarkError(f"{path}: an ok row has no '{column}'; {REPAIR}")
    if len(lengths) > 1:
        raise BenchmarkError(
            f"{path}: an ok row has {min(lengths)} values in '{column}', another {max(lengths)}; "
            f"{REPAIR}"
        )
    draws = np.full((*measured.shape, lengths[0]), np.nan)
    draws[measured] = pc.list_flatten(lists).to_numpy().reshape(-1, lengths[0])
    return draws
