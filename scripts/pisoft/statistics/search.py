"""The best of random masks: what stands for an oracle where no evidence is known.

Masks of the control `search` are drawn without scores, and all that belong to one π keep the same
number of a step's tokens. At every step and π, with k the tokens kept at π, of m,

- π-Soft-NS is that of the least distance of all masks drawn that keep k tokens,
- π-Soft-NC is that of the largest distance of all that remove k.

Masks of both metrics count for both, and so do those of any other π that keep, or remove, as many:
on a symmetric grid twice as many as are drawn for one metric. A single mask is a score vector of 0
and 1 with the same mean as the methods' scores, so the best possible scores of one π are at least
as good. It is no oracle: the more masks, the better the best of them; it may be another one at
every π; and of many tokens, random masks find few of the good ones.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from pisoft.columns import SCHEMAS
from pisoft.config.base import Clamp
from pisoft.config.slices import SummariseSlice
from pisoft.curves import auc
from pisoft.faithfulness.metrics import soft_nc, soft_ns
from pisoft.statistics.reading import Files, Summary
from pisoft.statistics.soft import sample_rows
from pisoft.statistics.soft_files import Cell, Steps, read_soft

MASKS = "masks"  # fewest that the best is of, at any step and π of a sample
SAME_COUNT = 1e-6  # tokens; what calibration leaves of a whole number
Settings = SummariseSlice


def summaries(files: Files, settings: SummariseSlice) -> dict[str, Summary]:
    """Return one file of samples, from the `soft` files of the control."""
    cells = [best_of_cell(path, settings.minimum_h0, settings.clamp) for path in files["soft"]]
    return {"soft_samples": pa.concat_tables([SCHEMAS["soft_samples"].empty_table(), *cells])}


def best_of_cell(path: Path, minimum_h0: float, clamp: Clamp) -> pa.Table:
    """Return the `soft_samples` rows of one file: both areas by the best masks, and their number.

    Raises:
        BenchmarkError: as :func:`pisoft.statistics.soft_files.read_soft`.
    """
    rows, grid, steps = read_soft(path, minimum_h0)
    ns, nc, masks = best_distances(steps)
    h0 = steps.h0[:, None]
    curves = {
        "auc_pi_soft_ns": soft_ns(h0, ns[..., None], clamp),
        "auc_pi_soft_nc": soft_nc(h0, nc[..., None]),
    }  # (G, P)
    areas = {name: auc(grid, of) if len(of) else np.empty(0) for name, of in curves.items()}
    means = pd.DataFrame(areas).groupby(steps.sample).mean()
    means[MASKS] = pd.Series(masks, dtype=np.float64).groupby(steps.sample).min()
    return sample_rows(Cell.of(path), rows, means)


def best_distances(steps: Steps) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the best distance of any mask with the right number of tokens, at every step and π.

    Returns:
        The least for π-Soft-NS, (G, P), the largest for π-Soft-NC, (G, P), and of how many masks
        they are at least, (G,).
    """
    tokens = steps.perturbable[:, None]
    by_score = steps.achieved[:, 1:] * tokens  # (G, P): kept by NS, removed by NC
    kept = np.concatenate([by_score, tokens - by_score], axis=1)  # of all masks, (G, 2P)
    distances = np.concatenate([steps.ns[:, 1:], steps.nc[:, 1:]], axis=1)  # (G, 2P, K)

    def fitting(wanted: np.ndarray) -> np.ndarray:  # (G, P, 2P)
        return np.abs(wanted[..., None] - kept[:, None]) < SAME_COUNT

    for_ns, for_nc = fitting(by_score), fitting(tokens - by_score)
    least, largest = distances.min(axis=-1)[:, None], distances.max(axis=-1)[:, None]
    lines = np.minimum(for_ns.sum(axis=-1), for_nc.sum(axis=-1))  # (G, P)
    return (
        np.where(for_ns, least, np.inf).min(axis=-1),
        np.where(for_nc, largest, -np.inf).max(axis=-1),
        distances.shape[-1] * lines.min(axis=-1, initial=np.iinfo(int).max),
    )
