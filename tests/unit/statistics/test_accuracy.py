"""Accuracy of the models' answers, recomputed in plain Python from the written rows."""

import math
from functools import partial

import pytest
from scipy.stats import norm, t
from statsmodels.stats.proportion import proportion_confint

from helpers import explained_rows
from helpers.script_runs import summary_rows
from pisoft.config.jobs.summaries import RunJob
from pisoft.errors import BenchmarkError
from pisoft.statistics.accuracy import summaries
from pisoft.statistics.reading import Files
from pisoft.store.parquet import write_rows

wilson = partial(proportion_confint, method="wilson")
RECORDS = ("ok", "too_many_words", "empty_record", "too_many_words")


def write_answers(folder, rows, dataset="sst2"):
    """Write both files for rows of (id, status, tokens, truncated, correct, greedy, margins)."""
    records = [explained_rows.record(str(k), status=status) for k, status in enumerate(RECORDS)]
    write_rows(folder / f"{dataset}.parquet", "datasets", records, {})
    prompts, generations = [], []
    for name, status, n, cut, correct, greedy, *margins in rows:
        asked = explained_rows.prompt(name, ["x"] * n, status=status)
        prompts.append(asked | {"truncated": cut})
        answer = explained_rows.answer(name, steps=range(len(margins) or 1), status=status)
        facts = {"margins": margins, "correct": correct, "greedy_is_label": greedy}
        generations.append(answer | facts)
    return [
        explained_rows.write(folder, kind, made, "llama", dataset=dataset)
        for kind, made in (("prompts", prompts), ("generations", generations))
    ]


def test_accuracy_is_over_ok_samples(tmp_path):
    files = write_answers(
        tmp_path,
        [
            ("a", "ok", 10, False, True, True, 1.0, 4.0),
            ("b", "ok", 20, True, False, True, 0.5),
            ("c", "ok", 60, True, True, False),
            ("d", "prompt_too_long", 999, True, None, None),
        ],
    )
    rows = by_metric(files)
    assert rows.loc["too_many_words", ["value", "n"]].tolist() == [2, len(RECORDS)]
    rows = rows.drop("too_many_words")
    assert rows["value"].to_dict() == {
        "accuracy": pytest.approx(2 / 3),
        "greedy_is_label": pytest.approx(2 / 3),
        "mean_margin": 1.5,
        "truncated": 2,
        "mean_prompt_tokens": 3 + 30,
        "mean_output_tokens": pytest.approx(4 / 3),
    }
    assert rows.loc["mean_margin", ["value", "n"]].tolist() == [1.5, 2], "c has no runner-up"
    rows = rows.drop("mean_margin")
    assert (rows[["n", "n_failed"]] == [3, 1]).all(axis=None)
    for share in ("accuracy", "greedy_is_label"):
        assert rows.loc[share, ["low", "high"]].tolist() == pytest.approx(wilson(2, 3))
    assert rows["low"].count() == 2


def by_metric(paths, **others):
    """Return the numbers of one model and dataset; `others` are files by kind."""
    prompts, generations = paths
    records = prompts.parents[2] / prompts.name
    files = Files(datasets=[records], prompts=[prompts], generations=[generations], **others)
    (rows,) = summaries(files, RunJob(run="demo"))["accuracy"]
    return rows.set_index("metric")


@pytest.mark.parametrize(("status", "n"), [("ok", 1), ("empty_record", 0)])
def test_open_generation_and_failed_samples_have_no_accuracy(tmp_path, status, n):
    rows = by_metric(write_answers(tmp_path, [("a", status, 10, False, None, None)]))
    assert rows["value"].isna()[["accuracy", "greedy_is_label"]].all()
    assert rows["value"].isna()["mean_prompt_tokens"] == (n == 0)
    assert rows.loc["truncated", ["value", "n", "n_failed"]].tolist() == [0, n, 1 - n]
    assert rows.loc["accuracy", "n"] == 0


def test_samples_without_a_label_do_not_enter_the_interval(tmp_path):
    answers = [("a", "ok", 1, False, True, True), ("b", "ok", 1, False, None, True)]
    rows = by_metric(write_answers(tmp_path, answers))
    assert rows.loc["accuracy", ["value", "n"]].tolist() == [1, 1]
    assert rows.loc["accuracy", "low"] == pytest.approx(wilson(1, 1)[0])


def test_intervals_account_for_clusters(tmp_path):
    """Four texts with two questions each; two texts are answered correctly."""
    names = "abcdefgh"
    paths = write_answers(tmp_path, [(name, "ok", 1, False, name < "e", True) for name in names])
    records = [explained_rows.record(name, cluster=str(k // 2)) for k, name in enumerate(names)]
    write_rows(tmp_path / "clusters.parquet", "datasets", records, {})
    rows = by_metric(paths, clusters=[tmp_path / "clusters.parquet"])
    assert rows.loc["accuracy", ["value", "n", "n_clusters"]].tolist() == [0.5, 8, 4]
    reach = t.ppf(0.975, 3) * math.sqrt(4 / 3)  # of four independent texts
    expected = wilson(2, 4, alpha=2 * norm.sf(reach))
    assert rows.loc["accuracy", ["low", "high"]].tolist() == pytest.approx(expected)


def test_the_script_summarises_accuracy_and_refuses_mismatched_files(tmp_path):
    names, answers = ("sst2", "imdb"), [("a", "ok", 3, False, True, True)]
    written = [write_answers(tmp_path, answers, name) for name in names]
    prompts, generations = zip(*written, strict=True)

    def summarise_accuracy(generations):
        files = {"prompts": prompts, "generations": generations}
        files["datasets"] = [tmp_path / f"{name}.parquet" for name in names]
        return summary_rows("accuracy", {"run": "demo"}, files, tmp_path)

    cells = {(row["model"], row["dataset"]) for row in summarise_accuracy(generations)}
    assert cells == {("llama", name) for name in names}
    with pytest.raises(BenchmarkError, match=r"imdb\.parquet: is from another cell than .*sst2"):
        summarise_accuracy(generations[::-1])
    other, _ = write_answers(tmp_path / "other", [("b", "ok", 1, False, None, None)])
    with pytest.raises(BenchmarkError, match=r"sst2\.parquet: sample 'a': is not in .*prompts"):
        by_metric((other, generations[0]))
    with pytest.raises(BenchmarkError, match=r"^--files: 1 of kind 'generations' for 2 of "):
        summarise_accuracy(generations[1:])
