"""Times and memory of attribution, recomputed in plain Python."""

import itertools
import statistics

import pytest

from helpers.script_runs import summary_rows
from pisoft.errors import BenchmarkError
from pisoft.statistics.timings import timing_rows
from pisoft.store.parquet import write_rows

FACTS = {"peak_memory_mb": 900.5, "peak_device_memory_mb": None, "device": "cpu"}


def step(sample, index, seconds, tokens=4, status="ok"):
    row = {"sample_id": sample, "step": index, "seconds": seconds, "status": status}
    return {**row, "prompt_tokens": seconds and tokens, "float32_agreement": None}


STEPS = [
    step("a", 0, 0.1, 4),
    step("a", 5, 0.3, 4),
    step("b", 0, 0.7, 9),
    step("c", 0, 0.2, 6),
    step("c", 5, 0.6, 6, "nonfinite_attribution"),  # took time nevertheless
    step("d", 0, 5.0, 7, "nonfinite_attribution"),
    step("e", 0, None, status="empty_generation"),
]
TIMES, TOKENS = [0.4, 0.7, 0.8], [4, 9, 6]  # of a, b and c


def write_steps(path, rows=STEPS, facts=FACTS):
    write_rows(path, "attribution_times", rows, facts)
    return path


def test_sample_times_sum_over_steps_and_failed_samples_are_counted(tmp_path):
    facts = {**FACTS, "peak_device_memory_mb": 40.25}
    rows = timing_rows(write_steps(tmp_path / "llama/mine/sst2.parquet", facts=facts))
    assert dict(zip(rows["metric"], rows["value"], strict=True)) == {
        "seconds_per_sample": pytest.approx(statistics.fmean(TIMES)),
        "median_seconds": pytest.approx(statistics.median(TIMES)),
        "mean_prompt_tokens": pytest.approx(statistics.fmean(TOKENS)),
        "peak_memory_mb": 900.5,
        "peak_device_memory_mb": 40.25,
    }
    names = rows[["model", "method", "dataset", "n", "n_failed", "text"]]
    assert (names == ["llama", "mine", "sst2", 3, 2, "cpu"]).all(axis=None)


def test_agreement_with_float32_is_the_mean_over_compared_steps(tmp_path):
    rows = [{**row, "float32_agreement": {0: 0.9, 2: 0.8}.get(i)} for i, row in enumerate(STEPS)]
    table = timing_rows(write_steps(tmp_path / "llama/mine/sst2.parquet", rows))
    agreement = table.set_index("metric").loc["float32_agreement"]
    assert (agreement["value"], agreement["n"]) == (pytest.approx(0.85), 2)
    assert set(table["n"]) == {2, 3}


def test_without_samples_there_is_no_mean(tmp_path):
    one = write_steps(tmp_path / "m/one/d.parquet", [step("a", 0, 0.5)])
    none = write_steps(tmp_path / "m/none/d.parquet", [step("a", 0, None, status="empty_record")])
    single, empty = (timing_rows(path).set_index("metric") for path in (one, none))
    assert single.loc["seconds_per_sample", ["n", "value"]].tolist() == [1, 0.5]
    assert (empty[["n", "n_failed"]] == [0, 1]).all(axis=None)
    assert empty["value"].count() == 1, "the memory of the job"


def test_a_file_without_a_device_is_named(tmp_path):
    path = write_steps(tmp_path / "old.parquet", facts={"device": "cpu"})
    with pytest.raises(BenchmarkError, match=r"old\.parquet: .* lacks peak_memory_mb, .*; delete"):
        timing_rows(path)


def test_the_script_writes_every_cell(tmp_path):
    cells = list(itertools.product(("llama", "mistral"), ("random", "mine"), ("sst2", "imdb")))
    steps = [write_steps(tmp_path / "{}/{}/{}.parquet".format(*cell)) for cell in cells]
    rows = summary_rows("timings", {"run": "demo"}, {"attribution_times": steps}, tmp_path)
    assert [row["n"] for row in rows] == [3] * 8 * 5
    assert [(row["model"], row["method"], row["dataset"]) for row in rows[::5]] == cells
