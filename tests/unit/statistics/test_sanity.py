"""Similarity of scores before and after layers are drawn anew, against SciPy."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

import rooms
from pisoft.contracts import read_rows
from pisoft.statistics.sanity import similarities
from pisoft.statistics.scores import StepScores
from typesetting import needs_latex, typeset


def step(sample, place, **raw):
    positions = np.arange(1, 9)
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
    steps = [step(*key, mine=scores(one), other=scores(two)) for key, (one, two) in pairs.items()]
    found = similarities(steps, "mine", "other")
    rho = [spearmanr(scores(a)[1:9], scores(b)[1:9]).statistic for a, b in pairs.values()]
    assert found["a"] == pytest.approx((rho[0] + rho[1]) / 2)
    assert found["b"] == pytest.approx(rho[2])


def test_equal_scores_and_steps_that_failed_have_no_rho():
    steps = [
        step("a", 0, mine=scores(1), other=np.ones(10)),
        step("a", 5, mine=scores(1), other=scores(1)),
        step("b", 0, mine=scores(1), other=None),
    ]
    found = similarities(steps, "mine", "other")
    assert found["a"] == pytest.approx(1)
    assert np.isnan(found["b"])


ROWS = [
    {
        "model": "llama", "dataset": dataset, "method": method, "layers": layers, "value": value,
        "low": value and value - 0.1, "high": value and value + 0.1, "n": 5, "n_failed": 1,
    }
    for dataset in ("sst2", "average")
    for method, values in {"same": (1.0, 0.95), "mine": (0.5, -0.2), "none": (None, None)}.items()
    for layers, value in zip((1, 4), values, strict=True)
]  # fmt: skip
SHOWN = {
    "models": {"llama": "Llama"}, "datasets": {"sst2": "SST2"},
    "methods": {"same": "Same", "mine": "$ M_{", "none": "None"},
}  # fmt: skip


@needs_latex
def test_table_and_figure_name_what_stayed(tmp_path):
    path = tmp_path / "sanity.parquet"
    rooms.write_frame(path, "sanity", pd.DataFrame(ROWS))
    made = rooms.tabulate("sanity", SHOWN, {"sanity": path}, tmp_path, model="llama")
    typeset(made["tex"])
    page = made["html"].read_text(encoding="utf-8")
    assert "with 4 layers drawn anew, and so do not depend on what these have learnt: Same." in page
    assert "Last layer" in page
    assert "Last 4 layers" in page
    assert len(pd.read_csv(made["csv"])) == len(ROWS)
    rooms.check_same_files("sanity", SHOWN, {"sanity": path}, tmp_path, model="llama")
    assert read_rows(path, "sanity")
