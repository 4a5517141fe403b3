"""The figure of densities: methods at their means with intervals, and the correlations above."""

import pandas as pd

from dense import METHODS, METRICS, correlation_rows, density_rows
from pisoft.figures.density import plot_density
from pisoft.figures.style import line_styles
from uncertainty import statistics_row

AREAS = {"random": 0.25, "saliency": 0.5, "mine": None}
CELL = {"protocol": "dynamic", "model": "llama", "dataset": "sst2"}


def area_rows():
    return [
        statistics_row(
            metric, "sst2", method, value,
            low=value and value - 0.125, high=value and value + 0.125,
        )
        for metric in (*METRICS, "soft_ns")
        for method, value in AREAS.items()
    ]  # fmt: skip


def of_figure(rows):
    frame = pd.DataFrame(rows).astype({"value": float, "low": float, "high": float})
    frame = frame[frame["dataset"] == "sst2"]
    return frame[frame["measure"] == "mean_score"] if "measure" in frame else frame


def draw(sets=(True, False)):
    given = (density_rows(), area_rows(), correlation_rows(sets))
    return plot_density(*map(of_figure, given), METHODS, "Llama · SST2")


def test_methods_stand_at_their_means_with_both_intervals():
    figure = draw()
    styles = line_styles(METHODS)
    for panel in figure.axes:
        points = {line.get_label(): line for line in panel.get_lines()}
        assert points["Random"].get_xydata().tolist() == [[0.5, 0.25]]
        assert points["Saliency"].get_xydata().tolist() == [[0.125, 0.5]]
        assert points["Saliency"].get_color() == styles["saliency"].colour
        assert "$ M_{ (no value)" in points
        lines = [line.get_xydata().tolist() for line in panel.get_lines()]
        assert [[0.0625, 0.5], [0.1875, 0.5]] in lines
        assert [[0.125, 0.375], [0.125, 0.625]] in lines


def test_titles_say_the_correlations_with_and_without_random_scores():
    title = draw().axes[0].get_title()
    assert title == (
        "Spearman's ρ, all methods: −0.25 [−0.31, −0.19]\n"
        "Spearman's ρ, without random scores: 0.75 [0.69, 0.81]"
    )
    assert "all methods" not in draw([False]).axes[0].get_title()
