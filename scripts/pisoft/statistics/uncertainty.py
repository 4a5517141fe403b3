"""Every number of the tables with its uncertainty: intervals, ranks, tests, sources of variance.

Each cell (metric, protocol and model) has two families of tests: methods against the control, and
all pairs of the other methods. The second family holds more than the pairs with the best method,
because the best was picked by the same numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from pisoft.columns import SCHEMAS
from pisoft.config.slices import UncertaintySlice
from pisoft.contracts import OK, read_table
from pisoft.statistics.estimates import (
    CONFIDENCE,
    P_VALUES,
    Estimates,
    Samples,
    estimate,
    paired_tests,
    ranks,
    sample_matrix,
)
from pisoft.statistics.metrics import AVERAGE, CONTROL, METRICS
from pisoft.statistics.reading import Files, Summary
from pisoft.statistics.results import results_table
from pisoft.statistics.robustness import leave_one_out
from pisoft.statistics.soft import NOISE_METRICS

CELL = ["metric", "protocol", "model"]
KEYS = [*CELL, "method"]
RANKS = ["rank_low", "rank_high", "mean_rank", "best_share"]
# Of a sample's AUC: its value, not clamped, and the part of its variance that comes from the draws.
VARIANCES = {
    "auc_pi_soft_ns": ("auc_pi_soft_ns_unclamped", "monte_carlo_ns"),
    "auc_pi_soft_nc": ("auc_pi_soft_nc", "monte_carlo_nc"),
}
NUMERICAL = "numerical"
# A metric of each kind of samples, undefined wherever another of its kind is.
COUNTED = ("identity", "lds_given_count", "deletion_auc", "top_1_in_evidence")
NOISE = ("identity", *NOISE_METRICS)
SAMPLE_METRICS = {
    *(name for metric in METRICS.values() for name in (metric.of, metric.over) if name),
    *(name for pair in VARIANCES.values() for name in pair),
    NUMERICAL,
}
Settings = UncertaintySlice


def summaries(files: Files, settings: UncertaintySlice) -> dict[str, Summary]:
    """Return one file of each kind of statistic, from the samples of all metrics."""
    paths = files["samples"]
    tables = uncertainty(paths, settings.datasets, settings.seed, settings.resamples)
    tables |= {"coverage": coverage(paths), "noise": noise(paths)}
    return {question: results_table(question, [table]) for question, table in tables.items()}


def uncertainty(
    paths: Sequence[Path], datasets: Sequence[str], seed: int, resamples: int
) -> dict[str, pd.DataFrame]:
    """Estimate the uncertainty of every reported statistic.

    Args:
        paths: files `soft_samples.parquet` and, if there are any, `ranking_samples.parquet`,
            `evidence_samples.parquet` and `datamodel_samples.parquet`.
        datasets: in the order of the tables.
        seed: of the run.
        resamples: bootstrap resamples, and sign flips of a permutation test.

    Returns:
        Rows of `statistics`, `comparisons`, `ranks` and `variance_components`.

    Raises:
        BenchmarkError: an unreadable file.
    """
    reported, components = {}, []
    for dataset in datasets:
        rows = read_samples(paths, dataset, SAMPLE_METRICS)
        if len(rows):
            values = sample_matrix(rows, KEYS)
            failures = (rows["status"] != OK).groupby([rows[name] for name in KEYS], observed=True)
            reported[dataset] = reported_samples(values, failures.sum().reindex(values.columns))
            components.append(variance_components(values).assign(dataset=dataset))
    estimates = estimate(reported, seed, resamples)
    ranked = {name: with_ranks(part).assign(dataset=name) for name, part in estimates.items()}
    statistics = pd.concat(ranked.values(), ignore_index=True)
    comparisons = paired_tests(differences(reported), seed, resamples, [*CELL, "with_control"])
    single = statistics[statistics["dataset"] != AVERAGE]
    return {
        "statistics": with_p_values(statistics, comparisons).drop(columns=RANKS),
        "comparisons": comparisons.drop(columns="with_control"),
        "ranks": pd.concat([rank_rows(statistics), averages_without(single)], ignore_index=True),
        "variance_components": pd.concat(components, ignore_index=True),
    }


def rank_rows(statistics: pd.DataFrame) -> pd.DataFrame:
    """Return the ranks over resamples as rows of their own."""
    ranked = statistics.dropna(subset="rank")
    keys = ranked[[*KEYS, "dataset", "n", "n_failed"]]
    interval = {"low": ranked["rank_low"], "high": ranked["rank_high"]}
    parts = {
        "rank": keys.assign(value=ranked["rank"], **interval),
        "mean_rank": keys.assign(value=ranked["mean_rank"]),
        "best_share": keys.assign(value=ranked["best_share"]),
    }
    return pd.concat([rows.assign(part=name) for name, rows in parts.items()], ignore_index=True)


def coverage(paths: Sequence[Path]) -> pd.DataFrame:
    """Return how many samples of each cell have which status, by a metric of each kind."""
    keys = ["protocol", "model", "dataset", "method", "metric", "status", "reason"]
    rows = outcomes(paths, COUNTED, keys)
    counts = rows.groupby(keys, sort=False).size().rename("value").reset_index()
    return counts.rename(columns={"status": "part", "reason": "text"})


def noise(paths: Sequence[Path]) -> pd.DataFrame:
    """Return the mean and the largest size of what rounding alone changes, by model."""
    keys = ["protocol", "model", "metric"]
    rows = outcomes(paths, NOISE, [*keys, "status", "value"])
    sizes = rows[rows["status"] == OK].assign(value=rows["value"].abs()).dropna(subset="value")
    groups = sizes.groupby(keys, sort=False)["value"]
    return groups.agg(value="mean", high="max", n="size").reset_index()


def outcomes(
    paths: Sequence[Path], metrics: Collection[str], columns: Sequence[str]
) -> pd.DataFrame:
    """Return samples of some metrics, and rows that say why a dataset has none; texts may be ""."""
    where = pc.field("metric").isin(list(metrics))
    tables = []
    for path in paths:
        names = [name for name in columns if name in SCHEMAS[path.stem].names]
        tables.append(read_table(path, path.stem, names, where))
    rows = pa.concat_tables(tables, promote_options="default").to_pandas()
    rows = rows.reindex(columns=list(columns))
    texts = rows[[name for name in ("protocol", "reason") if name in columns]].astype(object)
    return rows.assign(**texts.where(texts.notna(), ""))


def read_samples(paths: Sequence[Path], dataset: str, metrics: Collection[str]) -> pd.DataFrame:
    """Return the samples of one dataset in the order of the files; `protocol` is "" without one.

    Args:
        paths: summary files, named after their kind.
        dataset: its name.
        metrics: sample metrics to read.

    Raises:
        BenchmarkError: an unreadable file.
    """
    names = [*KEYS, "sample_id", "value", "status"]
    where = (pc.field("dataset") == dataset) & pc.field("metric").isin(list(metrics))
    tables = []
    for path in paths:
        columns = [name for name in names if name in SCHEMAS[path.stem].names]
        table = read_table(path, path.stem, [*columns, "dataset"], where)
        # Rows that say why a dataset has no samples are none.
        table = table.filter(pc.is_valid(table.column("sample_id")))
        if "protocol" not in columns:
            table = table.append_column("protocol", pa.repeat("", table.num_rows))
        tables.append(table.select(names))
    joined = pa.concat_tables(tables, promote_options="default")
    return joined.to_pandas(strings_to_categorical=True)


def reported_samples(values: pd.DataFrame, failed: pd.Series) -> Samples:
    """Return the samples of every reported metric of a dataset.

    Args:
        values: samples by :data:`KEYS`, of sample metrics.
        failed: failed samples of each column.
    """
    measured = values.columns.unique("metric")
    metrics = {name: metric for name, metric in METRICS.items() if metric.of in measured}
    # Indexing by the metric alone would drop an empty protocol, too, where there is one column.
    of_metric = {name: values.xs(name, axis="columns", level="metric") for name in measured}
    numerators = {name: of_metric[metric.of] for name, metric in metrics.items()}
    denominators = {
        name: numerators[name].notna().astype(float)
        if metric.over is None
        else of_metric[metric.over][numerators[name].columns]
        for name, metric in metrics.items()
    }
    names = values.columns.names
    columns = pd.concat(numerators, axis="columns", names=["metric"])
    return Samples(
        columns.rename_axis(columns=names),
        pd.concat(denominators, axis="columns", names=["metric"]).rename_axis(columns=names),
        pd.concat({name: failed[metric.of] for name, metric in metrics.items()}),
        [METRICS[name].median for name in columns.columns.get_level_values("metric")],
    )


def with_ranks(estimates: Estimates) -> pd.DataFrame:
    """Return every number with its rank and :data:`RANKS`, and the `best` method of its cell."""
    table = estimates.table().assign(**dict.fromkeys(["rank", *RANKS], np.nan), best=None)
    tails = [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]
    for (metric, *_), rows in table.groupby(CELL, sort=False):
        ranked = rows.index[rows["value"].notna()]
        best = METRICS[str(metric)].best
        if best is None or ranked.empty:
            continue
        placed = ranks(estimates.replicates.to_numpy()[:, ranked], best)
        rank, resampled = placed[0], placed[1:]
        low, high = np.nanquantile(resampled, tails, axis=0, method="inverted_cdf")
        first = resampled == np.fmin.reduce(resampled, axis=1, keepdims=True)
        numbers = [rank, low, high, np.nanmean(resampled, axis=0), first.mean(axis=0)]
        table.loc[ranked, ["rank", *RANKS]] = np.stack(numbers, axis=1)
        table.loc[rows.index, "best"] = table.loc[ranked[rank.argmin()], "method"]
    return table


def differences(datasets: Mapping[str, Samples]) -> dict[str, Samples]:
    """Return the differences of every two methods of a cell on the samples that both have.

    A dataset that has a metric, but lacks a method of another dataset, has no such difference.
    """
    columns = [samples.numerators.columns for samples in datasets.values()]
    every = columns[0].append(columns[1:]).unique().to_frame(index=False)
    every = every[[METRICS[name].compared for name in every["metric"]]]
    by_dataset = {}
    for dataset, samples in datasets.items():
        present = samples.numerators.columns.unique("metric")
        keys = every[every["metric"].isin(present)].reset_index(drop=True)
        cells = keys.groupby(CELL, sort=False).indices.values()
        pairs = [pair for cell in cells for pair in combinations(cell, 2)]
        first, second = np.array(pairs, dtype=int).reshape(-1, 2).T
        pair_keys = keys.iloc[first].assign(other=keys["method"].to_numpy()[second])
        pair_keys["with_control"] = (pair_keys[["method", "other"]] == CONTROL).any(axis="columns")
        names = pd.MultiIndex.from_frame(pair_keys)
        numerators, denominators = (
            frame.reindex(columns=pd.MultiIndex.from_frame(keys)).to_numpy()
            for frame in (samples.numerators, samples.denominators)
        )
        by_dataset[dataset] = Samples(
            pd.DataFrame(numerators[:, first] - numerators[:, second], columns=names),
            pd.DataFrame(denominators[:, first], columns=names),
            pd.Series(0, index=names),
        )
    return by_dataset


def with_p_values(statistics: pd.DataFrame, comparisons: pd.DataFrame) -> pd.DataFrame:
    """Add each method's p-values against the best of its cell; none for the best itself."""
    mirrored = comparisons.rename(columns={"method": "other", "other": "method"})
    keys = [*CELL, "dataset", "method"]
    both = pd.concat([comparisons, mirrored])[[*keys, "other", *P_VALUES]]
    both = both.rename(columns={"other": "best"})
    return statistics.merge(both, on=[*keys, "best"], how="left", validate="one_to_one")


