"""From per-draw distances to per-sample metrics, curves over π, and means per cell.

Per row of a `soft` file (sample, step, π), with H₀ the distance of the zero baseline:

- soft_ns_unclamped = (H₀ − mean of ns_distances) / H₀
- soft_ns: the same clamped at 0 by each draw, by the mean, or nowhere
  (:func:`pisoft.faithfulness.metrics.soft_ns`), as the run's curves are
- soft_nc = mean of nc_distances / H₀

A sample's value is the mean over its steps that count (:mod:`pisoft.statistics.soft_files`); a
sample without one has no value, and the status of its first failing row. Areas of curves measured
at some π only are those of the completed curves (:func:`completed`): means over samples estimate
the same, but the area of a single sample says little.

The numerators H₀ − mean of ns_distances and mean of nc_distances are kept for ratios of means over
samples: where H₀ is small, a sample's ratio says little and can rule a mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from pisoft.config.base import Clamp
from pisoft.config.cells import Cell
from pisoft.config.jobs.summaries import SummariseJob
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.curves import area_variance, auc, auc_full
from pisoft.faithfulness.metrics import soft_nc, soft_ns
from pisoft.statistics.metrics import CURVE_METRICS
from pisoft.statistics.reading import Files, Summary
from pisoft.statistics.results import summary_table
from pisoft.statistics.samples import mean_rows
from pisoft.statistics.soft_files import Steps, completed, read_soft
from pisoft.store.schemas import FILES

METRICS = ("ns", "nc")
DATASET = ["protocol", "model", "dataset"]  # keys of a dataset's cells
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
    # Bound of what rounding may add to both AUCs: identity / H₀ at every π; in half precision the
    # root mean square of the noise of the AUC that has more of it.
    "numerical",
)
# In half precision, by how much samples differ from their repetition in float32:
NOISE_METRICS = (
    "noise_distance",  # a draw's distance, mean of the absolute differences
    "noise_h0",
    "noise_auc_ns",  # both AUCs of the first draw
    "noise_auc_nc",
)

LOW_PI = 0.3


def summaries(files: Files, settings: SummariseJob) -> dict[str, Summary]:
    """Return files of samples, of mean curves and of samples' curves, from all `soft` files."""
    tables = summarise(files["soft"], settings.minimum_h0, settings.clamp, files.clusters())
    return dict(zip(("soft_samples", "curves", "soft_sample_curves"), tables, strict=True))


def summarise(
    paths: Iterable[Path],
    minimum_h0: float,
    clamp: Clamp,
    clusters: Mapping[str, str] | None = None,
) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Summarise `soft` files, one cell in memory at a time; see :func:`summarise_cells`.

    Raises:
        BenchmarkError: as :func:`pisoft.statistics.soft_files.read_soft`, or cells evaluated on
            different π grids.
    """
    cells = ((FILES["soft"].cell(path), read_soft(path, minimum_h0)) for path in paths)
    return summarise_cells(cells, clamp, clusters)


def summarise_cells(
    cells: Iterable[tuple[Cell, Steps]], clamp: Clamp, clusters: Mapping[str, str] | None = None
) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Return samples, mean curves and samples' curves of cells, as tables of these three kinds."""
    samples, sample_curves = (
        [summary_table(kind, [])] for kind in ("soft_samples", "soft_sample_curves")
    )
    means = {}
    for cell, steps in cells:
        step_values = {
            metric: metric_of(metric, steps.h0, steps.draws[f"{metric}_distances"], clamp)
            for metric in METRICS
        }
        curves = {name: steps.where_measured(curve) for name, curve in step_values.items()}
        sample_rows = _sample_rows(steps, _sample_metrics(steps, curves, clamp))
        curve_rows = _curve_rows(steps, curves)
        samples.append(summary_table("soft_samples", [sample_rows.assign(**cell.keys)]))
        sample_curves.append(summary_table("soft_sample_curves", [curve_rows.assign(**cell.keys)]))
        means[cell] = _mean_curves(steps, curves, clusters or {})
    curves_table = summary_table("curves", _on_common_grid(means))
    return pa.concat_tables(samples), curves_table, pa.concat_tables(sample_curves)


def curve_matrix(curves: pd.DataFrame, size: int) -> np.ndarray:
    """Return the values of `soft_sample_curves`, (rows, size); NaN: not measured, or failed."""
    failed = np.full(size, np.nan)
    return np.stack([failed if values is None else values for values in curves["values"]])


def metric_of(metric: str, h0: np.ndarray, distances: np.ndarray, clamp: Clamp) -> np.ndarray:
    """Return Soft-NS (`ns`) or Soft-NC (`nc`) of steps, (G, P), from distances (G, P, K)."""
    return soft_ns(h0, distances, clamp) if metric == "ns" else soft_nc(h0, distances)


