"""The `soft` files: whose they are, and the steps of theirs that count.

A step counts if all of its rows are ok, and its H₀ is large enough to divide by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from pisoft.contracts import DEGENERATE_BASELINE, OK, read_table
from pisoft.errors import BenchmarkError
from pisoft.statistics.reading import REPAIR

CELL = ["protocol", "model", "method", "dataset"]
_MEASURED = ("ns_distances", "nc_distances")
_UNEVEN = "an ok step lacks or repeats a retaining probability"
_NOISE = ("h0_noise", "ns_noise", "nc_noise")
_ROW_COLUMNS = ("sample_id", "step", "pi", "perturbable", "achieved", "h0", "identity", "status")


@dataclass(frozen=True)
class Cell:
    """One combination that is evaluated: the rows of one `soft` file."""

    protocol: str
    model: str
    method: str
    dataset: str

    @classmethod
    def of(cls, path: Path) -> Cell:
        """Return the cell of a file `…/{protocol}/{model}/{method}/{dataset}.parquet`."""
        return cls(*path.with_suffix("").parts[-4:])


@dataclass(frozen=True)
class Steps:
    """The steps that count, G of them, with the original metrics in front of the P grid points."""

    sample: np.ndarray  # (G,) position of the sample in the file
    draws: dict[str, np.ndarray]  # what was measured at every draw, by column, (G, 1 + P, K)
    perturbable: np.ndarray  # (G,) tokens, m
    achieved: np.ndarray  # (G, 1 + P) mean of the scores, the share that masks keep
    h0: np.ndarray  # (G,)
    identity: np.ndarray  # (G,)
    h0_noise: np.ndarray  # (G,) NaN if not evaluated in float32
    ns_noise: np.ndarray  # (G, 1 + P)
    nc_noise: np.ndarray  # (G, 1 + P)

    @property
    def ns(self) -> np.ndarray:
        """Distances of every draw whose mask keeps by score, (G, 1 + P, K)."""
        return self.draws["ns_distances"]

    @property
    def nc(self) -> np.ndarray:
        """Distances of every draw whose mask removes by score, (G, 1 + P, K)."""
        return self.draws["nc_distances"]


class SoftFile(NamedTuple):
    """What a `soft` file holds."""

    rows: pd.DataFrame  # but for the draws; `sample` counts the samples
    grid: np.ndarray  # (P,)
    steps: Steps


def read_soft(path: Path, minimum_h0: float, further: Sequence[str] = ()) -> SoftFile:
    """Read a `soft` file, and find the steps that count.

    Args:
        path: the file.
        minimum_h0: an ok row with a smaller H₀ counts as `degenerate_baseline`, and so does one
            whose H₀ is below the largest difference that 16 bits have made to one of its cell.
        further: columns of what was measured at every draw, besides both metrics' distances.

    Raises:
        BenchmarkError: an unreadable file, an ok row without distances, or a step that lacks a
            retaining probability.
    """
    rows, draws = _read(path, minimum_h0, (*_MEASURED, *further))
    grid = np.unique(rows["pi"].dropna().to_numpy())
    return SoftFile(rows, grid, _steps_that_count(rows, draws, grid, path))


def _read(
    path: Path, minimum_h0: float, measured: Sequence[str]
) -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
    """Read one file: its rows, and by column what its ok rows measured at every draw, (R, K).

    `place` of an ok row is its position among what was measured.
    """
    table = read_table(path, "soft", columns=[*_ROW_COLUMNS, *_NOISE, *measured])
    rows = table.drop_columns(list(measured)).to_pandas()
    rows["sample"] = pd.factorize(rows["sample_id"])[0]
    least = np.fmax(minimum_h0, rows["h0_noise"].abs().max())  # the latter NaN if there is none
    degenerate = (rows["status"] == OK) & (rows["h0"] < least)
    rows.loc[degenerate, "status"] = DEGENERATE_BASELINE
    ok = (rows["status"] == OK).to_numpy()
    rows["place"] = np.cumsum(ok) - 1
    usable = table.filter(pa.array(ok))
    draws = {name: _by_draw(usable, name, path) for name in measured}
    for name in ("h0", "achieved"):
        if not np.isfinite(rows.loc[ok, name]).all():
            raise BenchmarkError(f"{path}: an ok row has no finite value for '{name}'; {REPAIR}")
    return rows, draws


def _by_draw(table: pa.Table, column: str, path: Path) -> np.ndarray:
    """Return every row's list as a line, in float64, (R, K)."""
    lists = table.column(column)
    lengths = pc.fill_null(pc.list_value_length(lists), 0).unique().to_pylist()
    if not lengths:
        return np.empty((0, 1))
    if 0 in lengths:
        raise BenchmarkError(f"{path}: an ok row has no '{column}'; {REPAIR}")
    if len(lengths) > 1:
        raise BenchmarkError(
            f"{path}: an ok row has {min(lengths)} values in '{column}', another {max(lengths)}; "
            f"{REPAIR}"
        )
    draws = pc.list_flatten(lists).to_numpy().astype(np.float64).reshape(-1, lengths[0])
    if not (np.isfinite(draws) & (draws >= 0)).all():
        raise BenchmarkError(f"{path}: an ok row's '{column}' are no distances; {REPAIR}")
    return draws


def _steps_that_count(
    rows: pd.DataFrame, draws: Mapping[str, np.ndarray], grid: np.ndarray, path: Path
) -> Steps:
    """Arrange the steps of which every row is ok as one line each, original metrics first."""
    failed = (rows["status"] != OK).groupby([rows["sample"], rows["step"]]).transform("any")
    kept = rows[~failed].sort_values(["sample", "step", "pi"], na_position="first")
    line = np.concatenate([[0.0], grid])  # 0 stands for the original metrics, which have no π
    if len(kept) % line.size:
        raise BenchmarkError(f"{path}: {_UNEVEN}; {REPAIR}")
    names = ("sample", "step", "pi", "place", "perturbable", "achieved", "h0", "identity", *_NOISE)
    lines = {name: kept[name].to_numpy().reshape(-1, line.size) for name in names}
    whole = (np.nan_to_num(lines["pi"]) == line).all()
    one_step = all((lines[name] == lines[name][:, :1]).all() for name in ("sample", "step"))
    if not whole or not one_step or (len(kept) and grid.size < 2):
        raise BenchmarkError(f"{path}: {_UNEVEN}; {REPAIR}")
    original = {name: values[:, 0] for name, values in lines.items()}
    return Steps(
        sample=original["sample"],
        draws={name: values[lines["place"]] for name, values in draws.items()},
        perturbable=original["perturbable"],
        achieved=lines["achieved"],
        h0=original["h0"],
        identity=original["identity"],
        h0_noise=original["h0_noise"],
        ns_noise=lines["ns_noise"],
        nc_noise=lines["nc_noise"],
    )
