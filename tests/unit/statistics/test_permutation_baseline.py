"""Gains over the permutation baseline against means by hand."""

import itertools

import pandas as pd
import pytest

from helpers import script_runs
from helpers.soft_files import soft_rows, soft_summaries
from pisoft.statistics.results import select
from pisoft.store.parquet import read_rows

NAMES = ("mine", "mine-permuted-1", "mine-permuted-2", "random")
STEPS = {"a": 1, "b": 2, "c": 1}


def results(folder, status=None):
    """The samples of random draws, the last permutation with a status; and the results."""
    rows = {
        name: soft_rows(STEPS, seed=seed, status=status if name == NAMES[2] else None)
        for seed, name in enumerate(NAMES)
    }
    files = {"soft_samples": soft_summaries(folder, rows)["soft_samples"]}
    settings = {"permuted": dict.fromkeys(NAMES[1:3], "mine"), "seed": 1, "resamples": 100}
    rows = script_runs.summary_rows("permutation_baseline", settings, files, folder)
    samples = read_rows(files["soft_samples"], "soft_samples")
    return pd.DataFrame(samples), pd.DataFrame(rows)


def test_gains_are_mean_differences_over_samples(tmp_path):
    samples, rows = results(tmp_path)
    assert set(rows["method"]) == {"mine"}
    wide_of = samples.pivot(index=["metric", "sample_id"], columns="method", values="value")
    for metric, dataset in itertools.product(rows["metric"].unique(), ("sst2", "average")):
        wide = wide_of.loc[metric]
        values = select(rows, metric=metric, dataset=dataset).set_index("part")["value"]
        permuted = wide[[*NAMES[1:3]]].mean(axis=1)
        assert values["method"] == pytest.approx(wide["mine"].mean())
        assert values["permuted"] == pytest.approx(permuted.mean())
        assert values["gain"] == pytest.approx((wide["mine"] - permuted).mean())
    gains = rows["part"] == "gain"
    assert rows.loc[gains, "p_adjusted"].between(0.25, 1).all(), "of three samples"
    assert rows.loc[~gains, "p_value"].isna().all()


def test_a_sample_with_a_failed_permutation_has_no_gain(tmp_path):
    _, rows = results(tmp_path, status={("a", 0): "nonfinite_logits"})
    assert (rows[["n", "n_failed"]] == [2, 1]).all(axis=None)
