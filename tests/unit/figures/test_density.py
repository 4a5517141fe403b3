"""The figure of densities: methods at their means with intervals, and the correlations above."""

from helpers.density_results import LABELS, METRICS, correlation_rows, density_rows
from helpers.views import view_of
from pisoft.figures.density import plot
from pisoft.figures.style import line_styles

AREAS = {"random": 0.25, "saliency": 0.5, "mine": None}
CELL = {"protocol": "dynamic", "model": "llama", "dataset": "sst2"}


def draw(folder, correlations):
    areas = [
        {
            **CELL, "metric": metric, "method": method, "value": value,
            "low": value and value - 0.125, "high": value and value + 0.125,
        }
        for metric in METRICS
        for method, value in AREAS.items()
    ]  # fmt: skip
    rows = {"density": density_rows(), "density_correlations": correlations, "statistics": areas}
    return plot(view_of(LABELS, CELL, **rows))


def test_methods_stand_at_their_means_with_both_intervals(tmp_path):
    for panel in draw(tmp_path, correlation_rows()).axes:
        points = {line.get_label(): line for line in panel.get_lines()}
        assert points["Random"].get_xydata().tolist() == [[0.5, 0.25]]
        assert points["Saliency"].get_xydata().tolist() == [[0.125, 0.5]]
        assert points["Saliency"].get_color() == line_styles(AREAS)["saliency"].colour
        assert "$ M_{ (no value)" in points
        lines = [line.get_xydata().tolist() for line in panel.get_lines()]
        assert [[0.0625, 0.5], [0.1875, 0.5]] in lines
        assert [[0.125, 0.375], [0.125, 0.625]] in lines


def test_titles_have_the_correlations_with_and_without_random_scores(tmp_path):
    assert draw(tmp_path, correlation_rows()).axes[0].get_title() == (
        "Spearman's ρ, all methods: −0.25 [−0.31, −0.19]\n"
        "Spearman's ρ, without random scores: 0.75 [0.69, 0.81]"
    )
    undefined = correlation_rows(["without random"], value=None)
    title = draw(tmp_path, undefined).axes[0].get_title()
    assert title == "Spearman's ρ, without random scores: undefined"
