"""Comparison of two runs' method rankings from their statistics files."""

import itertools

import pandas as pd
import pytest
from scipy.stats import kendalltau

from helpers import script_runs
from pisoft.statistics.between_runs import compare_runs
from pisoft.statistics.results import summary_table
from pisoft.store.parquet import write_table

METRIC = "auc_pi_soft_nc"


def run_folder(folder, values, dataset="sst2"):
    keys = {"protocol": "dynamic", "model": "llama", "dataset": dataset, "n": 20}
    rows = [
        {**keys, "metric": metric, "method": method, "value": value}
        for metric in (METRIC, "soft_nc")
        for method, value in values.items()
    ]
    path = folder / "data/summary/statistics.parquet"
    write_table(path, "statistics", summary_table("statistics", [pd.DataFrame(rows)]), {})
    return folder


def test_rankings_are_compared_over_common_methods(tmp_path):
    common = ("random", "mine", "saliency", "occlusion")
    first, second = (0.1, 0.4, 0.3, 0.2), (0.3, 0.2, 0.5, 0.4)
    one = {**dict(zip(common, first, strict=True)), "gone": 0.9, "lost": 0.8}
    other = {**dict(zip(common, second, strict=True)), "new": 1.0, "lost": None}
    runs = [run_folder(tmp_path / "one", one), run_folder(tmp_path / "other", other)]
    finished = script_runs.call("compare_runs", *runs)
    assert finished.returncode == 0, finished.stderr
    line, reading = finished.stdout.splitlines()
    tau = kendalltau(first, second).statistic
    assert line == (
        f"AUC π-Soft-NC · llama · dynamic · sst2: τ = {tau:.2f} over 4 methods; "
        "best: mine, saliency; samples: 20, 20"
    )
    assert "1 says that both order all methods alike" in reading


def test_averages_are_compared_only_over_the_same_datasets():
    def statistics(*names):
        every = itertools.product((*names, "average"), ("mine", "random"))
        rows = pd.DataFrame(every, columns=["dataset", "method"]).reset_index(names="value")
        return rows.assign(protocol="dynamic", model="llama", metric=METRIC, n=9, n_failed=0)

    run, other = statistics("sst2", "imdb"), statistics("sst2", "boolq")
    assert compare_runs(run, run)["dataset"].tolist() == ["sst2", "imdb", "average"]
    assert compare_runs(run, other)["dataset"].tolist() == ["sst2"]


def test_runs_without_a_common_method_have_no_tau(tmp_path):
    runs = [run_folder(tmp_path / name, {name: 0.5}) for name in ("one", "other")]
    line = script_runs.call("compare_runs", *runs).stdout.splitlines()[0]
    assert line.endswith("no τ over 0 methods; best: none, none; samples: none, none")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["one"], "two folders of runs are compared, got 1"),
        (["one", "gone"], "statistics.parquet"),
        (["one", "elsewhere"], "no protocol, model and dataset in common"),
    ],
)
def test_invalid_runs_give_one_line(tmp_path, names, words):
    run_folder(tmp_path / "one", {"mine": 0.5})
    run_folder(tmp_path / "elsewhere", {"mine": 0.5}, "imdb")
    finished = script_runs.call("compare_runs", *(tmp_path / name for name in names))
    assert finished.returncode == 1
    assert words in finished.stderr
    assert len(finished.stderr.splitlines()) == 1
