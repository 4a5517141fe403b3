"""Similarity of scores to those on randomised models, and of other inputs: by SciPy."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from helpers import explained_rows, script_runs
from helpers.estimated_results import view
from helpers.views import results
from pisoft.figures.sanity_checks import plot
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.sanity_checks import input_similarities, similarities, stretched
from pisoft.statistics.scores import StepScores
from pisoft.store.parquet import read_rows
from pisoft.tables.sanity_checks import table


def step(sample, place, perturbable=8, **raw):
    positions = np.arange(1, 1 + perturbable)
    kept = {
        name: np.array(scores, dtype=float) for name, scores in raw.items() if scores is not None
    }
    return StepScores(
        prompt={"sample_id": sample}, step=place, perturbable=positions, raw=kept,
        status=dict.fromkeys(raw, "ok"), normalisation="minmax",
    )  # fmt: skip


def scores(seed):
    return np.random.default_rng(seed).integers(0, 5, 10).astype(float)  # with ties


def test_a_sample_has_the_mean_over_its_steps_of_spearmans_rho():
    pairs = {("a", 0): (1, 2), ("a", 5): (3, 4), ("b", 0): (5, 6)}
    steps, changed = (
        [step(*key, mine=scores(seeds[at])) for key, seeds in pairs.items()] for at in (0, 1)
    )
    found = similarities(steps, changed, "mine")
    rho = [spearmanr(scores(a)[1:9], scores(b)[1:9]).statistic for a, b in pairs.values()]
    assert found["a"] == pytest.approx((rho[0] + rho[1]) / 2)
    assert found["b"] == pytest.approx(rho[2])


def test_equal_scores_and_steps_that_failed_have_no_rho():
    steps = [step(*key, mine=scores(1)) for key in (("a", 0), ("a", 5), ("b", 0))]
    changed = [
        step("a", 0, mine=np.ones(10)),
        step("a", 5, mine=scores(1)),
        step("b", 0, mine=None),
    ]
    found = similarities(steps, changed, "mine")
    assert found["a"] == pytest.approx(1)
    assert np.isnan(found["b"])


def test_scores_are_stretched_as_on_a_straight_line_between_tokens():
    assert stretched(np.array([0.0, 1.0]), 5) == pytest.approx([0, 0.25, 0.5, 0.75, 1])
    assert stretched(np.array([1.0, 0.0, 4.0]), 2) == pytest.approx([1, 4])
    same = scores(1)
    assert np.array_equal(stretched(same, same.size), same)


def test_each_text_is_compared_with_the_mean_of_all_others_at_the_same_step():
    lengths = {"a": 8, "b": 5, "c": 6, "d": 8}
    raw = {
        (name, place): scores(7 * place + n) for n, name in enumerate(lengths) for place in (0, 5)
    }
    raw.pop(("d", 5))
    steps = [step(*key, lengths[key[0]], mine=values) for key, values in raw.items()]
    normal = {(s.prompt["sample_id"], s.step): s.scores("mine") for s in steps}

    def rho(name, place):
        """Every token's place, and what a straight line says there, one by one."""
        own = normal[name, place]
        means = []
        for token in range(own.size):
            read = []
            for (other, at), values in normal.items():
                if other != name and at == place:
                    where = token / (own.size - 1) * (values.size - 1)
                    low = min(int(where), values.size - 2)
                    share = where - low
                    read.append((1 - share) * values[low] + share * values[low + 1])
            means.append(round(sum(read) / len(read), 12))
        return spearmanr(own, means).statistic

    found = input_similarities(steps, "mine")
    assert list(found.index) == ["a", "b", "c", "d"]
    for name in "abc":
        assert found[name] == pytest.approx((rho(name, 0) + rho(name, 5)) / 2)
    assert found["d"] == pytest.approx(rho("d", 0))


def test_what_has_no_other_text_to_be_compared_with_has_no_rho():
    steps = [
        step("a", 0, mine=scores(1)),
        step("a", 5, mine=scores(1)),  # a longer answer than any other
        step("b", 0, mine=scores(2)),
        step("c", 0, perturbable=2, mine=scores(3)),  # too few tokens, for the others as well
        step("d", 0, mine=None),
    ]
    found = input_similarities(steps, "mine")
    rho = spearmanr(scores(1)[1:9], scores(2)[1:9]).statistic
    assert list(found) == pytest.approx([rho, rho, np.nan, np.nan], nan_ok=True)
    assert input_similarities(steps[:2], "mine").isna().all()


