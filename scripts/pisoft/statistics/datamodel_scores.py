"""What the draws that a run has stored say of every method, without a further forward.

Each draw of the soft metrics keeps some tokens, zeroes the others, and stores by how much the
log-probability of the target changes, Δ = log p(perturbed) − log p(clean). Here all methods are
held against the draws of *random* scores, whose masks favour none of the others: those of Soft-NS
and of Soft-NC, at every π and at α = 1, N in all. Masks are not stored but drawn again from their
keys.

With e the masks (1: kept) and s a method's scores of one step, the kept mass of a mask is
Σ e_i s_i, the removed mass Σ (1 − e_i) s_i, and the drop −Δ. Over the N masks:

- lds: Spearman's ρ of kept mass and Δ, the linear datamodeling score (Ilyas et al. 2022, Park et
  al. 2023), here of tokens;
- lds_given_count: the same given how many tokens are kept: partial correlation of the ranks. Over
  many π the number alone explains much, and scores that are all equal would have a high lds;
- faithfulness_correlation: Pearson's r of removed mass and drop (Bhatt et al. 2020);
- infidelity: min over β of the mean of (β · removed mass − drop)², divided by the mean of drop²
  (Yeh et al. 2019, with the optimal scale), from 0, the best, to 1.

A metric is undefined for a step where the masks are fewer than three, or where what is correlated
does not vary. A sample's value is the mean over its steps that have one.

Random scores are no fair control of these metrics, as the masks are of their own making. What they
keep of themselves is high with Soft-NS and low with Soft-NC whatever the count, so their LDS is
below that of other random scores; given the count it is 0 on average, but scatters more.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from scipy.stats import rankdata

from pisoft.columns import SCHEMAS
from pisoft.config.slices import DatamodelSlice
from pisoft.contracts import (
    CONSTANT_CHANGES,
    CONSTANT_SCORES,
    NONFINITE_LOGITS,
    OK,
    TOO_FEW_MASKS,
    check_inputs,
    read_table,
)
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.calibration import retaining_probabilities
from pisoft.faithfulness.masks import kept_tokens, masks_of
from pisoft.statistics.metrics import CONTROL
from pisoft.statistics.reading import REPAIR, Files, Summary
from pisoft.statistics.scores import StepScores, read_scores

METRICS = ("lds", "lds_given_count", "faithfulness_correlation", "infidelity")
FEWEST_MASKS = 3
# Masses are rounded to so many decimals. Masks of equal mass are ties then, in whichever order a
# matrix product has added them up, which depends on the machine and on the methods beside.
DECIMALS = 9
NOTHING_LEFT = 1e-12  # share of the ranks' variation; less is rounding
SAME_MEAN = 1e-9  # as calibration promises

Settings = DatamodelSlice


@dataclass(frozen=True)
class StepDraws:
    """The stored draws of random scores at one step: a line for α = 1, then one for each π.

    Attributes:
        status: `ok`, or why there are no draws.
        alpha: power of the scores at every π, (P,).
        achieved: mean of the scores that masks were drawn with, (1 + P,).
        ns, nc: changes of the log-probability by the draws of both metrics, (1 + P, K).
    """

    status: str
    alpha: np.ndarray
    achieved: np.ndarray
    ns: np.ndarray
    nc: np.ndarray

    @property
    def changes(self) -> np.ndarray:
        """All changes in the order of :func:`rebuilt_masks`, (N,)."""
        return np.concatenate([self.ns.ravel(), self.nc.ravel()])


def summaries(files: Files, settings: DatamodelSlice) -> dict[str, Summary]:
    """Return one file of samples, from prompts, all scores, and `soft` files of random scores."""
    attributions, soft = _by_cell(files["attributions"]), _by_cell(files["soft"])
    tables = [SCHEMAS["datamodel_samples"].empty_table()]
    for path in files["prompts"]:
        cell = (path.parts[-2], path.stem)
        tables += cell_samples(path, attributions[cell], soft[cell], settings)
    return {"datamodel_samples": pa.concat_tables(tables)}


def cell_samples(
    prompts: Path, attributions: Sequence[Path], soft: Sequence[Path], settings: DatamodelSlice
) -> list[pa.Table]:
    """Return `datamodel_samples` tables of one model and dataset, one per protocol and method.

    Args:
        prompts: `prompts` file.
        attributions: `attributions` files `…/{model}/{method}/{dataset}.parquet`, that of random
            scores among them.
        soft: `soft` files `…/{protocol}/{model}/random/{dataset}.parquet`.
        settings: how scores became masks.

    Raises:
        BenchmarkError: an unreadable file, draws that were made with other scores, or a step
            without draws.
    """
    methods = [path.parts[-2] for path in attributions]
    control = attributions[methods.index(CONTROL)]
    draws = {path: read_draws(path, control, settings.pi_grid) for path in soft}
    steps = read_scores(prompts, attributions, settings)
    identifiers = []
    found: dict[Path, list[tuple[np.ndarray, np.ndarray]]] = {path: [] for path in soft}
    for sample_id, sample in itertools.groupby(steps, key=lambda step: step.prompt["sample_id"]):
        identifiers.append(sample_id)
        of_sample = list(sample)
        for path, known in draws.items():
            found[path].append(
                _sample([_step(step, methods, path, known, settings) for step in of_sample])
            )
    return [
        _table(path, method, identifiers, [(v[:, at], s[:, at]) for v, s in samples])
        for path, samples in found.items()
        for at, method in enumerate(methods)
    ]


def read_draws(
    path: Path, attributions: Path, grid: Sequence[float]
) -> dict[tuple[str, int], StepDraws]:
    """Read a `soft` file's changes of the log-probability, by sample and step.

    Args:
        path: the file.
        attributions: the scores that it was made from.
        grid: of the retaining probabilities.

    Raises:
        BenchmarkError: an unreadable file, one of other scores, or a step that lacks a retaining
            probability or a draw.
    """
    check_inputs(path, attributions=attributions)
    measured = ("ns_log_probability_changes", "nc_log_probability_changes")
    plain = ("sample_id", "step", "pi", "status", "alpha", "achieved")
    table = read_table(path, "soft", [*plain, *measured])
    columns = {name: table.column(name).to_pylist() for name in plain}
    ns, nc = (_lists(table.column(name)) for name in measured)
    found = {}
    keys = zip(columns["sample_id"], columns["step"], strict=True)
    for key, group in itertools.groupby(enumerate(keys), key=lambda line: line[1]):
        rows = [row for row, _ in group]
        if [columns["pi"][row] for row in rows] != [None, *grid] or key in found:
            raise BenchmarkError(
                f"{path}: sample '{key[0]}': step {key[1]} lacks or repeats a retaining "
                f"probability; {REPAIR}"
            )
        failed = [columns["status"][row] for row in rows if columns["status"][row] != OK]
        changes = [[of_metric[row] for row in rows] for of_metric in (ns, nc)]
        numbers = [[columns[name][row] for row in rows] for name in ("alpha", "achieved")]
        if failed:
            changes = numbers = [[], []]
        elif any(None in of_rows for of_rows in numbers) or any(
            len({line.size for line in lines}) > 1 or not lines[0].size for lines in changes
        ):
            raise BenchmarkError(
                f"{path}: sample '{key[0]}': step {key[1]} is ok, but lacks draws; {REPAIR}"
            )
        finite = all(np.isfinite(line).all() for lines in changes for line in lines)
        found[key] = StepDraws(
            failed[0] if failed else OK if finite else NONFINITE_LOGITS,
            np.array(numbers[0][1:], dtype=np.float64),
            np.array(numbers[1], dtype=np.float64),
            *(np.array(lines, dtype=np.float64) for lines in changes),
        )
    return found


def rebuilt_masks(
    scores: np.ndarray, draws: StepDraws, settings: DatamodelSlice, sample_id: str, step: int
) -> np.ndarray:
    """Return the masks that draws were made with, those of Soft-NS first.

    Args:
        scores: that they were drawn with, (m,).
        draws: what has been stored of them, (1 + P, K) each.
        settings: of the evaluation.
        sample_id, step: the key of their random numbers.

    Returns:
        Whether a token is kept, (N, m), N = (1 + P) · (K of Soft-NS + K of Soft-NC).
    """
    probabilities = retaining_probabilities(scores, draws.alpha, settings.score_floor)
    drawn = masks_of(
        settings.sampler,
        settings.seed,
        sample_id,
        step,
        (scores.size, 1),
        draws.alpha.size,
        settings.most_draws,
    )
    most = max(draws.ns.shape[1], draws.nc.shape[1])
    kept = np.array(
        [
            [kept_tokens(drawn, probabilities, line, draw)[:, 0] for draw in range(most)]
            for line in range(len(probabilities))
        ]
    )  # (1 + P, K, m)
    ns, nc = kept[:, : draws.ns.shape[1]], ~kept[:, : draws.nc.shape[1]]
    return np.concatenate([ns.reshape(-1, scores.size), nc.reshape(-1, scores.size)])


def of_masks(masks: np.ndarray, scores: np.ndarray, changes: np.ndarray) -> np.ndarray:
    """Return the numbers of :data:`METRICS` of one step, NaN where they are undefined.

    Args:
        masks: whether a token is kept, (N, m).
        scores: of every method, (m, M).
        changes: of the target's log-probability, (N,).

    Returns:
        (4, M).
    """
    if len(masks) < FEWEST_MASKS:
        return np.full((len(METRICS), scores.shape[1]), np.nan)
    kept = np.round(masks.astype(np.float64) @ scores, DECIMALS)  # (N, M)
    removed = np.round(scores.sum(axis=0) - kept, DECIMALS)
    drop = -changes[:, None]  # (N, 1)
    kept_ranks, change_ranks = rankdata(kept, axis=0), rankdata(changes)[:, None]
    count_ranks = rankdata(masks.sum(axis=1))[:, None]
    given = _given(kept_ranks, count_ranks), _given(change_ranks, count_ranks)
    return np.stack(
        [
            correlation(kept_ranks, change_ranks),
            correlation(*given),
            correlation(removed, drop),
            infidelity(removed, drop),
        ]
    )


def correlation(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return Pearson's r of the columns of x (N, M) with y (N, 1); NaN where one is constant."""
    undefined = _constant(x) | _constant(y)
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    scale = np.sqrt((x**2).sum(axis=0) * (y**2).sum(axis=0))
    found = (x * y).sum(axis=0) / np.where(undefined, 1.0, scale)
    return np.where(undefined, np.nan, np.clip(found, -1, 1))


