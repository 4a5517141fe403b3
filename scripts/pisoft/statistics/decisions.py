"""The number of records after which each comparison of methods in a run was decided.

Records are processed one by one, in the order of sampling. A pair of methods has two parts:

- "" (empty): the mean clipped difference when the comparison was decided, or over all records, with
  its confidence sequence; n is the number of records until then, text the verdict on the method,
  and p Holm's p-value, valid after every record.
- by_test: the mean difference over all n records of both methods, tested as in the tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pandas as pd

from pisoft.config.jobs.summaries import DecisionsJob
from pisoft.errors import BenchmarkError
from pisoft.statistics.metrics import AUC_METRICS, CONTROL, LEVEL
from pisoft.statistics.reading import Files, Summary
from pisoft.statistics.results import in_both_orders
from pisoft.statistics.samples import sample_matrix
from pisoft.statistics.sequential import decide

CELL = ["protocol", "model", "dataset", "metric"]
BY_TEST = "by_test"
OPEN, NOT_SIGNIFICANT = "open", "not significant"  # by the sequence, by the test
NOT_TESTED = "not tested"  # without a common record


def summaries(files: Files, settings: DecisionsJob) -> dict[str, Summary]:
    """Return one file, from the samples and the tests of a run."""
    rows = files.rows("soft_samples")
    rows = rows[rows["metric"].isin(AUC_METRICS) & ~rows["dataset"].isin(settings.clustered)]
    tables = [
        table for _, cell in rows.groupby(CELL, sort=False) for table in decisions(cell, settings)
    ]
    decided = pd.concat([pd.DataFrame(columns=[*CELL, "method", "other", "available"]), *tables])
    tested = by_test(decided, files.rows("comparisons"))
    return {"decisions": [decided.drop(columns="available"), tested]}


def decisions(rows: pd.DataFrame, settings: DecisionsJob) -> Iterator[pd.DataFrame]:
    """Yield the decision of each comparison of a cell.

    The leader is the method with the best mean over all records. Because it is chosen from the
    data, its comparisons are corrected over all pairs.

    Args:
        rows: rows of `soft_samples` of the cell, in the order of sampling.
        settings: which methods are compared, and how.

    Raises:
        BenchmarkError: the pool is smaller than the number of records.
    """
    values = sample_matrix(rows, ["method"])
    values.columns = values.columns.get_level_values("method")
    pairs = tested = list(combinations(values.columns, 2))
    if settings.against != "all_pairs":
        fixed = values.mean().idxmax() if settings.against == "leader" else CONTROL
        tested = [(name, fixed) for name in values.columns if name != fixed]
        if fixed not in values.columns:
            return
    if not tested:
        return
    cell = rows[CELL].iloc[0].to_dict()
    pool = settings.pool.get(cell["dataset"])
    if pool is not None and pool < len(values):
        raise BenchmarkError(
            f"stop.pool.{cell['dataset']}: {pool} records are fewer than the {len(values)} that "
            "were read"
        )
    first, second = (list(names) for names in zip(*tested, strict=True))
    family = len(pairs) if settings.against == "leader" else len(tested)
    decided = decide(
        values[first].to_numpy() - values[second].to_numpy(),
        settings.clip_nc if cell["metric"] == "auc_pi_soft_nc" else settings.clip_ns,
        LEVEL,
        family,
        settings.margin or 0,
        pool,
    )
    yield decided.assign(**cell, method=first, other=second)


def by_test(decided: pd.DataFrame, comparisons: pd.DataFrame) -> pd.DataFrame:
    """Return the result of the test over all records for each comparison of :func:`decisions`."""
    keys = [*CELL, "method", "other"]
    both = in_both_orders(comparisons)[[*keys, "value", "p_adjusted"]]
    joined = decided[[*keys, "available"]].merge(both, on=keys, how="left", validate="one_to_one")
    p_values = joined["p_adjusted"].astype(float)
    significant = p_values < LEVEL
    higher = significant & (joined["value"].astype(float) > 0)
    verdicts = np.select(
        [higher, significant, p_values.isna()], ["higher", "lower", NOT_TESTED], NOT_SIGNIFICANT
    )
    return joined.rename(columns={"available": "n"}).assign(part=BY_TEST, text=verdicts)
