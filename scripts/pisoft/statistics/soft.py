"""From per-draw distances to per-sample metrics, curves over π, and means per cell.

Per row of a `soft` file (sample, step, π), with H₀ the distance of the zero baseline:

- soft_ns_unclamped = (H₀ − mean of ns_distances) / H₀
- soft_ns: the same clamped at 0 by each draw, by the mean, or nowhere
  (:func:`pisoft.faithfulness.metrics.soft_ns`), as the run's curves are
- soft_nc = mean of nc_distances / H₀

A sample's value is the mean over its steps that count
(:func:`pisoft.statistics.soft_files.read_soft`); a sample without one has no value, and the status
of its first failing row.

The numerators of the ratios, H₀ − mean of ns_distances and mean of nc_distances, are kept for
ratios of means over samples: where H₀ is small, a sample's own ratio says little and can rule a
mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from pisoft.columns import SCHEMAS
from pisoft.config.base import Clamp
from pisoft.config.slices import SummariseSlice
from pisoft.contracts import OK
from pisoft.curves import area_variance, auc, auc_full
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.metrics import soft_ns
from pisoft.statistics.intervals import half_widths
from pisoft.statistics.metrics import CURVE_METRICS
from pisoft.statistics.reading import Files, Summary
from pisoft.statistics.results import results_table
from pisoft.statistics.soft_files import CELL, Cell, Steps, read_soft

SAMPLE_METRICS = (
    "auc_pi_soft_ns",
    "auc_pi_soft_nc",
    "auc_full_pi_soft_ns",
    "auc_full_pi_soft_nc",
    "auc_low_pi_soft_ns",  # over π ≤ LOW_PI only, where few tokens are kept or removed
    "auc_low_pi_soft_nc",
    "soft_ns",  # original metrics, α = 1
    "soft_nc",
    "soft_ns_unclamped",
    "auc_pi_soft_ns_unclamped",
    "expected_retained",  # E[R] = Σ s_i, tokens, of the original metrics
    "mean_score",  # E[R] / m, the share that the original metrics retain
    "h0",
    "identity",  # distance of the unperturbed input evaluated again: numerical noise
    "auc_numerator_ns",  # areas of H₀ − mean of ns_distances and of mean of nc_distances
    "auc_numerator_nc",
    "monte_carlo_ns",  # variance of both AUCs, not clamped, that comes from the draws
    "monte_carlo_nc",
    # Bound of what rounding may add to both AUCs: identity / H₀ at every π; in 16 bits the root
    # mean square of the noise of the AUC that has more of it.
    "numerical",
)
# Of models in 16 bits, by how much samples that were evaluated in float32, too, differ from that:
NOISE_METRICS = (
    "noise_distance",  # a draw's distance, mean of the absolute differences
    "noise_h0",
    "noise_auc_ns",  # both AUCs of the first draw
    "noise_auc_nc",
)

LOW_PI = 0.3


Settings = SummariseSlice


def summaries(files: Files, settings: SummariseSlice) -> dict[str, Summary]:
    """Return files of samples, of their curves and of mean curves, from all `soft` files."""
    return dict(summarise(files["soft"], settings.minimum_h0, settings.clamp)._asdict())


class SoftSummaries(NamedTuple):
    """What :func:`summarise` makes, each a table of the kind that it is named after."""

    soft_samples: pa.Table  # a row per cell, sample and metric of SAMPLE_METRICS
    curves: pa.Table  # means over samples: a row per cell, metric of CURVE_METRICS and π
    soft_sample_curves: pa.Table  # a row per cell, sample and metric of CURVE_METRICS


def summarise(paths: Iterable[Path], minimum_h0: float, clamp: Clamp) -> SoftSummaries:
    """Summarise `soft` files, one cell in memory at a time.

    Args:
        paths: the files; their paths name their cells, see :meth:`Cell.of`.
        minimum_h0: as :func:`pisoft.statistics.soft_files.read_soft` has it.
        clamp: where Soft-NS is clamped at 0 where it is not called unclamped.

    Raises:
        BenchmarkError: an unreadable file, an ok row without distances, a step that lacks a
            retaining probability, or cells evaluated on different π grids.
    """
    samples = [SCHEMAS["soft_samples"].empty_table()]
    sample_curves = [SCHEMAS["soft_sample_curves"].empty_table()]
    means, counts = {}, {}
    for path in paths:
        cell = Cell.of(path)
        rows, grid, by_sample = _cell_means(path, minimum_h0, clamp)
        samples.append(sample_rows(cell, rows, _sample_metrics(by_sample, grid)))
        curves = _metric_curves(by_sample, grid)
        sample_curves += _sample_curve_rows(cell, rows, curves)
        means[cell], n = _mean_curves(curves), len(by_sample["h0"])
        counts[cell] = {"n": n, "n_failed": rows["sample"].nunique() - n}
    return SoftSummaries(
        pa.concat_tables(samples),
        results_table("curves", _on_common_grid(means, counts)),
        pa.concat_tables(sample_curves),
    )


def _cell_means(
    path: Path, minimum_h0: float, clamp: Clamp
) -> tuple[pd.DataFrame, np.ndarray, dict[str, pd.DataFrame]]:
    """Return a file's rows, its π grid, and means over each sample's steps."""
    rows, grid, steps = read_soft(path, minimum_h0)
    return rows, grid, _means_over_steps(steps, grid, clamp)


def _means_over_steps(steps: Steps, grid: np.ndarray, clamp: Clamp) -> dict[str, pd.DataFrame]:
    """Return means over each sample's steps, indexed by the samples that have a step."""
    h0 = steps.h0[:, None]
    numerators = {"ns": h0 - steps.ns.mean(axis=-1), "nc": steps.nc.mean(axis=-1)}  # (G, 1 + P)
    columns = {
        "ns": soft_ns(h0, steps.ns, clamp),
        "nc": numerators["nc"] / h0,
        "ns_unclamped": numerators["ns"] / h0,
        "numerator_ns": numerators["ns"],
        "numerator_nc": numerators["nc"],
        "expected": steps.achieved[:, :1] * steps.perturbable[:, None],  # (G, 1)
        "mean_score": steps.achieved[:, :1],
        "h0": h0,
        "identity": steps.identity[:, None],
        "relative_identity": steps.identity[:, None] / h0,
    }
    columns |= _noise(steps, grid, clamp)
    by_sample = {
        name: pd.DataFrame(values).groupby(steps.sample).mean() for name, values in columns.items()
    }
    for metric, distances in (("ns", steps.ns), ("nc", steps.nc)):
        variances = _variances(distances[:, 1:] / h0[..., None], grid)
        groups = pd.DataFrame(variances).groupby(steps.sample)
        by_sample[f"monte_carlo_{metric}"] = groups.mean().div(groups.size(), axis="index")
    return by_sample