def _sample_metrics(steps: Steps, curves: Mapping[str, np.ndarray], clamp: Clamp) -> pd.DataFrame:
    """Return a row per ok sample and a column per metric, from its curves (S, 1 + P)."""
    noise = _noise(steps, clamp)
    columns = [*SAMPLE_METRICS, *noise]
    if steps.ok.empty:
        return pd.DataFrame(columns=columns, dtype=np.float64)
    h0, grid, low = steps.h0, steps.grid, steps.grid <= LOW_PI
    counts = np.unique(steps.sample, return_counts=True)[1]  # steps of each sample
    share, identity = (steps.numbers[name][:, :1] for name in ("achieved", "identity"))
    metrics = {
        "h0": steps.mean(h0),
        "identity": steps.mean(identity),
        "numerical": steps.mean(identity / h0) * (grid[-1] - grid[0]),
        "mean_score": steps.mean(share),
        "expected_retained": steps.mean(share * steps.numbers["perturbable"][:, :1]),
    }
    for metric, curve in curves.items():
        distances = steps.draws[f"{metric}_distances"]
        numerators = distances.mean(axis=-1)
        if metric == "ns":
            numerators = h0 - numerators
            unclamped = steps.where_measured(numerators / h0)
            metrics["soft_ns_unclamped"] = unclamped[:, 0]
            metrics["auc_pi_soft_ns_unclamped"] = auc(grid, completed(unclamped[:, 1:], grid))
        metrics[f"soft_{metric}"], values = curve[:, 0], completed(curve[:, 1:], grid)
        metrics[f"auc_pi_soft_{metric}"] = auc(grid, values)
        metrics[f"auc_full_pi_soft_{metric}"] = auc_full(grid, values, f"pi_soft_{metric}")
        if low.sum() > 1:  # else the grid has no such part, and the column stays empty
            metrics[f"auc_low_pi_soft_{metric}"] = auc(grid[low], values[:, low])
        metrics[f"auc_numerator_{metric}"] = auc(
            grid, completed(steps.where_measured(numerators)[:, 1:], grid)
        )
        variances, _ = area_variance(distances[:, 1:] / h0[..., None], grid)
        metrics[f"monte_carlo_{metric}"] = steps.mean(variances) / counts
    if noise:
        metrics |= {name: steps.mean(values) for name, values in noise.items()}
        # Not `identity`: the same input is rounded alike.
        areas = pd.DataFrame({name: metrics[name] for name in ("noise_auc_ns", "noise_auc_nc")})
        metrics["numerical"] = np.full(len(steps.ok), np.sqrt((areas**2).mean().max()))
    flat = {name: values.ravel() for name, values in metrics.items()}
    return pd.DataFrame(flat, index=steps.ok, columns=columns)


def _noise(steps: Steps, clamp: Clamp) -> dict[str, np.ndarray]:
    """Return by NOISE_METRICS what half precision changes of each step, (G,); NaN: not measured."""
    numbers, h0_noise = steps.numbers, steps.numbers["h0_noise"][:, :1]
    if np.isnan(h0_noise).all():
        return {}
    draw_noise = np.concatenate([numbers["ns_noise"], numbers["nc_noise"]], axis=1)
    sizes = pd.DataFrame(np.abs(draw_noise)).mean(axis=1).to_numpy()  # of the measured π
    noise = {"noise_distance": sizes, "noise_h0": h0_noise[:, 0]}
    measured = steps.measured[:, 1:]
    for metric in METRICS:
        first = steps.draws[f"{metric}_distances"][:, 1:, :1]
        single = first - numbers[f"{metric}_noise"][:, 1:, None]  # in float32
        changes = metric_of(metric, steps.h0, first, clamp)
        changes = changes - metric_of(metric, steps.h0 - h0_noise, single, clamp)
        changes = np.where(measured, changes, 0.0) / measured.mean()
        noise[f"noise_auc_{metric}"] = auc(steps.grid, changes)
    return noise


def _sample_rows(steps: Steps, metrics: pd.DataFrame) -> pd.DataFrame:
    """Return a row per sample and metric; those of failed samples have no value."""
    every = metrics.reindex(steps.status.index).rename_axis(index="sample_id", columns="metric")
    rows = every.stack(future_stack=True).rename("value").reset_index()
    return rows.assign(status=steps.status.repeat(len(metrics.columns)).to_numpy())


def _curve_rows(steps: Steps, curves: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Return a row per metric and sample; those of failed samples have no values."""
    rows = {
        f"pi_soft_{metric}": pd.Series(list(curve[:, 1:]), steps.ok, dtype=object)
        for metric, curve in curves.items()
    }
    every = pd.DataFrame(rows).reindex(steps.status.index).rename_axis("sample_id").reset_index()
    return every.melt("sample_id", var_name="metric", value_name="values")


def _mean_curves(
    steps: Steps, curves: Mapping[str, np.ndarray], clusters: Mapping[str, str]
) -> tuple[pd.DataFrame, int]:
    """Return means of curves (G, 1 + P) over the samples measured at each π, and failures.

    Means, with their intervals and numbers of samples, are by metric and π.
    """
    parts = {}
    for metric, values in curves.items():
        measured = pd.DataFrame(values[:, 1:], steps.ok, steps.grid)
        parts[f"pi_soft_{metric}"] = mean_rows(measured, clusters).assign(n=measured.count())
    return pd.concat(parts, names=["metric", "position"]), len(steps.status) - len(steps.ok)


def _on_common_grid(
    means: Mapping[Cell, tuple[pd.DataFrame, int]],
) -> Iterator[pd.DataFrame]:
    """Yield the `curves` rows of each cell; one without any π has no values at those of the others.

    Raises:
        BenchmarkError: two cells were evaluated on different grids.
    """
    grids = {cell: curves.index.unique("position") for cell, (curves, _) in means.items()}
    common = next((grid for grid in grids.values() if grid.size), pd.Index([]))
    every = pd.MultiIndex.from_product([CURVE_METRICS, common], names=["metric", "position"])
    for cell, (curves, failed) in means.items():
        if len(grids[cell]) and not grids[cell].equals(common):
            raise BenchmarkError(
                f"{cell}: evaluated at π = {grids[cell].tolist()}, other cells at "
                f"{common.tolist()}; delete its soft file and run the workflow again"
            )
        yield curves.reindex(every).reset_index().assign(**cell.keys, n_failed=failed)
