"""The accuracy of the models' answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd

from pisoft.config.jobs.summaries import RunJob
from pisoft.errors import BenchmarkError
from pisoft.statistics.reading import REPAIR, Files, Summary
from pisoft.statistics.samples import share_rows
from pisoft.store.cells import read_pairs
from pisoft.store.parquet import OK, TOO_MANY_WORDS, read_table

SHARES = ("accuracy", "greedy_is_label")


def summaries(files: Files, settings: RunJob) -> dict[str, Summary]:
    """Return the numbers of each model and dataset, from their records, prompts and generations.

    `too_many_words` counts the records excluded for their length; all other numbers are over the ok
    samples. `truncated` counts shortened prompts. `accuracy` is the share of correct preferred
    labels among samples with a known label, `greedy_is_label` the share whose unconstrained greedy
    token is a label word; both have Wilson's 95 % interval, clustered if there are clusters, and no
    value for open generation. `mean_margin` is the lead of the answer's logit over the runner-up's,
    averaged over the steps of a sample and over samples.
    """
    prompts, generations = files["prompts"], files["generations"]
    if len(prompts) != len(generations):
        raise BenchmarkError(
            f"--files: {len(generations)} of kind 'generations' for {len(prompts)} of 'prompts'"
        )
    records = {path.stem: path for path in files["datasets"]}
    cells = zip(prompts, generations, strict=True)
    clusters = files.clusters()
    rows = [row for cell in cells for row in _rows(*cell, records[cell[0].stem], clusters)]
    return {"accuracy": [pd.DataFrame(rows)]}


def _rows(
    prompts: Path, generations: Path, records: Path, clusters: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    if prompts.parts[-2:] != generations.parts[-2:]:
        raise BenchmarkError(f"{generations}: is from another cell than {prompts}; {REPAIR}")
    pairs = read_pairs(prompts, generations)
    ok = [pair for pair in pairs if pair[1]["status"] == OK]
    measured = {
        "accuracy": [answer["correct"] for _, answer in ok],
        "greedy_is_label": [answer["greedy_is_label"] for _, answer in ok],
        "mean_margin": [fmean(answer["margins"]) for _, answer in ok if answer["margins"]],
        "truncated": [prompt["truncated"] for prompt, _ in ok],
        "mean_prompt_tokens": [len(prompt["input_ids"]) for prompt, _ in ok],
        "mean_output_tokens": [len(answer["output_ids"]) for _, answer in ok],
    }
    cell: dict[str, Any] = {"model": generations.parts[-2], "dataset": generations.stem}
    statuses = read_table(records, "datasets", ["status"]).column("status").to_pylist()
    too_long = statuses.count(TOO_MANY_WORDS)
    yield {**cell, "metric": TOO_MANY_WORDS, "value": too_long, "n": len(statuses)}
    for metric, values in measured.items():
        present = [value for value in values if value is not None]
        row = {**cell, "metric": metric, "n": len(present), "n_failed": len(pairs) - len(ok)}
        if metric == "truncated":
            row["value"] = sum(present)
        elif present:
            row["value"] = fmean(present)
        if metric in SHARES and present:
            by_sample = dict(zip((answer["sample_id"] for _, answer in ok), values, strict=True))
            hits = pd.DataFrame({metric: pd.Series(by_sample).dropna()}, dtype=float)
            row |= share_rows(hits, clusters)[["low", "high", "n_clusters"]].iloc[0]
        yield row
