"""After how many records of a run a comparison was decided."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from decide import CONFIG_FOLDER, _saved, decisions, main, parser, verdicts_by_test
from pisoft.errors import BenchmarkError

CLIPS = {"auc_pi_soft_ns": 1.0}
CELL = {"protocol": "dynamic", "model": "m", "dataset": "d", "metric": "auc_pi_soft_ns"}


def decided(against: str, clips: dict[str, float] = CLIPS) -> pd.DataFrame:
    """Return decisions on 300 records, whose names are not in the order of sampling."""
    rng = np.random.default_rng(1)
    means = {"random": 0.2, "good": 0.6, "poor": 0.2}
    rows = [
        {**CELL, "sample_id": f"d/{300 - n}", "method": name, "value": value}
        for name, mean in means.items()
        # The good one is no better than random scores for the last half of the records.
        for n, value in enumerate(
            np.where(np.arange(300) < 150, mean, 0.2) + rng.normal(0, 0.1, 300)
        )
    ]
    rows += [{**CELL, "metric": "h0", "sample_id": "d/1", "method": "good", "value": 9.0}]
    return decisions(pd.DataFrame(rows), against, clips, alpha=0.05, margin=0.0, pool=None)


def test_a_good_method_is_decided_early_and_a_poor_one_stays_open() -> None:
    good, poor = decided("random").to_dict("records")
    assert (good["method"], good["other"], good["verdict"]) == ("good", "random", "higher")
    assert good["records"] < 60
    assert 0 <= good["low"] < 0.4 < good["high"]
    assert (poor["verdict"], poor["records"], poor["of"]) == ("open", 300, 300)


def test_a_leader_that_records_choose_is_compared_as_strictly_as_all_pairs_are() -> None:
    leader, every = (decided(name).set_index(["method", "other"]) for name in ("leader", "all"))
    assert [*leader.index] == [("random", "good"), ("poor", "good")]
    assert len(every) == 3
    assert (leader["verdict"] == "lower").all()
    assert leader.loc[("random", "good"), "records"] == every.loc[("random", "good"), "records"]
    assert leader["records"].iloc[0] > decided("random")["records"].iloc[0]


def test_verdicts_stand_beside_those_of_the_test_over_all_records() -> None:
    table = decided("leader")
    pairs = [("good", "random", 0.2, 0.01), ("poor", "good", -0.2, 0.05), ("random", "poor", 1, 0)]
    names = ["method", "other", "value", "p_adjusted"]
    comparisons = pd.DataFrame([{**CELL, **dict(zip(names, pair, strict=True))} for pair in pairs])
    table["by_test"] = verdicts_by_test(table, comparisons)
    assert [*zip(table["method"], table["by_test"], strict=True)] == [
        ("random", "lower"),
        ("poor", "open"),
    ]
    assert _saved(table).endswith("1 of the 1 differences that the test over all records finds")


def test_unknown_methods_are_named() -> None:
    message = "against: unknown method 'god'; did you mean 'good'\\? allowed: all, good, leader, "
    with pytest.raises(BenchmarkError, match=message):
        decided("god")
    with pytest.raises(BenchmarkError, match="against: nothing to compare with 'good'"):
        decided("good", {"ndcg": 1.0})


def test_a_run_that_measures_a_part_of_the_grid_is_refused() -> None:
    given = ["--configfile", str(CONFIG_FOLDER / "config.yaml")]
    given += ["--config", "evaluation={preset: sparse}"]
    with pytest.raises(BenchmarkError, match="pi_per_step: records that are measured"):
        main(parser().parse_args(given))
