"""What the models answered, summarised."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from pisoft.config.slices.summaries import RunSlice
from pisoft.contracts import OK, read_table
from pisoft.errors import BenchmarkError
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
    asked, answered = read_table(prompts, "prompts"), read_table(generations, "generations")
    same_place = prompts.parts[-2:] == generations.parts[-2:]
    if (
        not same_place
        or asked.column("sample_id").to_pylist() != answered.column("sample_id").to_pylist()
    ):
        raise BenchmarkError(f"{generations}: holds other samples than {prompts}; {REPAIR}")
    ok = pc.equal(answered.column("status"), OK)
    asked, answered = asked.filter(ok), answered.filter(ok)
    return {
        "model": generations.parts[-2],
        "dataset": generations.stem,
        "n": answered.num_rows,
        "n_failed": len(ok) - answered.num_rows,
        "truncated": pc.sum(asked.column("truncated"), min_count=0).as_py(),
        "accuracy": pc.mean(answered.column("correct")).as_py(),
        "greedy_is_label": pc.mean(answered.column("greedy_is_label")).as_py(),
        "mean_prompt_tokens": pc.mean(pc.list_value_length(asked.column("input_ids"))).as_py(),
        "mean_output_tokens": pc.mean(pc.list_value_length(answered.column("output_ids"))).as_py(),
    }
