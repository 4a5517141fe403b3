"""How far each method is on the way from random scores to the best that is known.

Of a metric: (mean of the method − mean of random scores) / (mean of the best − mean of random
scores), over the samples that have a value for all three; 0 is no better than random scores, 1 is
as good as the best. That is, on records with evidence, the oracle, which knows it; and, if the run
searches, the best of random masks (:mod:`pisoft.statistics.search`), which no single scores need
reach. The scale is not bounded: a model may decide by other tokens than the evidence, and there are
better masks than those that were drawn. Intervals are percentiles of a bootstrap over samples,
which resamples both differences together. There is no value where the interval of the best one's
difference to random scores reaches down to 0, as a ratio over nearly nothing says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from pisoft.columns import SCHEMAS
from pisoft.config.slices.summaries import ResamplingSlice
from pisoft.config.trust import SEARCH
from pisoft.keyed import keyed_generator
from pisoft.statistics.bootstrap import CONFIDENCE, resampled_ratios
from pisoft.statistics.controls import ORACLE, control_values
from pisoft.statistics.metrics import CONTROL
from pisoft.statistics.reading import Files, Summary
from pisoft.statistics.search import MASKS

ENDS = (ORACLE, SEARCH)
TAIL = (1 - CONFIDENCE) / 2
Settings = ResamplingSlice


def summaries(files: Files, settings: ResamplingSlice) -> dict[str, Summary]:
    """Return one file, from the samples of methods and controls."""
    rows: list[dict[str, Any]] = []
    samples = files.rows("soft_samples")
    searched = samples[samples["metric"] == MASKS].dropna(subset="value")
    by_cell = searched.groupby(["protocol", "model", "dataset"])["value"]
    fewest = by_cell.min().astype(int).to_dict()
    for cell, values in control_values(files, known=ENDS):
        if cell.pop("pi") is not None:
            continue
        for end in ENDS:
            if end in values:
                masks = fewest.get((cell["protocol"], cell["model"], cell["dataset"]))
                of_end = {**cell, "end": end, "masks": masks if end == SEARCH else None}
                found = oracle_scale(values, settings, tuple(cell.values()), end)
                rows += [{**of_end, **row} for row in found]
    schema = SCHEMAS["oracle_scale"]
    frame = pd.DataFrame(rows, columns=schema.names)
    return {"oracle_scale": pa.Table.from_pandas(frame, schema=schema, preserve_index=False)}


def oracle_scale(
    values: pd.DataFrame, settings: ResamplingSlice, key: Sequence[object], end: str = ORACLE
) -> Iterator[dict[str, Any]]:
    """Yield a row per method and control, without what says which metric it is.

    Args:
        values: a row per sample, a column per method and control; higher is better, NaN failed.
        settings: seed and number of resamples.
        key: of the samples that are drawn anew.
        end: the control that has a share of 1.
    """
    for method in values.columns.drop([CONTROL, end]):
        known = values[[method, CONTROL, end]].dropna()
        ways = known[[method, end]].sub(known[CONTROL], axis="index").to_numpy()
        numbers = dict.fromkeys(("value", "low", "high"), np.nan)
        generator = keyed_generator(settings.seed, "oracle scale", *key)
        drawn = resampled_ratios(ways, np.ones_like(ways), generator, settings.resamples)
        if len(known) > 1 and np.quantile(drawn[:, 1], TAIL) > 0:
            numbers["value"] = ways[:, 0].sum() / ways[:, 1].sum()
            shares = drawn[:, 0] / drawn[:, 1]
            numbers["low"], numbers["high"] = np.quantile(shares, [TAIL, 1 - TAIL])
        yield {"method": method, **numbers, "n": len(known), "n_failed": len(values) - len(known)}
