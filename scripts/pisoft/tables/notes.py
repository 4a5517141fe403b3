"""The notes below tables: texts of `templates/notes.toml`, and notes computed from results."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pisoft.config.base import Clamp
from pisoft.config.evaluation import CLAMPS
from pisoft.config.jobs.displays import DisplayJob
from pisoft.config.studies import SELECTED_METHODS
from pisoft.statistics.layer_study import DEVELOPMENT, REST, SMALLEST_PART
from pisoft.statistics.metrics import AVERAGE, LEVEL, METRICS, SHARES
from pisoft.statistics.results import select
from pisoft.statistics.timings import AGREEMENT
from pisoft.store.parquet import OK, meanings
from pisoft.views.view import Keys, Results

TEXTS = tomllib.loads((Path(__file__).parent / "templates/notes.toml").read_text("utf-8"))
FAMILIES: str = TEXTS["families"]
FEW, SKEWED = 50, 2.0  # of samples: fewer, and more skewed ones have poor intervals


def text(name: str, **numbers: Any) -> str:
    """Return a text of `templates/notes.toml`, filled with numbers."""
    return " ".join(TEXTS[name].split()).format(level=LEVEL, families=FAMILIES, **numbers)


def about(name: str, **numbers: Any) -> str:
    """Return the explanation of a table's numbers, with a pointer to the docs."""
    return f"{text(name, **numbers)} {TEXTS['more']}"


# What is computed -------------------------------------------------------------------------------


def marks(results: Results, margin: float | None) -> list[str]:
    """Explain brackets, bold and signs, and the power of the tests.

    `results` are methods with tests against the best; `margin` is that of equivalence, if tested.
    """
    explained = [text("marks")]
    if results.rows["metric"].isin(SHARES).any():
        explained[0] += f" {text('shares')}"
    rows = results.rows[results.rows["p_adjusted"].notna()]
    if len(rows):
        smallest = _span(rows["p_smallest"], 1)
        by = ", by number of samples" if " to " in smallest else ""
        detectable = rows.loc[rows["p_adjusted"] >= LEVEL, "detectable"].dropna()
        by_entry = ", by entry" if len({*detectable}) > 1 else ""
        power = (
            f" ≈ does not mean equal: the smallest difference found with 80 % power is "
            f"{_span(detectable, 2)}{by_entry} (`detectable` in the CSV)."
        )
        reach = f"The smallest attainable p-value is {smallest}{by}."
        explained.append(reach + (power if len(detectable) else ""))
    if margin is not None:
        explained.append(text("equivalent", margin=margin))
    return [*explained, poor_intervals(results), clusters(results)]


def poor_intervals(results: Results) -> str:
    """Count intervals from few, skewed samples, and say where most are; empty if there are none."""
    rows = results.rows[(results.rows["dataset"] != AVERAGE) & results.rows["skewness"].notna()]
    rows = rows[~rows["metric"].isin(SHARES)]
    n = rows["n_clusters"].fillna(rows["n"])  # independent samples
    poor = rows[(n < FEW) & (rows["skewness"].abs() * np.sqrt(n) > SKEWED)]
    if poor.empty:
        return ""
    metric, dataset = poor.groupby(["metric", "dataset"]).size().idxmax()
    return (
        f"{len(poor)} of the {len(rows)} intervals of single datasets rest on few, skewed samples "
        f"(n < {FEW}, skewness above {SKEWED:g}; mostly {METRICS[metric].name} on "
        f"{results.datasets[dataset]}). In simulations, such 95 % intervals cover the mean in 91 "
        "to 95 % of cases."
    )


def _span(numbers: pd.Series, digits: int) -> str:
    """Return the smallest and the largest number, such as `0.03 to 0.1`, or the only one."""
    return " to ".join(dict.fromkeys(f"{end:.{digits}g}" for end in (numbers.min(), numbers.max())))


def clamp(where: Clamp) -> str:
    """Say where Soft-NS is clamped at 0."""
    unbounded = (
        " It may be negative, and a sample whose zero baseline hardly changes the prediction "
        "(small H₀) can then dominate a mean: see the other statistics."
    )
    return f"Soft-NS is {CLAMPS[where]}." + (unbounded if where == "none" else "")


