"""The scores of all methods by step, for figures and comparisons of methods."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from pisoft.config.base import Normalisation
from pisoft.config.evaluation import ScoreSettings
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.scores import evaluated, normalise
from pisoft.statistics.reading import REPAIR, Files
from pisoft.store.cells import check_scores, read_prompts
from pisoft.store.parquet import OK, read_table
from pisoft.store.scope import perturbable_positions


@dataclass(frozen=True)
class StepScores:
    """The scores of every method for one evaluated step.

    Attributes:
        prompt: the sample's row of `prompts`.
        step: index of the generated token, 0 for the first.
        perturbable: prompt positions that a perturbation may touch, (m,).
        raw: by method with an ok status, raw scores of all prompt tokens, (prompt tokens,).
        status: by method, `ok` or the reason why there are no scores.
    """

    prompt: Mapping[str, Any]
    step: int
    perturbable: np.ndarray
    raw: Mapping[str, np.ndarray]
    status: Mapping[str, str]
    normalisation: Normalisation

    def scores(self, method: str) -> np.ndarray:
        """Return a method's scores of the perturbable tokens, in [0, 1], (m,)."""
        return normalise(self.raw[method][self.perturbable], self.normalisation)


def read_scores(
    prompts: Path, attributions: Iterable[Path], settings: ScoreSettings, samples: int | None = None
) -> Iterator[StepScores]:
    """Read the scores of one model and dataset, step by step in the order of the samples.

    `settings` turn raw scores into scores; `samples` limits the number of samples.

    Raises:
        BenchmarkError: an unreadable file, or one with other samples than the prompts.
    """
    rows_of_prompts = {row["sample_id"]: row for row in read_prompts(prompts)[:samples]}
    in_prompts = pc.field("sample_id").isin(pa.array([*rows_of_prompts], pa.string()))
    by_step: dict[tuple[str, int], dict[str, Any]] = {}  # rows by method
    for path in attributions:
        rows = read_table(path, "attributions", where=in_prompts)
        if missing := set(rows_of_prompts) - set(rows["sample_id"].to_pylist()):
            raise BenchmarkError(f"{path}: lacks sample '{min(missing)}' of {prompts}; {REPAIR}")
        for row in _evaluated(rows.to_pandas(), settings):
            check_scores(path, row, rows_of_prompts[row["sample_id"]])
            method_rows = by_step.setdefault((row["sample_id"], row["step"]), {})
            if path.parts[-2] in method_rows:
                raise BenchmarkError(
                    f"{path}: sample '{row['sample_id']}': step {row['step']} occurs twice; "
                    f"{REPAIR}"
                )
            method_rows[path.parts[-2]] = row
    order = {sample_id: index for index, sample_id in enumerate(rows_of_prompts)}
    for sample_id, step in sorted(by_step, key=lambda key: (order[key[0]], key[1])):
        method_rows = by_step[sample_id, step]
        yield StepScores(
            prompt=rows_of_prompts[sample_id],
            step=step,
            perturbable=perturbable_positions(rows_of_prompts[sample_id], settings.scope),
            raw={
                method: row["raw_scores"].astype(np.float64)
                for method, row in method_rows.items()
                if row["status"] == OK
            },
            status={method: row["status"] for method, row in method_rows.items()},
            normalisation=settings.normalisation,
        )


def read_methods(
    files: Files, settings: ScoreSettings
) -> Iterator[tuple[str, str, str, Iterator[StepScores]]]:
    """Yield model, method and dataset of each `attributions` file, and its steps."""
    prompts = {(path.parent.name, path.stem): path for path in files["prompts"]}
    for path in files["attributions"]:
        (model, method, _), dataset = path.parts[-3:], path.stem
        yield model, method, dataset, read_scores(prompts[model, dataset], [path], settings)


def steps_by_sample(steps: Iterable[StepScores]) -> Iterator[tuple[str, list[StepScores]]]:
    """Yield the id and the steps of each sample; steps of a sample must be adjacent."""
    for sample_id, sample in itertools.groupby(steps, key=lambda step: step.prompt["sample_id"]):
        yield sample_id, list(sample)


def scores_by_sample(
    steps: Iterable[StepScores], method: str
) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Yield the id of each sample, and a method's scores (m,) at every step with scores."""
    for sample_id, sample in steps_by_sample(steps):
        yield sample_id, [step.scores(method) for step in sample if method in step.raw]


def _evaluated(table: pd.DataFrame, settings: ScoreSettings) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of an `attributions` table to evaluate, with the scores to evaluate."""
    aggregates = settings.step_scores == "aggregated"  # of one sample
    samples = table.groupby("sample_id", sort=False) if aggregates else [("", table)]
    for _, rows in samples:
        yield from evaluated(rows.to_dict("records"), settings)
