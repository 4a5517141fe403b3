"""The distribution of scores: numbers against plain Python, rows, means, and what is missing."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from helpers import explained_rows
from helpers.views import view_of
from pisoft.config.evaluation import ScoreSettings
from pisoft.figures.scores import EDGES, TALLEST, Distribution, distribution, plot_scores
from pisoft.figures.style import line_styles
from pisoft.statistics.scores import read_scores

METHODS = {"random": "Random", "saliency": "Saliency", "mine": "$ Mine_{ <b>"}
GENERATOR = np.random.default_rng(5)
RAW = {  # by sample and step; unequal numbers of tokens and steps
    ("a", 0): GENERATOR.random(7),
    ("a", 5): GENERATOR.random(7) ** 4,
    ("b", 0): GENERATOR.random(30),
}

VIEW = view_of({"models": {"llama": "Llama"}}, {"model": "llama"})


def write_files(folder, rows, dataset="sst2", method="mine"):
    texts = {"a": ["t"] * 7, "b": ["t"] * 30, "c": ["t"] * 3}
    asked = [explained_rows.prompt(name, text) for name, text in texts.items()]
    prompts = explained_rows.write(folder, "prompts", asked, "llama", dataset=dataset)
    return prompts, explained_rows.write(
        folder, "attributions", rows, "llama", method, dataset=dataset
    )


def rows_of(raw, failed=("c",)):
    return [
        *(explained_rows.attribution(name, scores, step) for (name, step), scores in raw.items()),
        *(explained_rows.attribution(name, None, 0, "nonfinite_attribution") for name in failed),
    ]


def read(folder, rows):
    prompts, path = write_files(folder, rows)
    return distribution(read_scores(prompts, [path], ScoreSettings()), "mine")


def made(mean=0.25, n=4, n_failed=0, peak=0):
    shares = np.zeros(EDGES.size - 1)
    shares[peak], shares[-1] = 0.75, 0.25
    return Distribution(shares if n else 0 * shares, mean if n else float("nan"), n, n_failed)


def rows_drawn(panel):
    """Return each row's floor and heights, by colour."""
    return {
        to_hex(patch.get_facecolor()): (patch.get_data().baseline, patch.get_data().values)
        for patch in panel.patches
    }


def test_samples_steps_and_tokens_weigh_the_same_within_each_other(tmp_path):
    found = read(tmp_path, rows_of(RAW))
    weights = {("a", 0): 1 / 4, ("a", 5): 1 / 4, ("b", 0): 1 / 2}
    mean, shares = 0.0, [0.0] * 40
    for key, raw in RAW.items():
        for value in raw.astype(np.float32).astype(np.float64).tolist():
            low, high = (f(RAW[key].astype(np.float32).astype(float)) for f in (np.min, np.max))
            score = (value - low) / (high - low)
            mean += weights[key] * score / len(raw)
            shares[min(int(score * 40), 39)] += weights[key] / len(raw)
    assert found.mean == pytest.approx(mean)
    assert found.shares == pytest.approx(np.array(shares))
    assert found.shares.sum() == pytest.approx(1)
    assert (found.n, found.n_failed) == (2, 1)


def test_a_sample_of_which_a_step_failed_counts_with_its_other_steps(tmp_path):
    rows = rows_of(RAW)
    rows[1] = explained_rows.attribution("a", None, 5, "nonfinite_attribution")
    found = read(tmp_path, rows)
    only = {key: raw for key, raw in RAW.items() if key != ("a", 5)}
    assert found.shares == pytest.approx(read(tmp_path / "b", rows_of(only)).shares)
    assert (found.n, found.n_failed) == (2, 1)


@pytest.mark.parametrize("status", ["nonfinite_attribution", "prompt_too_long"])
def test_a_method_that_failed_on_all_samples_has_no_distribution(tmp_path, status):
    rows = [explained_rows.attribution(name, None, 0, status) for name in "abc"]
    found = read(tmp_path, rows)
    assert (found.n, found.n_failed) == (0, 3)
    assert np.isnan(found.mean)
    assert not found.shares.any()


def test_equal_scores_are_one_half(tmp_path):
    found = read(tmp_path, rows_of({("a", 0): np.full(7, 3.0)}, failed=("b", "c")))
    assert found.mean == 0.5
    assert found.shares[20] == 1


def test_each_row_has_its_method_s_colour_and_shape_and_its_mean():
    by_method = {"random": made(0.5, peak=20), "saliency": made(0.125), "mine": made(0.75)}
    figure = plot_scores(VIEW, {"SST-2": by_method}, METHODS)
    (panel,) = figure.axes
    drawn, styles = rows_drawn(panel), line_styles(METHODS)
    for floor, method in enumerate(reversed(METHODS)):
        baseline, values = drawn[styles[method].colour.lower()]
        assert baseline == floor
        shares = by_method[method].shares
        assert values == pytest.approx(floor + TALLEST * shares / 0.75)
        line = panel.get_lines()[2 - floor]
        assert (line.get_color(), line.get_marker()) == (
            styles[method].colour,
            styles[method].marker,
        )
        assert line.get_xydata().tolist() == [[by_method[method].mean, floor]]
    assert [label.get_text() for label in panel.get_yticklabels()] == [*METHODS.values()][::-1]
    assert [text.get_text() for text in panel.texts if text.get_text() != "mean"] == [
        "0.50",
        "0.12",
        "0.75",
    ]


def test_what_is_missing_or_failed_is_said():
    by_method = {"random": made(n=4), "saliency": made(n=0, n_failed=4)}
    partly = {**by_method, "mine": made(n=3, n_failed=1)}
    figure = plot_scores(VIEW, {"SST-2": by_method, "IMDb": partly}, METHODS)
    texts = [[text.get_text() for text in panel.texts] for panel in figure.axes]
    assert texts[0].count("no value") == 2, "failed, and without a file"
    assert texts[1].count("no value") == 1
    assert "0.25 (1 failed)" in texts[1]
    titles = [panel.get_title() for panel in figure.axes]
    assert titles == ["SST-2 · n = 4", "IMDb · n = 3\N{EN DASH}4"]
