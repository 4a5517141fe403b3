"""What the models answered, summarised."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

from pisoft.config.slices import RunSlice
from pisoft.contracts import OK
from pisoft.errors import BenchmarkError
from pisoft.relations import read_generations, read_prompts
from pisoft.statistics.reading import REPAIR, Files, Summary

Settings = RunSlice


def summaries(files: Files, settings: RunSlice) -> dict[str, Summary]:
    """Return one row for each model and dataset, from their prompts and generations."""
    prompts, generations = files["prompts"], files["generations"]
    if len(prompts) != len(generations):
        raise BenchmarkError(
            f"--files: {len(generations)} of kind 'generations' for {len(prompts)} of 'prompts'"
        )
    return {"accuracy": accuracy_rows(zip(prompts, generations, strict=True))}


def accuracy_rows(cells: Iterable[tuple[Path, Path]]) -> list[dict[str, Any]]:
    """Summarise what the models answered, as rows of kind `accuracy`.

    All numbers are over the ok samples, `n` of them: `truncated` counts shortened prompts,
    `accuracy` is the share of correct preferred labels among samples with a known label, and
    `greedy_is_label` the share whose unconstrained greedy token is a label word. Both are null for
    open generation.

    Args:
        cells: `prompts` file and `generations` file `…/{model}/{dataset}.parquet` of every model
            and dataset.

    Raises:
        BenchmarkError: an unreadable file, or two files that hold different samples.
    """
    return [_accuracy_row(*cell) for cell in cells]


def _accuracy_row(prompts: Path, generations: Path) -> dict[str, Any]:
    if prompts.parts[-2:] != generations.parts[-2:]:
        raise BenchmarkError(f"{generations}: is of another cell than {prompts}; {REPAIR}")
    asked = read_prompts(prompts)
    answered = read_generations(generations, prompts, asked)
    ok = [pair for pair in zip(asked, answered, strict=True) if pair[1]["status"] == OK]
    return {
        "model": generations.parts[-2],
        "dataset": generations.stem,
        "n": len(ok),
        "n_failed": len(answered) - len(ok),
        "truncated": sum(prompt["truncated"] for prompt, _ in ok),
        "accuracy": _mean(answer["correct"] for _, answer in ok),
        "greedy_is_label": _mean(answer["greedy_is_label"] for _, answer in ok),
        "mean_prompt_tokens": _mean(len(prompt["input_ids"]) for prompt, _ in ok),
        "mean_output_tokens": _mean(len(answer["output_ids"]) for _, answer in ok),
    }


def _mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are known; None if none is."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