def _noise(steps: Steps, grid: np.ndarray, clamp: Clamp) -> dict[str, np.ndarray]:
    """Return by NOISE_METRICS what 16 bits have changed of every step, (G, 1); NaN: not known."""
    if np.isnan(steps.h0_noise).all():
        return {}
    h0, single = steps.h0[:, None], (steps.h0 - steps.h0_noise)[:, None]
    ns, nc = steps.ns[:, 1:, 0], steps.nc[:, 1:, 0]  # the first draw's, (G, P)
    ns_single, nc_single = ns - steps.ns_noise[:, 1:], nc - steps.nc_noise[:, 1:]
    areas_ns = [
        auc(grid, soft_ns(of, distances[..., None], clamp))
        for of, distances in ((h0, ns), (single, ns_single))
    ]
    areas_nc = auc(grid, nc / h0), auc(grid, nc_single / single)
    distances = np.abs(np.concatenate([steps.ns_noise, steps.nc_noise], axis=1)).mean(axis=1)
    values = (distances, steps.h0_noise, areas_ns[0] - areas_ns[1], areas_nc[0] - areas_nc[1])
    return {name: found[:, None] for name, found in zip(NOISE_METRICS, values, strict=True)}


def _variances(curves: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Return the Monte Carlo variance of every step's AUC, (G,), from curves (G, P, K)."""
    return area_variance(curves, grid)[0] if len(curves) else np.empty(0)


def _sample_metrics(by_sample: dict[str, pd.DataFrame], grid: np.ndarray) -> pd.DataFrame:
    """Return one row per sample that has a value, one column per sample metric."""
    metrics = pd.DataFrame(index=by_sample["h0"].index, columns=SAMPLE_METRICS, dtype=np.float64)
    if metrics.empty:
        return metrics
    low = grid <= LOW_PI
    for name, metric in zip(("ns", "nc"), CURVE_METRICS, strict=True):
        values = by_sample[name].to_numpy()
        metrics[f"soft_{name}"] = values[:, 0]
        metrics[f"auc_{metric}"] = auc(grid, values[:, 1:])
        metrics[f"auc_full_{metric}"] = auc_full(grid, values[:, 1:], metric)
        if low.sum() > 1:  # else the grid has no such part, and the column stays empty
            metrics[f"auc_low_{metric}"] = auc(grid[low], values[:, 1:][:, low])
        numerator = by_sample[f"numerator_{name}"].to_numpy()
        metrics[f"auc_numerator_{name}"] = auc(grid, numerator[:, 1:])
        metrics[f"monte_carlo_{name}"] = by_sample[f"monte_carlo_{name}"][0]
    unclamped = by_sample["ns_unclamped"].to_numpy()
    metrics["soft_ns_unclamped"] = unclamped[:, 0]
    metrics["auc_pi_soft_ns_unclamped"] = auc(grid, unclamped[:, 1:])
    metrics["expected_retained"] = by_sample["expected"][0]
    metrics["numerical"] = by_sample["relative_identity"][0] * (grid[-1] - grid[0])
    for name in ("mean_score", "h0", "identity"):
        metrics[name] = by_sample[name][0]
    if set(NOISE_METRICS) <= set(by_sample):
        for name in NOISE_METRICS:
            metrics[name] = by_sample[name][0]
        # Not `identity`: the same input rounds to 16 bits the same way.
        areas = metrics[["noise_auc_ns", "noise_auc_nc"]]
        metrics["numerical"] = np.sqrt((areas**2).mean().max())
    return metrics


def sample_rows(cell: Cell, rows: pd.DataFrame, metrics: pd.DataFrame) -> pa.Table:
    """Return the `soft_samples` rows of one cell, every sample of the file included."""
    identifiers = rows.drop_duplicates("sample").set_index("sample")["sample_id"]
    failures = rows[rows["status"] != OK].drop_duplicates("sample").set_index("sample")["status"]
    status = failures.reindex(identifiers.index)
    status[identifiers.index.isin(metrics.index)] = OK
    width = len(metrics.columns)
    tidy = {
        **{name: getattr(cell, name) for name in CELL},
        "sample_id": identifiers.repeat(width).to_numpy(),
        "metric": np.tile(metrics.columns, len(identifiers)),
        "value": metrics.reindex(identifiers.index).to_numpy().ravel(),
        "status": status.repeat(width).to_numpy(),
    }
    schema = SCHEMAS["soft_samples"]
    return pa.Table.from_pandas(
        pd.DataFrame(tidy), schema=schema, preserve_index=False
    ).replace_schema_metadata(None)


def _sample_curve_rows(
    cell: Cell, rows: pd.DataFrame, curves: Mapping[str, pd.DataFrame]
) -> list[pa.Table]:
    """Return the `soft_sample_curves` rows of one cell by metric, every sample included."""
    identifiers = rows.drop_duplicates("sample").set_index("sample")["sample_id"]
    schema = SCHEMAS["soft_sample_curves"]
    tables = []
    for metric, curve in curves.items():
        tidy = pd.DataFrame(
            {
                **{name: getattr(cell, name) for name in CELL},
                "sample_id": identifiers,
                "metric": metric,
                "values": pd.Series(list(curve.to_numpy()), index=curve.index, dtype=object),
            }
        )
        table = pa.Table.from_pandas(tidy, schema=schema, preserve_index=False)
        tables.append(table.replace_schema_metadata(None))
    return tables


def _mean_curves(curves: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return means over samples with their standard errors, by metric and π."""
    parts = {
        metric: pd.DataFrame({"value": curve.mean(), "standard_error": curve.sem(ddof=1)})
        for metric, curve in curves.items()
    }
    return pd.concat(parts, names=["metric", "position"])


def _metric_curves(by_sample: dict[str, pd.DataFrame], grid: np.ndarray) -> dict[str, pd.DataFrame]:
    """Return the samples' curves by metric, one column per π."""
    return {
        metric: by_sample[name].reindex(columns=range(1, 1 + grid.size)).set_axis(grid, axis=1)
        for name, metric in zip(("ns", "nc"), CURVE_METRICS, strict=True)
    }


def _on_common_grid(
    means: Mapping[Cell, pd.DataFrame], counts: Mapping[Cell, Mapping[str, int]]
) -> Iterator[pd.DataFrame]:
    """Yield the `curves` rows of each cell; one without any π has no values at those of the others.

    Raises:
        BenchmarkError: two cells were evaluated on different grids.
    """
    grids = {cell: curves.index.unique("position") for cell, curves in means.items()}
    common = next((grid for grid in grids.values() if grid.size), pd.Index([]))
    for cell, grid in grids.items():
        if grid.size and not grid.equals(common):
            raise BenchmarkError(
                f"{cell}: evaluated at π = {grid.tolist()}, other cells at {common.tolist()}; "
                "delete its soft file and run the workflow again"
            )
        every = pd.MultiIndex.from_product([CURVE_METRICS, common], names=["metric", "position"])
        rows = means[cell].reindex(every).reset_index().assign(**asdict(cell), **counts[cell])
        half_width = half_widths(rows["standard_error"], rows["n"])
        yield rows.assign(low=rows["value"] - half_width, high=rows["value"] + half_width)
