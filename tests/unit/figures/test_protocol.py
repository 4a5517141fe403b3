"""The illustration of the protocol: shares, calibration and points against plain Python."""

import numpy as np
import pandas as pd
import pytest

from helpers import explained_rows
from helpers.estimated_results import view
from pisoft.config.evaluation import ScoreSettings
from pisoft.figures.protocol import (
    Calibrated,
    calibrated,
    plot_protocol,
    read_alphas,
    retaining_shares,
    shown_methods,
)
from pisoft.statistics.reading import load_rows
from pisoft.statistics.scores import read_scores
from pisoft.statistics.soft import summarise
from pisoft.store.parquet import write_table
from pisoft.views.view import Results

GRID = (0.1, 0.35, 0.9)
METHODS = {
    "random": "Random", "attention": "Attention", "saliency": "Saliency",
    "mine": "$ Mine_{ <b>", "dense": "Dense", "failing": "Failing",
}  # fmt: skip
POWERS = {"random": 1, "attention": 8, "saliency": 4, "mine": 2, "dense": 0.2}
TOKENS = {"a": 12, "b": 30}

LABELS = {"models": {"llama": "Llama"}, "datasets": {"sst2": "SST-2"}}
CELL = {"model": "llama", "dataset": "sst2"}


def scores_of(method, sample):
    spread = np.random.default_rng(TOKENS[sample]).permutation(TOKENS[sample])
    return (spread / (TOKENS[sample] - 1)) ** POWERS[method]


def raw_row(method, sample):
    if method == "failing" or (method == "saliency" and sample == "a"):
        return explained_rows.attribution(sample, None, 0, "nonfinite_attribution")
    return explained_rows.attribution(sample, scores_of(method, sample))


def soft_rows(method, sample):
    row = raw_row(method, sample)
    if row["status"] != "ok":
        zeros = np.linspace(0, 1, TOKENS[sample])
        return explained_rows.soft(sample, zeros, GRID, status=row["status"])
    # What is stored is in float32.
    return explained_rows.soft(sample, np.float32(scores_of(method, sample)).astype(float), GRID)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two samples and six methods, summarised by the project's own summary."""
    folder = tmp_path_factory.mktemp("run")
    asked = [explained_rows.prompt(name, ["t"] * count) for name, count in TOKENS.items()]
    attributions, soft = [], []
    for method in METHODS:
        rows = [raw_row(method, sample) for sample in TOKENS]
        attributions.append(explained_rows.write(folder, "attributions", rows, "llama", method))
        rows = [row for sample in TOKENS for row in soft_rows(method, sample)]
        soft.append(explained_rows.write(folder, "soft", rows, "dynamic", "llama", method))
    samples, curves, _ = summarise(soft, 1e-4, clamp="mean")
    write_table(folder / "soft_samples.parquet", "soft_samples", samples, {})
    write_table(folder / "curves.parquet", "curves", curves, {})
    return {
        "prompts": explained_rows.write(folder, "prompts", asked, "llama"),
        "attributions": attributions,
        "soft": soft,
        "soft_samples": folder / "soft_samples.parquet",
        "curves": folder / "curves.parquet",
    }


@pytest.fixture
def shares(files):
    return retaining_shares(load_rows(files["soft_samples"], "soft_samples"))


@pytest.fixture
def example(files, shares):
    shown = shown_methods(shares, METHODS)
    alphas = {
        path.parts[-2]: read_alphas(path, 0.35) for path in files["soft"] if path.parts[-2] in shown
    }
    steps = read_scores(files["prompts"], files["attributions"], ScoreSettings())
    return calibrated(steps, alphas, explained_rows.FLOOR)


def draw(shares, example, files, methods=METHODS):
    curves = Results(load_rows(files["curves"], "curves"), methods, {})
    figure = plot_protocol(view({}, CELL, **LABELS), shares, example, curves, 0.35)
    figure.draw_without_rendering()
    return figure


def test_shares_are_the_means_of_each_sample_s_scores(shares):
    means = shares.set_index("method", append=True).swaplevel()["share"]
    for method, sample in means.index:
        assert means[method, sample] == pytest.approx(scores_of(method, sample).mean(), rel=1e-5)
    assert len(means) == 9, "five methods, two samples, one of them failed"


def test_methods_of_lowest_middle_and_highest_mean_and_random_are_shown(shares):
    assert shown_methods(shares, METHODS) == ["attention", "mine", "random", "dense"]
    without = shares[shares["method"] != "random"]
    assert shown_methods(without, METHODS) == ["attention", "mine", "dense"]
    one = shares[shares["method"] == "mine"]
    assert shown_methods(one, METHODS) == ["mine"]
    only = shares[shares["method"] == "random"]
    assert shown_methods(only, METHODS) == ["random"]
    assert shown_methods(shares[:0], METHODS) == []


def test_the_stored_alpha_gives_all_methods_the_same_mean(example):
    assert example.sample_id == "a"
    for method in ("attention", "mine", "random", "dense"):
        assert example.before[method] == pytest.approx(scores_of(method, "a"), abs=1e-7)
        clipped = np.clip(example.before[method], 1e-6, 1 - 1e-6)
        assert example.after[method] == pytest.approx(clipped ** example.alpha[method])
        assert example.after[method].mean() == pytest.approx(0.35, abs=1e-9)


def test_the_example_is_the_first_step_that_all_shown_methods_have(files):
    paths = [path for path in files["soft"] if path.parts[-2] in ("saliency", "mine")]
    alphas = {path.parts[-2]: read_alphas(path, 0.35) for path in paths}
    read = (files["prompts"], files["attributions"], ScoreSettings())
    assert calibrated(read_scores(*read), alphas, 1e-6).sample_id == "b"
    alphas["failing"] = read_alphas(files["soft"][-1], 0.35)
    assert alphas["failing"] == {}
    assert calibrated(read_scores(*read), alphas, 1e-6) is None


def test_methods_with_identical_scores_are_both_shown(files):
    rows = [
        {"method": method, "sample_id": "a", "share": 0.5, "soft_nc": 0.5}
        for method in ("mine", "dense", "random")
    ]
    shares = pd.DataFrame(rows)
    shown = shown_methods(shares, METHODS)
    assert shown == ["random", "mine", "dense"], "of equal means in the order of selection"
    half = {method: np.full(4, 0.5) for method in shown}
    same = Calibrated("a", 0, half, half, dict.fromkeys(shown, 1.0))
    figure = draw(shares, same, files)
    assert len(figure.legends[0].get_texts()) == 4
