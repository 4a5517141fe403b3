"""Number of records after which a comparison is decided."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from helpers import script_runs
from helpers.result_rows import result_row
from pisoft.errors import BenchmarkError
from pisoft.statistics.decisions import by_test
from pisoft.store.parquet import write_rows
from pisoft.store.schemas import SCHEMAS

METRIC = "auc_pi_soft_ns"
CELL = {"protocol": "dynamic", "model": "llama", "dataset": "sst2", "metric": METRIC}
SETTINGS: dict[str, Any] = {
    "against": "control", "margin": None, "clip_ns": 1, "clip_nc": 2, "pool": {}, "clustered": [],
}  # fmt: skip
TESTED = [("good", "random", 0.2, 0.01), ("poor", "good", -0.2, 0.05), ("random", "poor", 1, 0)]


def decided(folder: Path, **changed: Any) -> pd.DataFrame:
    """Return decisions on 300 records by pair and part; `good` is good only on the first half."""
    rng = np.random.default_rng(1)
    rows = [
        {**CELL, "sample_id": f"d/{300 - n}", "method": name, "value": value, "status": "ok"}
        for name, mean in {"random": 0.2, "good": 0.6, "poor": 0.2}.items()
        for n, value in enumerate(
            np.where(np.arange(300) < 150, mean, 0.2) + rng.normal(0, 0.1, 300)
        )
    ]
    rows.append({**rows[0], "metric": "h0", "value": 9.0})
    files = {kind: folder / f"{kind}.parquet" for kind in ("soft_samples", "comparisons")}
    write_rows(files["soft_samples"], "soft_samples", rows, {})
    tested = [
        result_row("comparisons", value, **CELL, method=method, other=other, p_adjusted=p)
        for method, other, value, p in TESTED
    ]
    write_rows(files["comparisons"], "comparisons", tested, {})
    made = script_runs.summary_rows("decisions", SETTINGS | changed, files, folder)
    rows = pd.DataFrame(made, columns=SCHEMAS["decisions"].names)
    return rows.set_index(["part", "method", "other"])


def test_clear_differences_are_decided_early_and_small_ones_stay_open(tmp_path: Path) -> None:
    rows = decided(tmp_path)
    good, poor = rows.loc["", "good", "random"], rows.loc["", "poor", "random"]
    assert (good["text"], poor["text"]) == ("higher", "open")
    assert good["n"] < 60
    assert 0 <= good["low"] < good["value"] < good["high"]
    assert good["value"] == pytest.approx(0.4, abs=0.1), "over the records read so far"
    assert good["p_adjusted"] <= 0.05 < poor["p_adjusted"]
    assert poor["n"] == 300
    assert set(rows.loc["by_test"]["n"]) == {300}


def test_a_leader_chosen_from_the_data_is_tested_like_all_pairs(
    tmp_path: Path,
) -> None:
    leader, every = (decided(tmp_path, against=name).loc[""] for name in ("leader", "all_pairs"))
    assert [*leader.index] == [("random", "good"), ("poor", "good")]
    assert len(every) == 3
    assert (leader["text"] == "lower").all()
    assert leader.loc[("random", "good"), "n"] == every.loc[("random", "good"), "n"]
    assert leader["n"].iloc[0] > decided(tmp_path).loc["", "good", "random"]["n"]


def test_verdicts_are_listed_beside_the_test_over_all_records(tmp_path: Path) -> None:
    tests = decided(tmp_path, against="leader").loc["by_test"]
    assert tests["text"].to_dict() == {
        ("random", "good"): "lower",
        ("poor", "good"): "not significant",
    }
    assert tests["value"].to_dict() == {("random", "good"): -0.2, ("poor", "good"): -0.2}


def test_methods_without_common_records_are_not_tested() -> None:
    decided = pd.DataFrame([{**CELL, "method": "a", "other": "b", "available": 0}])
    comparison = result_row("comparisons", 1.0, **CELL, method="c", other="b", p_adjusted=0.01)
    (row,) = by_test(decided, pd.DataFrame([comparison])).to_dict("records")
    assert (row["text"], row["n"]) == ("not tested", 0)


@pytest.mark.parametrize(
    ("changed", "smaller"), [({"margin": 0.5}, False), ({"pool": {"sst2": 300}}, True)]
)
def test_a_margin_or_a_finite_population_decides_more(
    tmp_path: Path, changed: dict[str, Any], smaller: bool
) -> None:
    before, after = decided(tmp_path), decided(tmp_path, **changed)
    pair = ("", "poor", "random")
    width = {
        name: rows.loc[pair, "high"] - rows.loc[pair, "low"]
        for name, rows in (("before", before), ("after", after))
    }
    assert (after.loc[pair, "text"] == "equal") == ("margin" in changed)
    assert (width["after"] < width["before"]) == smaller


def test_a_smaller_clip_speeds_up_only_its_metric(tmp_path: Path) -> None:
    wide, narrow, comprehensiveness = (
        decided(tmp_path, **one).loc["", "good", "random"]
        for one in ({}, {"clip_ns": 0.5}, {"clip_nc": 0.5})
    )
    assert narrow["text"] == "higher"
    assert narrow["n"] < wide["n"] == comprehensiveness["n"]
    assert narrow["value"] <= 0.5


def test_dependent_records_decide_nothing(tmp_path: Path) -> None:
    assert decided(tmp_path, clustered=["sst2"]).empty


def test_a_pool_smaller_than_the_records_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"stop\.pool\.sst2: 299 .* fewer than the 300"):
        decided(tmp_path, pool={"sst2": 299})