def sparse(settings: DisplayJob, name: str, **numbers: Any) -> str:
    """Return a text for runs that measure only some retaining probabilities of each step."""
    measured = settings.pi_per_step
    return "" if measured is None else text(name, measured=measured, **numbers)


# Samples ----------------------------------------------------------------------------------------


def samples(results: Results) -> str:
    """Count the samples behind each dataset's numbers, and the failed ones."""
    counts = results.rows.groupby("dataset").agg({"n": ["min", "max"], "n_failed": "max"})
    listed = []
    for name, label in results.datasets.items():
        fewest, most, failed = counts.loc[name]
        n = f"{most}" if fewest == most else f"{fewest} to {most}, by method"
        listed.append(f"{label} {n}" + (f" (at most {failed} failed)" if failed else ""))
    return f"Samples per dataset: {'; '.join(listed)}. {clusters(results)}".rstrip()


def clusters(results: Results) -> str:
    """Count the clusters of samples, where they are fewer than the samples."""
    counts, labels = results.rows.groupby("dataset")["n_clusters"].max().dropna(), results.datasets
    listed = ", ".join(f"{label} {counts[d]:.0f}" for d, label in labels.items() if d in counts)
    if not listed:
        return ""
    return f"Clusters of samples, treated as independent by intervals and tests: {listed}."


def averages(coverage: Results) -> list[str]:
    """Explain average, rank and selected depths, and name methods without an average."""
    rows, failures = coverage.rows, _failures(coverage.rows)
    evaluated = rows[rows["part"] == OK].set_index(["dataset", "method"]).index
    mean = "Average: mean over the datasets, each with equal weight. Rank: by Average;"
    rank = mean if len(coverage.datasets) > 1 else "Rank: 1 is best;"
    notes = [f"{rank} methods with equal values before rounding share a rank."]
    for method, label in coverage.methods.items():
        lacking = [
            f"{dataset_label}: {failures.get((dataset, method), 'no samples')}"
            for dataset, dataset_label in coverage.datasets.items()
            if (dataset, method) not in evaluated
        ]
        if lacking:
            notes.append(f"No average for {label}, no sample evaluated ({'; '.join(lacking)}).")
    is_selected = set(SELECTED_METHODS.values()) & set(coverage.methods)
    return [*notes, text("selected")] if is_selected else notes


def sample_counts(coverage: Results) -> list[str]:
    """Count samples and failed samples by one metric, with reasons."""
    rows, methods, failures = coverage.rows, coverage.methods, _failures(coverage.rows)
    totals = rows.groupby(["dataset", "method"])["value"].sum().groupby("dataset").max()
    listed = ", ".join(f"{label} {totals[name]:.0f}" for name, label in coverage.datasets.items())
    failed = []
    for dataset, dataset_label in coverage.datasets.items():
        reasons = {name: failures[dataset, name] for name in methods if (dataset, name) in failures}
        for reason in dict.fromkeys(reasons.values()):
            affected = [methods[name] for name in reasons if reasons[name] == reason]
            who = "all methods" if len(affected) == len(methods) else ", ".join(affected)
            failed.append(f"{dataset_label} ({who}): {reason}")
    why = meanings(rows["part"])
    outcome = f"Failed samples, left out of the means: {'; '.join(failed)} ({why})."
    return [f"Samples per dataset: {listed}.", outcome if failed else "No sample failed."]


def left_out(coverage: Results) -> list[str]:
    """Name the datasets without samples of the metric, with reasons."""
    reasons = coverage.rows[coverage.rows["text"] != ""].drop_duplicates("dataset")
    return [
        f"Left out: {coverage.datasets[row.dataset]}, because {row.text}."
        for row in reasons.itertuples()
    ]


