"""Every number of the tables with its uncertainty: intervals, ranks, tests, sources of variance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from pisoft.columns import SCHEMAS
from pisoft.config.slices.summaries import UncertaintySlice
from pisoft.statistics.bootstrap import CONFIDENCE, Resampled, average, intervals, ranks, resample
from pisoft.statistics.comparisons import compare
from pisoft.statistics.metrics import AVERAGE, METRICS
from pisoft.statistics.reading import Files, Summary
from pisoft.statistics.robustness import leave_one_out
from pisoft.statistics.values import SampleValues, sample_values

CELL = ["protocol", "model", "metric"]
# Of a sample's AUC: its value, not clamped, and the part of its variance that comes from the draws.
VARIANCES = {
    "auc_pi_soft_ns": ("auc_pi_soft_ns_unclamped", "monte_carlo_ns"),
    "auc_pi_soft_nc": ("auc_pi_soft_nc", "monte_carlo_nc"),
}
NUMERICAL = "numerical"
SAMPLE_METRICS = {
    *(name for metric in METRICS.values() for name in (metric.of, metric.over) if name),
    *(name for pair in VARIANCES.values() for name in pair),
    NUMERICAL,
}


@dataclass(frozen=True)
class Uncertainty:
    """Rows of the contracts of the same names."""

    statistics: pd.DataFrame
    comparisons: pd.DataFrame
    leave_one_out: pd.DataFrame
    variances: pd.DataFrame


KINDS = tuple(field.name for field in fields(Uncertainty))
Settings = UncertaintySlice


def summaries(files: Files, settings: UncertaintySlice) -> dict[str, Summary]:
    """Return one file of each kind of statistic, from the samples of all metrics."""
    found = estimate(files["samples"], settings.datasets, settings.seed, settings.resamples)
    rows = {kind: (getattr(found, kind), SCHEMAS[kind]) for kind in KINDS}
    return {
        kind: pa.Table.from_pandas(frame[schema.names], schema=schema, preserve_index=False)
        for kind, (frame, schema) in rows.items()
    }


def estimate(
    paths: Sequence[Path], datasets: Iterable[str], seed: int, resamples: int
) -> Uncertainty:
    """Estimate the uncertainty of every reported statistic.

    Args:
        paths: files `soft_samples.parquet` and, if there are any, `ranking_samples.parquet`,
            `evidence_samples.parquet` and `stored_samples.parquet`.
        datasets: in the order of the tables.
        seed: of the run.
        resamples: bootstrap resamples, and sign flips of a permutation test.

    Raises:
        BenchmarkError: an unreadable file.
    """
    read = {name: sample_values(paths, name, SAMPLE_METRICS) for name in datasets}
    given = {name: values for name, values in read.items() if values.values.size}
    resampled = {name: resample(values, seed, name, resamples) for name, values in given.items()}
    resampled[AVERAGE] = average(list(resampled.values()))
    tables = [_statistics(part).assign(dataset=name) for name, part in resampled.items()]
    statistics = pd.concat(tables, ignore_index=True)
    comparisons = compare(given, AVERAGE, seed, resamples)
    variances = [_variances(values).assign(dataset=name) for name, values in given.items()]
    return Uncertainty(
        statistics=_with_p_values(statistics, comparisons),
        comparisons=comparisons,
        leave_one_out=_leave_one_out(statistics[statistics["dataset"] != AVERAGE]),
        variances=pd.concat(variances, ignore_index=True),
    )


def _statistics(resampled: Resampled) -> pd.DataFrame:
    """Return value, interval and ranks of each statistic, and the best method of each cell."""
    table = resampled.columns.copy()
    table[["standard_error", "low", "high"]] = intervals(resampled).T
    for name in ("rank", "rank_low", "rank_high", "mean_rank", "best_share"):
        table[name] = np.nan
    table["best"] = None
    for (*_, name), rows in table.groupby(CELL, sort=False, dropna=False):
        metric = METRICS[name]
        known = rows.index[rows["value"].notna()]
        if metric.best is None or known.empty:
            continue
        place = ranks(table.loc[known, "value"].to_numpy(), metric.best)
        table.loc[known, "rank"] = place
        table.loc[rows.index, "best"] = table.loc[known[place.argmin()], "method"]
        if not metric.median:  # methods' medians are not resampled together
            drawn = ranks(resampled.draws[:, known], metric.best)
            ends = (np.array([1 - CONFIDENCE, 1 + CONFIDENCE]) / 2).tolist()
            low, high = np.nanquantile(drawn, ends, axis=0, method="inverted_cdf")
            first = drawn == np.fmin.reduce(drawn, axis=1, keepdims=True)
            table.loc[known, ["rank_low", "rank_high"]] = np.stack([low, high], axis=1)
            table.loc[known, "mean_rank"] = np.nanmean(drawn, axis=0)
            table.loc[known, "best_share"] = first.mean(axis=0)
    return table


def _with_p_values(statistics: pd.DataFrame, comparisons: pd.DataFrame) -> pd.DataFrame:
    """Add each method's p-value against the best of its cell; none for the best itself."""
    keys = [*CELL, "dataset"]
    mirrored = comparisons.rename(columns={"method": "other", "other": "method"})
    both = pd.concat([comparisons, mirrored])
    both = both[[*keys, "method", "other", "p_adjusted", "p_smallest"]]
    both = both.rename(columns={"other": "best", "p_adjusted": "p_value"})
    return statistics.merge(both, on=[*keys, "method", "best"], how="left", validate="one_to_one")


