"""Agreement of methods: τ and overlap against brute force, what counts, means over datasets."""

import itertools

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from agreeing import DATASETS, METHODS, VALUES, agreement_of
from pisoft.config.slices.summaries import CompareSlice
from pisoft.contracts import read_rows, write_rows
from pisoft.statistics import method_agreement as agreement
from pisoft.statistics.agreement_means import triangle, with_average
from pisoft.statistics.method_agreement import agreement_rows, kendall_taus, top_count, top_overlaps
from pisoft.statistics.scores import StepScores
from rooms import summarise

# τ and overlap ---------------------------------------------------------------------------------


few_levels = st.integers(1, 40).flatmap(
    lambda tokens: arrays(np.float64, (4, tokens), elements=st.sampled_from([0.0, 0.25, 0.5, 1.0]))
)


def reference_taus(scores):
    return [[scipy.stats.kendalltau(one, other).statistic for other in scores] for one in scores]


@pytest.mark.filterwarnings("ignore:One or more sample arguments is too small")
@given(few_levels)
def test_taus_equal_scipys_where_scores_are_tied(scores):
    np.testing.assert_allclose(kendall_taus(scores), reference_taus(scores), atol=1e-12)


@pytest.mark.filterwarnings("ignore:One or more sample arguments is too small")
@pytest.mark.parametrize("tokens", [1, 2, 3, 57, 300])
def test_taus_equal_scipys_for_any_number_of_tokens(tokens):
    scores = np.random.default_rng(tokens).random((5, tokens))
    np.testing.assert_allclose(kendall_taus(scores), reference_taus(scores), atol=1e-12)


@pytest.mark.parametrize("at_once", [1, 100, 5000])
def test_taus_do_not_depend_on_how_many_comparisons_are_held_at_a_time(monkeypatch, at_once):
    scores = np.random.default_rng(0).random((3, 41)).round(1)
    whole = kendall_taus(scores)
    monkeypatch.setattr(agreement, "COMPARISONS_AT_ONCE", at_once)
    np.testing.assert_array_equal(kendall_taus(scores), whole)


def test_equal_orders_have_tau_1_exactly_and_opposite_ones_minus_1():
    scores = np.random.default_rng(1).random(777)
    taus = kendall_taus(np.array([scores, scores**3, 1 - scores]))
    assert taus.tolist() == [[1, 1, -1], [1, 1, -1], [-1, -1, 1]]


def test_tau_of_scores_that_are_all_equal_is_undefined():
    taus = kendall_taus(np.array([[0.5, 0.5, 0.5], [0.0, 0.5, 1.0]]))
    assert np.isnan(taus).tolist() == [[True, True], [True, False]]


@pytest.mark.parametrize(
    ("tokens", "count"), [(1, 1), (4, 1), (5, 1), (14, 1), (15, 2), (24, 2), (25, 3), (400, 40)]
)
def test_a_tenth_of_the_tokens_is_rounded_half_up_and_never_none(tokens, count):
    assert top_count(tokens) == count


@given(few_levels)
def test_overlaps_equal_brute_force(scores):
    tokens = scores.shape[1]
    count = max(1, int(tokens / 10 + 0.5))
    tops = [set(sorted(range(tokens), key=lambda i: (-own[i], i))[:count]) for own in scores]
    expected = [[len(one & other) / count for other in tops] for one in tops]
    np.testing.assert_array_equal(top_overlaps(scores), expected)


def test_of_equal_scores_the_earlier_token_counts_as_higher():
    scores = np.zeros((3, 20))
    scores[0, [5, 9, 12]] = 1.0  # top: 5, 9
    scores[1, [9, 5]] = 1.0
    scores[2, [12, 9]] = 1.0
    assert top_overlaps(scores)[0].tolist() == [1.0, 1.0, 0.5]


# Means over steps and samples ------------------------------------------------------------------


def step(sample, number, **raw):
    """One step of a sample; a method given as None has failed."""
    found = {name: np.array(values, dtype=float) for name, values in raw.items() if values}
    length = max(map(len, found.values()), default=0)
    return StepScores(
        prompt={"sample_id": sample},
        step=number,
        perturbable=np.arange(length),
        raw=found,
        status={name: "ok" if values else "nonfinite_attribution" for name, values in raw.items()},
        normalisation="minmax",
    )


def numbers_of(steps, methods=("a", "b")):
    rows = agreement_rows("llama", "sst2", methods, steps)
    return {
        (row["method"], row["other"], row["statistic"]): (
            row["value"],
            row["standard_error"],
            row["n"],
            row["n_failed"],
        )
        for row in rows
    }


def test_a_sample_is_the_mean_over_its_steps_and_weighs_as_much_as_any_other():
    same, opposite = {"a": [1, 2, 3], "b": [1, 2, 3]}, {"a": [1, 2, 3], "b": [3, 2, 1]}
    steps = [
        step("x", 0, **same),
        step("x", 5, **same),
        step("x", 10, **opposite),
        step("y", 0, **opposite),
    ]
    found = numbers_of(steps)
    value, error, n, n_failed = found["a", "b", "kendall_tau"]
    assert value == pytest.approx(((1 + 1 - 1) / 3 - 1) / 2)
    assert error == pytest.approx(abs(1 / 3 + 1) / 2)  # half the distance of two values
    assert (n, n_failed) == (2, 0)
    assert found["a", "b", "top_overlap"][0] == pytest.approx((2 / 3 + 0) / 2)