def _failures(rows: pd.DataFrame) -> dict[tuple[str, str], str]:
    """Return failures by dataset and method, such as `2 nonfinite_attribution`."""
    listed: dict[tuple[str, str], list[str]] = {}
    for row in rows[rows["part"] != OK].sort_values("part").itertuples():
        listed.setdefault((row.dataset, row.method), []).append(f"{row.value:.0f} {row.part}")
    return {cell: ", ".join(parts) for cell, parts in listed.items()}


def depth_samples(results: Results, lines: Mapping[str, Keys]) -> list[str]:
    """Count samples and failed samples of the layer study, and name cells without a value."""
    counts = results.rows.groupby(["dataset", "method", "part"]).first()
    samples, failed, missing = {}, [], []
    for label, keys in lines.items():
        cell = counts.loc[keys["dataset"], keys["method"]]
        sizes = cell["n"] + cell["n_failed"]
        samples[keys["dataset"]] = f"{sizes[DEVELOPMENT]} + {sizes[REST]}"
        if failures := cell.loc[DEVELOPMENT, "text"]:
            failed.append(f"{label}: {failures}")
        development, rest = cell["n"][[DEVELOPMENT, REST]]
        if min(development, rest) < SMALLEST_PART:
            missing.append(
                f"No value for {label}: {development} development samples and {rest} others could "
                f"be evaluated, and each part needs {SMALLEST_PART}."
            )
    listed = ", ".join(f"{label} {samples[name]}" for name, label in results.datasets.items())
    outcome = f"Samples that failed at some depth, left out at every depth: {'; '.join(failed)}."
    return [
        f"Samples, development + rest: {listed}.",
        outcome if failed else "No sample failed.",
        *missing,
    ]


def timings(results: Results, baselines: Collection[str]) -> list[str]:
    """Explain times and memory, and name the device; baselines are never the fastest."""
    excepted = ", ".join(label for name, label in results.methods.items() if name in baselines)
    on_device = results.rows.loc[results.rows["metric"] == "peak_device_memory_mb", "value"].notna()
    memory = {
        "memory allocated on the device during attribution, the model included": on_device.any(),
        "resident memory of the whole job, loading the model included": not on_device.all(),
    }
    return [
        text("timings", excepted=f", {excepted} excepted" if excepted else ""),
        f"Memory: peak {' or '.join(text for text, applies in memory.items() if applies)}.",
        f"Measured on: {', '.join(results.rows['text'].unique())}. Times hold for this machine "
        "and vary between runs.",
    ]


def float32_agreement(results: Results) -> str:
    """State the agreement of scores in half precision with float32; empty without repetitions."""
    rows = select(results.rows, metric=AGREEMENT)
    if rows.empty:
        return ""
    sums = rows.assign(value=rows["value"] * rows["n"]).groupby("method")[["value", "n"]].sum()
    agreements = "; ".join(
        f"{label} {sums['value'][name] / sums['n'][name]:.3f} (n = {sums['n'][name]:.0f})"
        for name, label in results.methods.items()
        if name in sums.index
    )
    return text("float32_agreement", agreements=agreements)


def without_row(labels: Sequence[str], why: str) -> str:
    """Name the methods without a row, if any."""
    return f"Without a row, because {why}: {', '.join(labels)}." if labels else ""


# Orders of methods ------------------------------------------------------------------------------


def orders(results: Results, alternatives: Mapping[str, str]) -> list[str]:
    """Count the ranked methods, and name the alternatives without a number, with reasons."""
    rows = results.select(dataset=results.summary).rows
    counts = rows.loc[(rows["other"] == "n_methods") & (rows["value"] > 0), "value"]
    ends = dict.fromkeys(f"{n:.0f}" for n in (counts.min(), counts.max())) if len(counts) else "0"
    counted = (
        f"The last two columns are for {results.with_average[results.summary]}. "
        f"Methods ranked: {' to '.join(ends)}."
    )
    lacking = rows[(rows["other"] == "") & (rows["text"] != "")].drop_duplicates(["part", "text"])
    reasons = [
        f"{', '.join(alternatives[name] for name in names)} ({reason})"
        for reason, names in lacking.groupby("text", sort=False)["part"]
    ]
    return [counted, f"Not computed: {'; '.join(reasons)}."] if reasons else [counted]
