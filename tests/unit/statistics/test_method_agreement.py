"""Method agreement: τ and overlap against brute force, excluded steps, dataset means."""

import itertools

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from helpers import explained_rows
from helpers.agreement_results import METHODS, VALUES, agreement_rows
from helpers.result_rows import results as table_of
from helpers.script_runs import summary_rows
from pisoft.config.jobs.summaries import CompareJob
from pisoft.statistics.method_agreement import (
    METRICS,
    agreement_samples,
    top_overlaps,
    with_averages,
)
from pisoft.statistics.scores import StepScores

few_levels = st.integers(1, 40).flatmap(
    lambda tokens: arrays(np.float64, (tokens, 4), elements=st.sampled_from([0.0, 0.25, 0.5, 1.0]))
)


@given(few_levels)
def test_overlaps_equal_brute_force_with_ties_in_token_order(scores):
    tokens = len(scores)
    count = max(1, int(tokens / 10 + 0.5))  # a tenth, rounded half up
    tops = [
        set(sorted(range(tokens), key=lambda i: (-column[i], i))[:count]) for column in scores.T
    ]
    expected = [[len(one & other) / count for other in tops] for one in tops]
    np.testing.assert_array_equal(top_overlaps(scores), expected)


def step(sample, **raw):
    """One step of a sample; a method given as None has failed."""
    scores = {name: np.array(values, dtype=float) for name, values in raw.items() if values}
    perturbable = np.arange(max(map(len, scores.values()), default=0))
    status = {name: "ok" if values else "nonfinite_attribution" for name, values in raw.items()}
    return StepScores({"sample_id": sample}, 0, perturbable, scores, status, "minmax")


UP = [1, 2, 3]


@pytest.mark.parametrize("bad", [None, [7, 7, 7]], ids=["failed", "constant"])
def test_steps_with_failed_or_constant_scores_do_not_count(bad):
    steps = [step(sample, a=UP, b=b, c=UP) for sample, b in (("x", bad), ("x", UP), ("y", bad))]
    samples = agreement_samples(steps, ("a", "b", "c"))
    for metric in METRICS:
        np.testing.assert_array_equal(samples[metric, "a", "b"], [1.0, np.nan])
        np.testing.assert_array_equal(samples[metric, "a", "c"], [1.0, 1.0])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("raw", [{"a": [3], "b": [2]}, {"a": None, "b": None}])
def test_a_sample_with_one_token_or_without_scores_has_no_value(raw):
    samples = agreement_samples([step("x", **raw), step("y", a=UP, b=UP)], ("a", "b"))
    assert samples.isna().all(axis=1).tolist() == [True, False]


def test_every_pair_is_listed_once_in_order():
    pairs = agreement_samples([step("x", a=UP, b=UP, c=UP)], ("c", "a", "b")).columns
    assert [pair[1:] for pair in pairs[::2]] == [("c", "a"), ("c", "b"), ("a", "b")]
    assert agreement_samples([step("x", a=UP)], ("a",)).columns.empty


def test_only_scores_of_perturbable_tokens_are_compared(tmp_path):
    generator, names = np.random.default_rng(2), [f"s{n}" for n in range(4)]
    raw = {
        method: {name: generator.random((2, 31)).round(1).tolist() for name in names}
        for method in METHODS
    }
    raw["mine"]["s2"] = [None, None]
    files = explained_rows.write_scores(tmp_path, raw, 31)
    settings = CompareJob(methods=tuple(METHODS), scope="content", normalisation="minmax")
    results = summary_rows("method_agreement", settings, files, tmp_path)
    rows = {(row["method"], row["other"], row["metric"]): row for row in results}
    assert len(rows) == 2 * 3
    for method, other in itertools.combinations(METHODS, 2):
        taus, overlaps = [], []
        for sample in raw["random"]:
            steps = list(zip(raw[method][sample], raw[other][sample], strict=True))
            if None in steps[0]:
                continue
            cut = [(np.float32(a), np.float32(b)) for a, b in steps]
            taus.append(np.mean([scipy.stats.kendalltau(a, b).statistic for a, b in cut]))
            orders = [[np.argsort(-one, kind="stable") for one in pair] for pair in cut]
            overlaps.append(np.mean([np.isin(a[:3], b[:3]).mean() for a, b in orders]))  # of 3.1
        for metric, values in (("kendall_tau", taus), ("top_overlap", overlaps)):
            row = rows[method, other, metric]
            assert row["value"] == pytest.approx(np.mean(values), abs=1e-12)
            assert row["standard_error"] == pytest.approx(scipy.stats.sem(values))
            assert (row["n"], row["n_failed"]) == (len(values), 4 - len(values))
            assert (row["model"], row["dataset"]) == ("llama", "sst2")


def test_the_mean_weighs_datasets_equally_and_needs_all():
    means = with_averages(table_of("method_agreement", agreement_rows(VALUES)))
    means = means[means["dataset"] == "average"].set_index(["method", "other", "metric"])
    columns = ["value", "standard_error", "n", "n_failed"]
    numbers = means.loc[("random", "attention", "kendall_tau"), columns].tolist()
    assert numbers == pytest.approx([0.4, np.hypot(0.03, 0.03) / 2, 20, 0])
    numbers = means.loc[("random", "mine", "top_overlap"), columns].tolist()
    assert numbers == pytest.approx([np.nan, np.nan, 10, 10], nan_ok=True)
