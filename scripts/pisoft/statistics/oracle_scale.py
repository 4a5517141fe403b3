"""How far each method is on the way from random scores to the oracle, on records with evidence.

Of a metric: (mean of the method − mean of random scores) / (mean of the oracle − mean of random
scores), over the samples that have a value for all three; 0 is no better than random scores, 1 is
as good as scores that know the evidence. The scale is not bounded: a model may decide by other
tokens than the evidence. Intervals are percentiles of a bootstrap over samples, which resamples
both differences together. There is no value where the oracle's interval of its difference to random
scores reaches down to 0, as a ratio over nearly nothing says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pisoft.config.slices.summaries import ResamplingSlice
from pisoft.keyed import keyed_generator
from pisoft.statistics.bootstrap import CONFIDENCE, resampled_ratios
from pisoft.statistics.controls import ORACLE, control_values
from pisoft.statistics.metrics import CONTROL
from pisoft.statistics.reading import Files, Summary

TAIL = (1 - CONFIDENCE) / 2
Settings = ResamplingSlice


def summaries(files: Files, settings: ResamplingSlice) -> dict[str, Summary]:
    """Return one file, from the samples of methods and controls."""
    rows: list[dict[str, Any]] = []
    for cell, values in control_values(files):
        if cell.pop("pi") is None:
            found = oracle_scale(values, settings, tuple(cell.values()))
            rows += [{**cell, **row} for row in found]
    return {"oracle_scale": rows}


def oracle_scale(
    values: pd.DataFrame, settings: ResamplingSlice, key: Sequence[object]
) -> Iterator[dict[str, Any]]:
    """Yield a row per method and control, without what says which metric it is.

    Args:
        values: a row per sample, a column per method and control; higher is better, NaN failed.
        settings: seed and number of resamples.
        key: of the samples that are drawn anew.
    """
    for method in values.columns.drop([CONTROL, ORACLE]):
        known = values[[method, CONTROL, ORACLE]].dropna()
        ways = known[[method, ORACLE]].sub(known[CONTROL], axis="index").to_numpy()
        numbers = dict.fromkeys(("value", "low", "high"), np.nan)
        generator = keyed_generator(settings.seed, "oracle scale", *key)
        drawn = resampled_ratios(ways, np.ones_like(ways), generator, settings.resamples)
        if len(known) > 1 and np.quantile(drawn[:, 1], TAIL) > 0:
            numbers["value"] = ways[:, 0].sum() / ways[:, 1].sum()
            shares = drawn[:, 0] / drawn[:, 1]
            numbers["low"], numbers["high"] = np.quantile(shares, [TAIL, 1 - TAIL])
        yield {"method": method, **numbers, "n": len(known), "n_failed": len(values) - len(known)}
