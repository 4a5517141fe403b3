"""Every number of the tables with its uncertainty: intervals, ranks, tests, sources of variance.

Each cell (metric, protocol and model) has two families of tests: methods against the control, and
all pairs of the others. Pairs with the best alone would ignore that the same numbers picked it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from pisoft.config.jobs.summaries import UncertaintyJob
from pisoft.statistics.estimates import (
    FEWEST_FOR_INTERVAL,
    TESTED,
    Estimates,
    estimate,
    paired_tests,
)
from pisoft.statistics.intervals import CONFIDENCE
from pisoft.statistics.metric_agreement import resampled_agreement
from pisoft.statistics.metrics import (
    AUC_METRICS,
    AVERAGE,
    CONTROL,
    DECIMALS,
    METRICS,
    TOKENS_CHANGED,
)
from pisoft.statistics.orders import leave_one_out, ranks
from pisoft.statistics.reading import Files, Summary
from pisoft.statistics.results import in_both_orders
from pisoft.statistics.samples import Samples, sample_matrix
from pisoft.statistics.soft import NOISE_METRICS
from pisoft.store.parquet import OK, read_table
from pisoft.store.schemas import SCHEMAS

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
COUNTED = ("identity", "lds_given_count", "deletion_auc", "rise", "top_1_in_evidence")
NOISE = ("identity", *NOISE_METRICS)
SAMPLE_METRICS = {
    *(name for m in METRICS.values() for name in (m.numerator, m.denominator) if name),
    *(name for pair in VARIANCES.values() for name in pair),
    NUMERICAL,
}
OPTIONAL = {"protocol", "reason"}  # texts that not all samples have


def summaries(files: Files, settings: UncertaintyJob) -> dict[str, Summary]:
    """Return one file of each kind of statistic, from the samples of all metrics.

    Files are `soft_samples.parquet` and, if any, those of ranking, evidence and datamodel samples.
    """
    paths, clusters = files["samples"], files.clusters()
    reported, components = {}, []
    for dataset in settings.datasets:  # one at a time, as all samples may be many
        columns = [*KEYS, "sample_id", "value", "status"]
        rows = read_samples(paths, SAMPLE_METRICS, columns, pc.field("dataset") == dataset)
        rows = rows[rows["sample_id"].notna()]  # the others say why a dataset has no samples
        if len(rows):
            values = sample_matrix(rows, KEYS)
            failed = rows.assign(failed=rows["status"] != OK).groupby(KEYS)["failed"].sum()
            failed = failed.reindex(values.columns)
            medians = settings.pi_per_step is None
            reported[dataset] = reported_samples(values, failed, clusters, medians=medians)
            components += variance_components(values, dataset)
    ranked, agreements, tested = [], [], []
    for model_samples in by_datasets(reported):
        estimates = estimate(model_samples, settings)
        ranked += [with_ranks(part).assign(dataset=name) for name, part in estimates.items()]
        family, margin = [*CELL, "with_control"], settings.equivalence_margin
        agreements += [
            rows.assign(dataset=name, part="kendall_tau")
            for name, part in estimates.items()
            for rows in resampled_agreement(part, TOKENS_CHANGED, AUC_METRICS)
        ]
        tested.append(paired_tests(differences(model_samples), settings, family, margin))
    statistics = pd.concat(ranked, ignore_index=True)
    comparisons = pd.concat(tested)
    return {
        "statistics": [with_p_values(statistics, comparisons).drop(columns=RANKS)],
        "comparisons": [comparisons.drop(columns="with_control")],
        "ranks": [*rank_rows(statistics), *averages_without(statistics), *agreements],
        "variance_components": components,
        "coverage": [coverage(paths)],
        "noise": [noise(paths)],
    }


def by_datasets(datasets: Mapping[str, Samples]) -> list[dict[str, Samples]]:
    """Split samples so that all models of a part have the same datasets, as averages need them.

    `datasets` are samples by dataset; `model` is a level of their columns.
    """
    datasets_of: dict[str, list[str]] = {}
    for name, samples in datasets.items():
        for model in samples.numerators.columns.unique("model"):
            datasets_of.setdefault(model, []).append(name)
    models_with: dict[tuple[str, ...], list[str]] = {}
    for model, names in datasets_of.items():
        models_with.setdefault(tuple(names), []).append(model)
    return [
        {name: datasets[name].for_models(models) for name in names}
        for names, models in models_with.items()
    ]


def rank_rows(statistics: pd.DataFrame) -> list[pd.DataFrame]:
    """Return rank, mean rank and share of first ranks as rows of their own."""
    ranked = statistics.dropna(subset="rank")
    keys = ranked[[*KEYS, "dataset", "n", "n_clusters", "n_failed"]]
    interval = {"low": ranked["rank_low"], "high": ranked["rank_high"]}
    parts = [keys.assign(part="rank", value=ranked["rank"], **interval)]
    parts += [keys.assign(part=name, value=ranked[name]) for name in ("mean_rank", "best_share")]
    return parts


def coverage(paths: Sequence[Path]) -> pd.DataFrame:
    """Return how many samples of each cell have which status, by a metric of each kind."""
    keys = ["protocol", "model", "dataset", "method", "metric", "status", "reason"]
    counts = read_samples(paths, COUNTED, keys).groupby(keys, sort=False).size()
    rows = counts.rename("value").reset_index()
    return rows.rename(columns={"status": "part", "reason": "text"})


def noise(paths: Sequence[Path]) -> pd.DataFrame:
    """Return the mean and the largest size of what rounding alone changes, by model."""
    keys = ["protocol", "model", "metric"]
    rows = read_samples(paths, NOISE, [*keys, "value"], pc.field("status") == OK)
    sizes = rows.assign(value=rows["value"].abs()).dropna()
    groups = sizes.groupby(keys, sort=False)["value"]
    return groups.agg(value="mean", high="max", n="size").reset_index()


def read_samples(
    paths: Sequence[Path],
    metrics: Collection[str],
    columns: Sequence[str],
    where: pc.Expression | None = None,
) -> pd.DataFrame:
    """Return samples of some metrics in the order of the files, with texts as categories.

    `protocol` and `reason` are "" where a file, named after its kind, or a row has none.

    Raises:
        BenchmarkError: an unreadable file.
    """
    in_metrics = pc.field("metric").isin(list(metrics))
    where = in_metrics if where is None else in_metrics & where
    types = {name: pa.float64() if name == "value" else pa.string() for name in columns}
    tables = [pa.schema(types).empty_table()]
    for path in paths:
        names = [name for name in columns if name in SCHEMAS[path.stem].names]
        tables.append(read_table(path, path.stem, names, where))
    joined = pa.concat_tables(tables, promote_options="default")  # null where there is none
    rows = joined.to_pandas(strings_to_categorical=True)
    texts = {name: rows[name].cat.add_categories("").fillna("") for name in OPTIONAL & {*columns}}
    return rows.assign(**texts)


def reported_samples(
    values: pd.DataFrame, failed: pd.Series, clusters: Mapping[str, str], *, medians: bool
) -> Samples:
    """Return a dataset's samples of every reported metric; without `medians`, no medians."""
    keys = values.columns.to_frame(index=False)
    metric_keys = [
        keys[keys["metric"] == metric.numerator].assign(metric=name, over=metric.denominator)
        for name, metric in METRICS.items()
        if medians or not metric.median
    ]
    chosen = pd.concat(metric_keys)
    columns = pd.MultiIndex.from_frame(chosen[KEYS])
    numerators = values.iloc[:, chosen.index].set_axis(columns, axis="columns")
    denominators = numerators.notna().astype(float)
    for metric, rows in chosen.groupby("over"):
        over = pd.MultiIndex.from_frame(rows[KEYS].assign(metric=metric))
        denominators[pd.MultiIndex.from_frame(rows[KEYS])] = values[over].to_numpy()
    is_median = [METRICS[name].median for name in chosen["metric"]]
    failed = failed.iloc[chosen.index].set_axis(columns)
    return Samples(numerators, denominators, failed, is_median, clusters)