def averages_without(statistics: pd.DataFrame) -> pd.DataFrame:
    """Return means and ranks over all datasets and, as `other`, without each of them."""
    tables = []
    for cell, rows in statistics.groupby(CELL, sort=False):
        best = METRICS[str(cell[0])].best
        if best is not None:
            datasets = rows["dataset"].unique()
            # A method of some datasets alone would come and go with the one that is left out.
            counts = rows.groupby("method")["dataset"].transform("size")
            everywhere = rows[counts == len(datasets)]
            values = everywhere.pivot(index="dataset", columns="method", values="value")
            values = values.reindex(index=datasets, columns=everywhere["method"].unique())
            keys = dict(zip(CELL, cell, strict=True))
            tables.append(leave_one_out(values, best).assign(**keys))
    return pd.concat(tables, ignore_index=True).assign(dataset=AVERAGE, part="without")


def variance_components(values: pd.DataFrame) -> pd.DataFrame:
    """Return the variance of a sample's AUC, by where it comes from.

    The total is the variance between samples, the Monte Carlo variance of each sample's mean over
    its draws, and an upper bound of rounding. The first is what the others leave of the total; as
    a difference of estimates it may come out below 0.

    Args:
        values: samples of one dataset by :data:`KEYS`.
    """
    tables = []
    for metric, (area, draws) in VARIANCES.items():
        if area in values.columns.unique("metric"):
            present = values[area].notna()
            sources = {
                "total": values[area].var(),
                "monte_carlo": values[draws].where(present).mean(),
                "numerical": (values[NUMERICAL].where(present) ** 2).mean(),
            }
            parts = pd.DataFrame(sources).where(present.sum() > 1)
            parts["between_samples"] = parts["total"] - parts["monte_carlo"] - parts["numerical"]
            rows = parts.rename_axis(columns="part").stack(future_stack=True).rename("value")
            rows = rows.to_frame().join(present.sum().rename("n"))
            tables.append(rows.reset_index().assign(metric=metric))
    return pd.concat(tables) if tables else pd.DataFrame(columns=[*KEYS, "part", "value", "n"])