def _leave_one_out(statistics: pd.DataFrame) -> pd.DataFrame:
    """Return ranks of the methods on the average over datasets, whole and without each of them."""
    tables = []
    for (protocol, model, name), rows in statistics.groupby(CELL, sort=False, dropna=False):
        best = METRICS[name].best
        if best is not None:
            datasets = rows["dataset"].unique()
            # A method of some datasets alone would come and go with the one that is left out.
            counts = rows.groupby("method")["dataset"].transform("size")
            everywhere = rows[counts == len(datasets)]
            values = everywhere.pivot(index="dataset", columns="method", values="value")
            values = values.reindex(index=datasets, columns=everywhere["method"].unique())
            keys = {"protocol": protocol, "model": model, "metric": name}
            tables.append(leave_one_out(values, best).assign(**keys))
    return pd.concat(tables, ignore_index=True)


def _variances(given: SampleValues) -> pd.DataFrame:
    """Return the variance of a sample's AUC, by where it comes from.

    What is seen is the variance between samples, the Monte Carlo variance of each sample's mean
    over its draws, and rounding; the first is what is left of the total when the others are taken
    off. It may come out below 0 where they are nearly all of it, as all three are estimates. That
    of rounding is an upper bound.
    """
    columns = given.columns.reset_index(names="place")
    places = columns.set_index(["metric", "protocol", "model", "method"])["place"]
    rows = []
    for metric, (value, monte_carlo) in VARIANCES.items():
        if value not in places.index:
            continue
        for (protocol, model, method), place in places[value].items():
            own = (protocol, model, method)
            areas = given.values[:, place]
            known = np.isfinite(areas)
            drawn = given.values[known, places[monte_carlo][own]]
            rounded = given.values[known, places[NUMERICAL][own]]
            enough = known.sum() > 1
            total = areas[known].var(ddof=1) if enough else np.nan
            of_draws = drawn.mean() if enough else np.nan
            numerical = (rounded**2).mean() if enough else np.nan
            rows.append(
                {
                    "protocol": protocol,
                    "model": model,
                    "metric": metric,
                    "method": method,
                    "n": int(known.sum()),
                    "total": total,
                    "between_samples": total - of_draws - numerical,
                    "monte_carlo": of_draws,
                    "numerical": numerical,
                }
            )
    return pd.DataFrame(rows)