def with_ranks(estimates: Estimates) -> pd.DataFrame:
    """Return every number with its rank and :data:`RANKS`, and the `best` method of its cell."""
    table = estimates.table().assign(**dict.fromkeys(["rank", *RANKS], np.nan), best=None)
    tails = np.round([(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], DECIMALS)  # exactly 0.025
    for (metric, *_), rows in table.groupby(CELL):
        ranked = rows.index[rows["value"].notna()]
        best = METRICS[str(metric)].best
        if best is None or ranked.empty:
            continue
        placed = ranks(estimates.replicates.to_numpy()[:, ranked], best)
        rank, resampled = placed[0], placed[1:]
        low, high = np.nanquantile(resampled, tails, axis=0, method="inverted_cdf")
        first = resampled == np.fmin.reduce(resampled, axis=1, keepdims=True)
        varying = estimates.counts["fewest"].to_numpy()[ranked] >= FEWEST_FOR_INTERVAL
        rank_statistics = [low, high, np.nanmean(resampled, axis=0), first.mean(axis=0)]
        table.loc[ranked, "rank"] = rank
        table.loc[ranked, RANKS] = np.where(varying, rank_statistics, np.nan).T
        table.loc[rows.index, "best"] = table.loc[ranked[rank.argmin()], "method"]
    return table


def differences(datasets: Mapping[str, Samples]) -> dict[str, Samples]:
    """Return the differences of every two methods of a cell on the samples that both have.

    A dataset that has a metric, but lacks a method of another dataset, has no such difference.
    """
    columns = [samples.numerators.columns for samples in datasets.values()]
    every = columns[0].append(columns[1:]).unique().to_frame()
    every = every[[METRICS[name].compared for name in every["metric"]]]
    by_dataset = {}
    for dataset, samples in datasets.items():
        present = every["metric"].isin(samples.numerators.columns.unique("metric"))
        keys = every[present].reset_index(drop=True)
        cells = keys.groupby(CELL, sort=False).indices.values()
        pairs = [pair for cell in cells for pair in combinations(cell, 2)]
        first, second = np.array(pairs, dtype=int).reshape(-1, 2).T
        pair_keys = keys.iloc[first].assign(other=keys["method"].to_numpy()[second])
        pair_keys["with_control"] = (pair_keys[["method", "other"]] == CONTROL).any(axis="columns")
        names, index = pd.MultiIndex.from_frame(pair_keys), samples.numerators.index
        numerators, denominators = (
            frame.reindex(columns=pd.MultiIndex.from_frame(keys)).to_numpy()
            for frame in (samples.numerators, samples.denominators)
        )
        by_dataset[dataset] = Samples(
            pd.DataFrame(numerators[:, first] - numerators[:, second], index, names),
            pd.DataFrame(denominators[:, first], index, names),
            pd.Series(0, index=names),
            clusters=samples.clusters,
        )
    return by_dataset


def with_p_values(statistics: pd.DataFrame, comparisons: pd.DataFrame) -> pd.DataFrame:
    """Add each method's p-values against the best of its cell; none for the best itself."""
    keys = [*CELL, "dataset", "method"]
    both = in_both_orders(comparisons)[[*keys, "other", *TESTED]]
    both = both.rename(columns={"other": "best"})
    return statistics.merge(both, on=[*keys, "best"], how="left", validate="one_to_one")


def averages_without(statistics: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield means and ranks over all datasets and, as `other`, without each of them."""
    single = statistics[statistics["dataset"] != AVERAGE]
    for cell, rows in single.groupby(CELL, sort=False):
        best = METRICS[str(cell[0])].best
        if best is not None:
            values = rows.set_index(["dataset", "method"])["value"].unstack(sort=False)
            # A method of some datasets alone would come and go with the one that is left out.
            everywhere = values.notna().all()
            keys = dict(zip(CELL, cell, strict=True)) | {"dataset": AVERAGE, "part": "without"}
            yield leave_one_out(values.loc[:, everywhere], best).assign(**keys)


def variance_components(values: pd.DataFrame, dataset: str) -> list[pd.DataFrame]:
    """Return the variance of a sample's AUC, by where it comes from.

    The total is the variance between samples, the Monte Carlo variance of each sample's mean over
    its draws, and an upper bound of rounding. The first is what the others leave of the total; as
    a difference of estimates it may come out below 0.

    `values` are samples of one dataset by :data:`KEYS`.
    """
    tables = []
    for metric, (area, draws) in VARIANCES.items():
        if area in values.columns.unique("metric"):
            present = values[area].notna()
            parts = pd.DataFrame(
                {
                    "total": values[area].var(),
                    "monte_carlo": values[draws].where(present).mean(),
                    "numerical": (values[NUMERICAL].where(present) ** 2).mean(),
                }
            )
            parts = parts.where(present.sum() > 1)
            parts["between_samples"] = parts["total"] - parts["monte_carlo"] - parts["numerical"]
            parts = parts.assign(metric=metric, n=present.sum(), dataset=dataset).reset_index()
            rows = parts.set_index([*KEYS, "dataset", "n"]).rename_axis(columns="part")
            tables.append(rows.stack(future_stack=True).rename("value").reset_index())
    return tables
