"""`pisoft.evaluate` returns the same numbers, to the bit, as a run stores."""

from __future__ import annotations

import pandas as pd
import pytest

import pisoft
from helpers.shared_runs import GRID
from pisoft.api.evaluation import NUMBERS
from pisoft.store.cells import read_prompts

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

COLUMNS = ["value", "low", "high", "n", "n_failed"]


@pytest.mark.parametrize("method", ["random", "attention", "saliency"])
def test_evaluate_returns_the_numbers_and_curves_of_a_run(finished_once, method):
    data = finished_once.folder / "results/tiny/data"
    answer = pisoft.evaluate(
        finished_once.folder / "toy-model",
        read_prompts(data / "prompts/toy/toy-sentiment.parquet"),
        method,
        pi_grid=GRID,
        draws=2,
        block_size=2,
    )
    keys = {"method": method, "dataset": "toy-sentiment", "protocol": "dynamic"}
    for kind, metrics in (("statistics", NUMBERS), ("curves", ("pi_soft_ns", "pi_soft_nc"))):
        stored = pd.read_parquet(data / f"summary/{kind}.parquet")
        stored = stored[(stored[[*keys]] == pd.Series(keys)).all(axis="columns")]
        for metric in metrics:
            run_rows = stored[stored["metric"] == metric].sort_values("position")[COLUMNS]
            returned = answer[answer["metric"] == metric][COLUMNS]
            assert len(returned) in (1, 3)
            pd.testing.assert_frame_equal(
                returned.reset_index(drop=True),
                run_rows.reset_index(drop=True),
                check_exact=True,
                check_dtype=False,
            )