@pytest.mark.parametrize("bad", [None, [7, 7, 7]], ids=["failed", "constant"])
def test_steps_where_a_method_fails_or_gives_all_tokens_the_same_do_not_count(bad):
    good = [1, 2, 3]
    steps = [
        step("x", 0, a=good, b=bad, c=good),
        step("x", 5, a=good, b=good, c=good),
        step("y", 0, a=good, b=bad, c=good),
    ]
    found = numbers_of(steps, ("a", "b", "c"))
    for statistic in ("kendall_tau", "top_overlap"):
        assert found["a", "b", statistic] == (1.0, None, 1, 1)
        assert found["a", "c", statistic] == (1.0, 0.0, 2, 0)


def test_a_prompt_with_one_perturbable_token_is_counted_as_failed():
    assert numbers_of([step("x", 0, a=[3], b=[2])])["a", "b", "top_overlap"] == (None, None, 0, 1)


def test_samples_that_failed_for_all_methods_are_counted():
    found = numbers_of([step("x", 0, a=None, b=None), step("y", 0, a=[1, 2], b=[1, 2])])
    assert found["a", "b", "kendall_tau"] == (1.0, None, 1, 1)


def test_every_pair_comes_once_in_order_and_a_single_method_has_none():
    steps = [step("x", 0, a=[1, 2], b=[1, 2], c=[1, 2])]
    pairs = [key[:2] for key in numbers_of(steps, ("c", "a", "b"))][::2]
    assert pairs == [("c", "a"), ("c", "b"), ("a", "b")]
    assert agreement_rows("llama", "sst2", ("a",), [step("x", 0, a=[1, 2])]) == []


def write_scores(folder, raw, content):
    """Write prompts and attributions of one model and dataset; `raw` = {method: {sample: …}}."""
    prompts = [
        {
            "sample_id": sample,
            "input_ids": list(range(len(content))),
            "token_texts": ["t"] * len(content),
            "content_mask": content,
            "user_mask": [True] * len(content),
            "bos_mask": [False] * len(content),
            "evidence_mask": None,
            "prompt_text": "",
            "label": None,
            "label_token_ids": [],
            "label_words": [],
            "truncated": False,
            "status": "ok",
        }
        for sample in next(iter(raw.values()))
    ]
    write_rows(folder / "prompts/llama/sst2.parquet", "prompts", prompts, {})
    for method, by_sample in raw.items():
        rows = [
            {
                "sample_id": sample,
                "step": number,
                "raw_scores": scores,
                "converged": None,
                "status": "ok" if scores else "nonfinite_attribution",
            }
            for sample, steps in by_sample.items()
            for number, scores in enumerate(steps)
        ]
        write_rows(folder / f"attributions/llama/{method}/sst2.parquet", "attributions", rows, {})


def test_the_script_compares_the_scores_of_perturbable_tokens_only(tmp_path):
    generator = np.random.default_rng(2)
    content = [False, False, *[True] * 31, False]
    raw = {
        method: {f"s{n}": generator.random((2, 34)).round(1).tolist() for n in range(4)}
        for method in METHODS
    }
    raw["mine"]["s2"] = [None, None]
    write_scores(tmp_path, raw, content)
    settings = CompareSlice(methods=tuple(METHODS), scope="content", normalisation="minmax")
    files = {
        "prompts": tmp_path / "prompts/llama/sst2.parquet",
        "attributions": [tmp_path / f"attributions/llama/{name}/sst2.parquet" for name in METHODS],
    }
    output = tmp_path / "out/llama/sst2.parquet"
    summarise("method_agreement", settings, files, {"agreement": output})
    rows = {(r["method"], r["other"], r["statistic"]): r for r in read_rows(output, "agreement")}
    assert len(rows) == 2 * 3
    for method, other in itertools.combinations(METHODS, 2):
        taus, overlaps = [], []
        for sample in raw["random"]:
            steps = list(zip(raw[method][sample], raw[other][sample], strict=True))
            if None in steps[0]:
                continue
            cut = [(np.float32(a[2:33]), np.float32(b[2:33])) for a, b in steps]
            taus.append(np.mean([scipy.stats.kendalltau(a, b).statistic for a, b in cut]))
            tops = [
                [set(np.lexsort((np.arange(31), -own))[:3]) for own in pair] for pair in cut
            ]  # 3.1 of 31
            overlaps.append(np.mean([len(a & b) / 3 for a, b in tops]))
        for statistic, values in (("kendall_tau", taus), ("top_overlap", overlaps)):
            row = rows[method, other, statistic]
            assert row["value"] == pytest.approx(np.mean(values), abs=1e-12)
            assert row["standard_error"] == pytest.approx(scipy.stats.sem(values))
            assert (row["n"], row["n_failed"]) == (len(values), 4 - len(values))
            assert (row["model"], row["dataset"]) == ("llama", "sst2")


# Means over datasets ---------------------------------------------------------------------------


def test_datasets_weigh_the_same_and_a_missing_one_leaves_no_mean():
    means = with_average(agreement_of(VALUES), DATASETS)
    means = means[means["dataset"] == "average"].set_index(["method", "other", "statistic"])
    row = means.loc["random", "attention", "kendall_tau"]
    assert row["value"] == pytest.approx(0.4)
    assert row["standard_error"] == pytest.approx(np.hypot(0.03, 0.03) / 2)
    assert (row["n"], row["n_failed"]) == (20, 0)
    row = means.loc["random", "mine", "top_overlap"]
    assert np.isnan(row["value"])
    assert np.isnan(row["standard_error"])
    assert (row["n"], row["n_failed"]) == (10, 10)


def test_a_pair_stands_in_the_line_of_its_second_method():
    rows = agreement_of(VALUES)
    matrix = triangle(rows[rows["dataset"] == "sst2"], "kendall_tau", list(METHODS))
    expected = [[np.nan] * 3, [0.2, np.nan, np.nan], [-0.4, 1.0, np.nan]]
    np.testing.assert_array_equal(matrix, expected)
