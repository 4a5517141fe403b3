"""What the models answered, summarised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd
from statsmodels.stats.proportion import proportion_confint

from pisoft.config.slices import RunSlice
from pisoft.contracts import OK
from pisoft.errors import BenchmarkError
from pisoft.relations import read_generations, read_prompts
from pisoft.statistics.reading import REPAIR, Files, Summary
from pisoft.statistics.results import results_table

SHARES = ("accuracy", "greedy_is_label")
Settings = RunSlice


def summaries(files: Files, settings: RunSlice) -> dict[str, Summary]:
    """Return the numbers of each model and dataset, from their prompts and generations."""
    prompts, generations = files["prompts"], files["generations"]
    if len(prompts) != len(generations):
        raise BenchmarkError(
            f"--files: {len(generations)} of kind 'generations' for {len(prompts)} of 'prompts'"
        )
    rows = accuracy_rows(zip(prompts, generations, strict=True))
    return {"accuracy": results_table("accuracy", [rows])}


def accuracy_rows(cells: Iterable[tuple[Path, Path]]) -> pd.DataFrame:
    """Summarise what the models answered, as rows of `accuracy`.

    All numbers are over the ok samples: `truncated` counts shortened prompts, `accuracy` is the
    share of correct preferred labels among samples with a known label, and `greedy_is_label` the
    share whose unconstrained greedy token is a label word. Both shares have Wilson's 95 % interval,
    and no value for open generation.

    Args:
        cells: `prompts` file and `generations` file `…/{model}/{dataset}.parquet` of every model
            and dataset.

    Raises:
        BenchmarkError: an unreadable file, or two files that hold different samples.
    """
    return pd.DataFrame(row for cell in cells for row in _rows(*cell))


def _rows(prompts: Path, generations: Path) -> Iterator[dict[str, Any]]:
    if prompts.parts[-2:] != generations.parts[-2:]:
        raise BenchmarkError(f"{generations}: is of another cell than {prompts}; {REPAIR}")
    asked = read_prompts(prompts)
    answered = read_generations(generations, prompts, asked)
    ok = [pair for pair in zip(asked, answered, strict=True) if pair[1]["status"] == OK]
    measured = {
        "accuracy": [answer["correct"] for _, answer in ok],
        "greedy_is_label": [answer["greedy_is_label"] for _, answer in ok],
        "truncated": [prompt["truncated"] for prompt, _ in ok],
        "mean_prompt_tokens": [len(prompt["input_ids"]) for prompt, _ in ok],
        "mean_output_tokens": [len(answer["output_ids"]) for _, answer in ok],
    }
    for metric, values in measured.items():
        known = [value for value in values if value is not None]
        row: dict[str, Any] = {"n": len(known), "n_failed": len(answered) - len(ok)}
        if metric == "truncated":
            row["value"] = sum(known)
        elif known:
            row["value"] = fmean(known)
        if metric in SHARES and known:
            row["low"], row["high"] = proportion_confint(sum(known), len(known), method="wilson")
        yield {"model": generations.parts[-2], "dataset": generations.stem, "metric": metric, **row}
