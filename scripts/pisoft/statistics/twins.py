"""What a method's scores gain over their permuted twins: the same scores, shuffled over the tokens.

π-Soft gives all scores the same mean, but not the same shape: few high scores make other masks
than many middling ones. A twin has the method's shape and none of its choice of tokens. Of one
sample, the gain is the method's value less the mean over its twins. Rows are means over samples of
a method's own value (`own`), its twins' (`twin`), and the gain, which is tested against 0; all
three are over the samples that have a gain.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import pyarrow as pa

from pisoft.columns import SCHEMAS
from pisoft.config.slices.summaries import TwinsSlice
from pisoft.statistics.means import mean_rows, sign_flip_rows, with_tests
from pisoft.statistics.reading import Files, Summary

METRICS = ("auc_pi_soft_ns", "auc_pi_soft_nc", "soft_ns", "soft_nc")
FAMILY = ["metric"]
GAIN = "gain"
Settings = TwinsSlice


def summaries(files: Files, settings: TwinsSlice) -> dict[str, Summary]:
    """Return one file, from the samples of methods and of their twins."""
    samples = files.rows("soft_samples")
    samples = samples[samples["metric"].isin(METRICS)]
    schema = SCHEMAS["twins"]
    tables = [schema.empty_table()]
    for (protocol, model), own in samples.groupby(["protocol", "model"], sort=False):
        if set(own["method"]) & set(settings.twins):
            rows = gains(own, settings.twins, settings.seed, settings.resamples)
            rows = rows.assign(protocol=protocol, model=model)[schema.names]
            tables.append(pa.Table.from_pandas(rows, schema=schema, preserve_index=False))
    return {"twins": pa.concat_tables(tables).replace_schema_metadata(None)}


def gains(
    samples: pd.DataFrame, twins: Mapping[str, str], seed: int, resamples: int
) -> pd.DataFrame:
    """Return `twins` rows of one protocol and model, but for these two columns.

    Args:
        samples: `soft_samples` rows of methods and of their twins.
        twins: the method that each twin is of.
        seed: of the run.
        resamples: bootstrap resamples, and sign flips of a test.
    """
    found = samples[samples["method"].isin(list(twins))]
    frames = {
        str(name): _of_dataset(own, samples[samples["dataset"] == name], twins)
        for name, own in found.groupby("dataset", sort=False)
    }
    of_gain = {
        name: frame.loc[:, frame.columns.get_level_values("part") == GAIN]
        for name, frame in frames.items()
    }
    tests = sign_flip_rows(of_gain, seed, resamples, FAMILY)
    return with_tests(mean_rows(frames, seed, resamples), tests)


def _of_dataset(
    of_twins: pd.DataFrame, samples: pd.DataFrame, twins: Mapping[str, str]
) -> pd.DataFrame:
    """Return a row per sample and a column per metric, method and part."""
    keys = ["metric", "method"]
    named = of_twins.assign(method=of_twins["method"].map(twins))
    # A sample that one of the twins failed on has no mean over them.
    groups = named.groupby(["sample_id", *keys])["value"]
    twin = groups.mean().where(groups.count() == groups.size()).unstack(keys)
    own = samples.pivot(index="sample_id", columns=keys, values="value")[twin.columns]
    gain = own - twin
    parts = {"own": own.where(gain.notna()), "twin": twin.where(gain.notna()), GAIN: gain}
    table = pd.concat(parts, axis="columns", names=["part"])
    return table.reorder_levels([*keys, "part"], axis="columns")