def infidelity(removed: np.ndarray, drop: np.ndarray) -> np.ndarray:
    """Return what is left of the drop by the best multiple of the removed mass, as a share, (M,).

    The best multiple is β = Σ removed · drop / Σ removed², and leaves
    1 − (Σ removed · drop)² / (Σ removed² · Σ drop²) of Σ drop². NaN where removed mass or drop is
    the same for all masks.

    Args:
        removed: removed mass, (N, M).
        drop: of the log-probability, (N, 1).
    """
    undefined = _constant(removed) | _constant(drop)
    scale = (removed**2).sum(axis=0) * (drop**2).sum(axis=0)
    explained = (removed * drop).sum(axis=0) ** 2 / np.where(undefined, 1.0, scale)
    return np.where(undefined, np.nan, np.clip(1 - explained, 0, 1))


def _given(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return what the straight line on z (N, 1) leaves of the columns of x (N, M).

    It is 0 where the line leaves nothing but rounding.
    """
    x, z = x - x.mean(axis=0), z - z.mean(axis=0)
    variation = (z**2).sum()
    left = x if variation == 0 else x - z * ((x * z).sum(axis=0) / variation)
    return np.where((left**2).sum(axis=0) > NOTHING_LEFT * (x**2).sum(axis=0), left, 0.0)


def _constant(x: np.ndarray) -> np.ndarray:
    """Return which columns hold one number only."""
    return (x == x[0]).all(axis=0)


def _step(
    step: StepScores,
    methods: Sequence[str],
    path: Path,
    known: Mapping[tuple[str, int], StepDraws],
    settings: DatamodelSlice,
) -> tuple[np.ndarray, list[str]]:
    """Return a step's numbers (4, M), and by method why those that are NaN are undefined."""
    sample_id = step.prompt["sample_id"]
    if (sample_id, step.step) not in known:
        raise BenchmarkError(f"{path}: sample '{sample_id}': lacks step {step.step}; {REPAIR}")
    draws = known[sample_id, step.step]
    values = np.full((len(METRICS), len(methods)), np.nan)
    if draws.status != OK:
        return values, [_first_failure(step.status[name], draws.status) for name in methods]
    drawn_with = step.scores(CONTROL)
    masks = rebuilt_masks(drawn_with, draws, settings, sample_id, step.step)
    _check_same_scores(drawn_with, draws, settings, f"{path}: sample '{sample_id}'")
    scored = [name in step.raw for name in methods]
    scores = [step.scores(name) for name in methods if name in step.raw]
    values[:, scored] = of_masks(masks, np.stack(scores, axis=1), draws.changes)
    why = _why_undefined(draws.changes)
    return values, [_first_failure(step.status[name], why) for name in methods]


def _first_failure(*statuses: str) -> str:
    return next(status for status in statuses if status != OK)


def _why_undefined(changes: np.ndarray) -> str:
    if changes.size < FEWEST_MASKS:
        return TOO_FEW_MASKS
    return CONSTANT_CHANGES if (changes == changes[0]).all() else CONSTANT_SCORES


def _check_same_scores(
    scores: np.ndarray, draws: StepDraws, settings: DatamodelSlice, where: str
) -> None:
    """Refuse draws whose scores had other means than those that masks are drawn with again."""
    probabilities = retaining_probabilities(scores, draws.alpha, settings.score_floor)
    if np.abs(probabilities.mean(axis=1) - draws.achieved).max() > SAME_MEAN:
        raise BenchmarkError(f"{where}: its draws were made with other scores; {REPAIR}")


def _sample(steps: Sequence[tuple[np.ndarray, list[str]]]) -> tuple[np.ndarray, np.ndarray]:
    """Return a sample's numbers, means over the steps that have them, and statuses, (4, M) each."""
    values = np.stack([of_step for of_step, _ in steps])  # (steps, 4, M)
    known = np.isfinite(values)
    count = known.sum(axis=0)
    mean = np.where(known, values, 0.0).sum(axis=0) / np.maximum(count, 1)
    return (
        np.where(count > 0, mean, np.nan),
        np.where(count > 0, OK, np.array(steps[0][1], dtype=object)),
    )


def _table(
    path: Path,
    method: str,
    identifiers: Sequence[str],
    samples: Sequence[tuple[np.ndarray, np.ndarray]],
) -> pa.Table:
    """Return the rows of one protocol and method: of each sample, its numbers and statuses (4,)."""
    protocol, model, _, dataset = path.with_suffix("").parts[-4:]
    count = len(identifiers) * len(METRICS)
    values = np.array([value for value, _ in samples]).ravel()
    columns = {
        "protocol": [protocol] * count,
        "model": [model] * count,
        "method": [method] * count,
        "dataset": [dataset] * count,
        "sample_id": np.repeat(np.array(identifiers, dtype=object), len(METRICS)),
        "metric": [*METRICS] * len(identifiers),
        "value": pa.array(values, pa.float64(), from_pandas=True),  # NaN becomes null
        "status": [status for _, statuses in samples for status in statuses],
    }
    return pa.table(columns, schema=SCHEMAS["datamodel_samples"])


def _lists(column: pa.ChunkedArray) -> list[np.ndarray]:
    """Return the list of each row, of the table's memory; an empty one for null."""
    whole = column.combine_chunks()
    offsets, values = whole.offsets.to_numpy(), whole.values.to_numpy()
    return [values[first:last] for first, last in itertools.pairwise(offsets)]


def _by_cell(paths: Iterable[Path]) -> dict[tuple[str, str], list[Path]]:
    """Return files `…/{model}/{method}/{dataset}.parquet` by model and dataset."""
    found: dict[tuple[str, str], list[Path]] = {}
    for path in paths:
        found.setdefault((path.parts[-3], path.stem), []).append(path)
    return found
