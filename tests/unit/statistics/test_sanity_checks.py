"""Similarity of scores to randomised models and other inputs, against SciPy."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from helpers import explained_rows, script_runs
from helpers.estimated_results import view
from helpers.result_rows import results
from pisoft.figures.sanity_checks import plot
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.sanity_checks import input_similarities, similarities, stretched
from pisoft.statistics.scores import StepScores
from pisoft.tables.sanity_checks import table


def step(sample, index, perturbable=8, *, mine):
    raw = {} if mine is None else {"mine": mine}
    positions = np.arange(1, 1 + perturbable)
    return StepScores({"sample_id": sample}, index, positions, raw, {"mine": "ok"}, "minmax")


def scores(seed):
    return np.random.default_rng(seed).integers(0, 5, 10).astype(float)  # with ties


def test_a_sample_has_the_mean_of_spearmans_rho_over_its_steps():
    pairs = {("a", 0): (1, 2), ("a", 5): (3, 4), ("b", 0): (5, 6)}
    steps, changed = (
        [step(*key, mine=scores(seeds[at])) for key, seeds in pairs.items()] for at in (0, 1)
    )
    rho = [spearmanr(scores(a)[1:9], scores(b)[1:9]).statistic for a, b in pairs.values()]
    expected = {"a": pytest.approx((rho[0] + rho[1]) / 2), "b": pytest.approx(rho[2])}
    assert dict(similarities(steps, changed, "mine")) == expected


def test_constant_scores_and_failed_steps_have_no_rho():
    steps = [step(*key, mine=scores(1)) for key in (("a", 0), ("a", 5), ("b", 0))]
    changed_steps = (("a", 0, np.ones(10)), ("a", 5, scores(1)), ("b", 0, None))
    changed = [step(name, index, mine=values) for name, index, values in changed_steps]
    assert [*similarities(steps, changed, "mine")] == pytest.approx([1, np.nan], nan_ok=True)


def test_scores_are_stretched_by_linear_interpolation():
    assert stretched(np.array([0.0, 1.0]), 5) == pytest.approx([0, 0.25, 0.5, 0.75, 1])
    assert stretched(np.array([1.0, 0.0, 4.0]), 2) == pytest.approx([1, 4])
    same = scores(1)
    assert np.array_equal(stretched(same, same.size), same)


def test_texts_are_compared_with_the_mean_of_all_others_at_the_step():
    lengths = {"a": 8, "b": 5, "c": 6, "d": 8}
    raw = {(name, at): scores(7 * at + n) for n, name in enumerate(lengths) for at in (0, 5)}
    raw.pop(("d", 5))
    steps = [step(*key, lengths[key[0]], mine=values) for key, values in raw.items()]
    normal = {(s.prompt["sample_id"], s.step): s.scores("mine") for s in steps}

    def rho(name, index):
        tokens = np.linspace(0, 1, lengths[name])
        read = [
            np.interp(tokens, np.linspace(0, 1, values.size), values)
            for (other, at), values in normal.items()
            if other != name and at == index
        ]
        return spearmanr(normal[name, index], np.mean(read, axis=0).round(12)).statistic

    expected = {name: pytest.approx((rho(name, 0) + rho(name, 5)) / 2) for name in "abc"}
    expected["d"] = pytest.approx(rho("d", 0))
    assert dict(input_similarities(steps, "mine")) == expected


def test_texts_without_comparable_others_have_no_rho():
    steps = [
        step("a", 0, mine=scores(1)),
        step("a", 5, mine=scores(1)),  # a longer answer than any other
        step("b", 0, mine=scores(2)),
        step("c", 0, perturbable=2, mine=scores(3)),  # too few tokens, for the others as well
        step("d", 0, mine=None),
    ]
    rho = spearmanr(scores(1)[1:9], scores(2)[1:9]).statistic
    expected = pytest.approx([rho, rho, np.nan, np.nan], nan_ok=True)
    assert list(input_similarities(steps, "mine")) == expected
    assert input_similarities(steps[:2], "mine").isna().all()


def test_each_check_has_a_row_and_texts_without_scores_are_counted(tmp_path):
    samples, raw = ("a", "b", "c"), np.random.default_rng(2)
    variants = {"reinit-2": 2, "shuffled-labels": None}
    drawn = {(name, s): raw.random(8) for name in ("", *variants) for s in samples}
    scores = {name: {s: [drawn[name, s]] for s in samples} for name in ("", *variants)}
    scores["shuffled-labels"]["b"] = [None]
    settings = {"variants": {"llama": variants}, "seed": 1, "resamples": 50}
    files = explained_rows.write_scores(tmp_path, {"mine": scores.pop("")}, 8)
    for name, sample_scores in scores.items():
        changed = explained_rows.write_scores(tmp_path, {"mine": sample_scores}, 8, variant=name)
        files["attributions"] += changed["attributions"]
    rows = script_runs.summary_rows("sanity_checks", settings, files, tmp_path)
    rows = pd.DataFrame(rows).set_index(["dataset", "part"])
    assert set(rows["method"]) == {"mine"}
    assert set(rows["metric"]) == {"rho"}

    def mean(other, chosen=samples):
        return np.mean([spearmanr(drawn["", s], drawn[other, s]).statistic for s in chosen])

    for dataset in ("sst2", AVERAGE):
        checks = rows.loc[dataset]
        assert list(checks.index) == ["layers", "labels", "input"]
        assert list(checks["position"].fillna(0)) == [2, 0, 0]
        assert list(checks["variant"]) == [*variants, ""]
        expected = [mean("reinit-2"), mean("shuffled-labels", ("a", "c"))]
        assert checks["value"][:2].tolist() == pytest.approx(expected)
        assert list(checks["n"]) == [3, 2, 3]
        assert list(checks["n_failed"]) == [0, 1, 0]


def test_without_shuffled_labels_their_column_and_points_are_absent():
    number = {"metric": "rho", "method": "mine", "value": 0.5, "low": 0.4, "high": 0.6, "n": 5}
    checks = ({"part": "layers", "variant": "reinit-1", "position": 1.0}, {"part": "input"})
    cell = {"model": "llama"}
    rows = [
        {**cell, "dataset": dataset, **number, **check}
        for dataset in ("sst2", AVERAGE)
        for check in checks
    ]
    labels = {"datasets": {"sst2": "SST2"}, "methods": {"mine": "Mine"}}
    page = view({"sanity_checks": results("sanity_checks", rows)}, cell, **labels)
    assert table(page).columns == ("Last layer", "Another input")
    assert "huffled" not in " ".join(table(page).notes)
    panels = [panel.get_xlabel() for panel in plot(page).axes]
    assert panels[-1] == "Spearman's ρ ↓\nAnother input"
    assert "huffled" not in "".join(panels)
