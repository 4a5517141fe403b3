"""The off-distribution check: means over perturbed inputs, from rows to the summary."""

import itertools

import numpy as np
import pandas as pd
import pytest

from helpers import script_runs
from pisoft.faithfulness.inspection import CLEAN, READ
from pisoft.statistics.off_distribution import CLEAN_INPUT
from pisoft.statistics.results import select
from pisoft.store.parquet import write_rows

GRID = (0.1, 0.5, 0.95)
OPERATORS = ("zero", "hide")


def input_rows(samples, seed=0, labels=True):
    """Rows of samples with two steps each, the first with three; the last sample failed."""
    generator = np.random.default_rng(seed)
    rows, clean = [], {}
    steps = [*itertools.product(samples, (0, 5)), (samples[0], 10)]
    for (sample, step), operator, pi in itertools.product(steps, OPERATORS, GRID):
        failed = sample == samples[-1]
        numbers = {name: float(generator.random()) for name in (*READ, *CLEAN)}
        step_numbers = {name: numbers[name] for name in CLEAN_INPUT}
        numbers |= clean.setdefault((sample, step), step_numbers)
        if not labels:
            numbers |= {"label_probability": None, "clean_label_probability": None}
        status = "nonfinite_logits" if failed else "ok"
        row = {"sample_id": sample, "step": step, "operator": operator, "pi": pi}
        rows.append(row | (dict.fromkeys(numbers) if failed else numbers) | {"status": status})
    return rows


def summarised(paths, folder):
    settings = {"seed": 1, "resamples": 200}
    rows = script_runs.summary_rows("off_distribution", settings, {"inputs": paths}, folder)
    return pd.DataFrame(rows)


def test_means_are_over_samples_and_failures_are_counted(tmp_path):
    """For a dataset with label words and one with open text."""
    labelled = [*input_rows(["a", "b", "c"]), *input_rows(["d", "e"], seed=1)]
    files = {"sst2": labelled, "why": input_rows(["f", "g", "h"], seed=2, labels=False)}
    paths = [tmp_path / f"inputs/dynamic/llama/{name}.parquet" for name in files]
    for path, rows in zip(paths, files.values(), strict=True):
        write_rows(path, "inputs", rows, {})
    results = summarised(paths, tmp_path)
    assert set(results["dataset"]) == {"sst2", "why", "average"}
    sst2_rows = select(results, dataset="sst2")
    assert len(sst2_rows) == len({*READ, *CLEAN} - {*CLEAN_INPUT}) * len(OPERATORS) * len(GRID) + 2
    assert (sst2_rows[["n", "n_failed"]] == [3, 2]).all(axis=None)
    for row in sst2_rows.itertuples():
        name = f"clean_{row.metric}" if row.part else row.metric
        steps = {"a": [], "b": [], "d": []}
        for r in labelled:
            same = name in CLEAN_INPUT or (r["operator"], r["pi"]) == (row.operator, row.position)
            if same and r["status"] == "ok":
                steps[r["sample_id"]].append(r[name])
        assert row.value == pytest.approx(np.mean([np.mean(values) for values in steps.values()]))
        assert row.low <= row.value <= row.high
    assert select(results, dataset="why", metric="label_probability")["value"].isna().all()


def test_attention_on_hidden_keys_is_not_estimated(tmp_path):
    rows = input_rows(["a", "b", "c"])
    for row in rows:
        if row["operator"] == "hide" and row["status"] == "ok":
            row["attention"] = 0.0
    path = tmp_path / "inputs/dynamic/llama/sst2.parquet"
    write_rows(path, "inputs", rows, {})
    ablated = summarised([path], tmp_path).query("metric == 'attention' and part == ''")
    assert (ablated.query("operator == 'hide'")[["low", "high"]] == 0).all(axis=None)
    assert (ablated.query("operator == 'zero'").eval("high - low") > 0).all()
