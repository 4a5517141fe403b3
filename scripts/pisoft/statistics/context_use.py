"""Recovery of the used evidence, by length of the text and depth of the evidence in it.

Records count if their answer provably depends on one of their planted statements
(:mod:`pisoft.statistics.evidence`). Rows are means over all samples of a dataset, whose texts have
one length, and, as part `depth`, over samples with the evidence in one fifth of the text. Averages
weigh the datasets of a generator (`other`) equally.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pisoft.config.jobs.summaries import ContextUseJob
from pisoft.statistics.estimates import estimate_cells
from pisoft.statistics.metrics import DEPTH, RECALL, RECALL_BY_CHANCE, TOKENS
from pisoft.statistics.reading import Files, Summary
from pisoft.statistics.samples import sample_matrix

METRICS = (RECALL, "evidence_auprc")
BY_CHANCE = dict(zip(METRICS, (RECALL_BY_CHANCE, "auprc_by_chance"), strict=True))
DEPTHS = (0.1, 0.3, 0.5, 0.7, 0.9)  # middles of the fifths
ALL, BY_DEPTH = "all", "depth"
KEYS = ["model", "other", "part", "position"]


def summaries(files: Files, settings: ContextUseJob) -> dict[str, Summary]:
    """Return one file, from the samples of datasets with planted statements."""
    cells: dict[tuple[Any, ...], pd.DataFrame] = {}
    samples = files.rows("evidence_samples")
    samples = samples[samples["dataset"].isin(settings.tasks)]
    for (model, dataset), rows in samples.groupby(["model", "dataset"], sort=False):
        task, values = settings.tasks[dataset], sample_matrix(rows, ["metric", "method"])
        has_row = values.columns.isin([*METRICS, *BY_CHANCE.values(), TOKENS], level="metric")
        cells[model, task, ALL, "", dataset] = values.loc[:, has_row]
        fifths = values[DEPTH].mean(axis="columns").map(fifth_of).rename("position")
        for position, fifth_values in values.loc[:, has_row].groupby(fifths):
            cells[model, task, BY_DEPTH, position, dataset] = fifth_values
    return {"context_use": estimate_cells(cells, settings, files.clusters(), KEYS)}


def fifth_of(depth: float) -> float:
    """Return the middle of the fifth of the text that contains a depth; NaN stays NaN."""
    return depth if np.isnan(depth) else DEPTHS[min(int(depth * len(DEPTHS)), len(DEPTHS) - 1)]