def test_each_check_has_its_row_and_a_text_without_scores_is_counted(tmp_path):
    samples, raw = ("a", "b", "c"), np.random.default_rng(2)
    variants = {"reinit-2": 2, "shuffled-labels": None}
    drawn = {(name, s): raw.random(8) for name in ("", *variants) for s in samples}
    scores = {name: {s: [drawn[name, s]] for s in samples} for name in ("", *variants)}
    scores["shuffled-labels"]["b"] = [None]
    settings = {"variants": {"llama": variants}, "seed": 1, "resamples": 50}
    made = tmp_path / "sanity_checks.parquet"
    files = explained_rows.write_scores(tmp_path, {"mine": scores.pop("")}, 8)
    for name, of_samples in scores.items():
        changed = explained_rows.write_scores(tmp_path, {"mine": of_samples}, 8, variant=name)
        files["attributions"] += changed["attributions"]
    script_runs.summarise("sanity_checks", settings, files, {"sanity_checks": made})
    rows = pd.DataFrame(read_rows(made, "sanity_checks")).set_index(["dataset", "part"])
    assert set(rows["method"]) == {"mine"}
    assert set(rows["metric"]) == {"rho"}

    def mean(other, chosen=samples):
        return np.mean([spearmanr(drawn["", s], drawn[other, s]).statistic for s in chosen])

    for dataset in ("sst2", AVERAGE):
        found = rows.loc[dataset]
        assert list(found.index) == ["layers", "labels", "input"]
        assert list(found["position"].fillna(0)) == [2, 0, 0]
        assert list(found["variant"]) == [*variants, ""]
        assert found.loc["layers", "value"] == pytest.approx(mean("reinit-2"))
        shuffled = mean("shuffled-labels", ("a", "c"))
        assert found.loc["labels", "value"] == pytest.approx(shuffled)
        assert list(found["n"]) == [3, 2, 3]
        assert list(found["n_failed"]) == [0, 1, 0]


VARIANTS = {"layers": "reinit-{}", "labels": "shuffled-labels"}
CHECKS = (("layers", 1), ("layers", 4), ("labels", None), ("input", None))
VALUES = {
    "same": (1.0, 0.95, 1.0, 0.0), "mine": (0.5, -0.2, 0.92, 0.97), "none": (None,) * 4,
}  # fmt: skip
CELL = {"model": "llama"}
ROWS = [
    {
        **CELL, "dataset": dataset, "metric": "rho", "method": method, "part": part,
        "variant": VARIANTS.get(part, "").format(layers), "position": layers,
        "value": value, "low": value and value - 0.1,
        "high": value and value + 0.1, "n": 5, "n_failed": 1,
    }
    for dataset in ("sst2", "average")
    for method, values in VALUES.items()
    for (part, layers), value in zip(CHECKS, values, strict=True)
]  # fmt: skip
LABELS = {
    "models": {"llama": "Llama"}, "datasets": {"sst2": "SST2"},
    "methods": {"same": "Same", "mine": "$ M_{", "none": "None"},
}  # fmt: skip


def test_the_table_names_the_methods_whose_scores_do_not_change(tmp_path):
    made = table(view({"sanity_checks": results("sanity_checks", ROWS)}, CELL, **LABELS))
    assert made.columns == ("Last layer", "Last 4 layers", "Shuffled labels", "Another input")
    for condition, names in (
        ("with 4 layers reinitialised, and so do not depend on what these have learnt", "Same"),
        ("with shuffled labels, and so do not depend on what labels have taught", "Same, $ M_{"),
        ("with another input, and so depend on a token's place alone", "$ M_{"),
    ):
        assert f"Methods whose mean ρ is 0.9 or more {condition}: {names}." in made.notes


def test_without_shuffled_labels_there_is_no_column_and_no_point_of_them(tmp_path):
    rows = results("sanity_checks", [row for row in ROWS if row["part"] != "labels"])
    shown = view({"sanity_checks": rows}, CELL, **LABELS)
    made = table(shown)
    assert "huffled" not in " ".join((*made.columns, *made.notes))
    labels = [panel.get_xlabel() for panel in plot(shown).axes]
    assert labels[-1] == "Spearman's ρ ↓\nAnother input"
    assert "huffled" not in "".join(labels)
