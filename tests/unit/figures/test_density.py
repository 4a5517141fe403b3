"""The figure of densities: the order of the methods, and the correlations above."""

from helpers.density_results import LABELS, METRICS, correlation_rows, density_rows
from helpers.views import view_of
from pisoft.figures.density import plot

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


def test_titles_have_the_correlations_with_and_without_random_scores(tmp_path):
    title = draw(tmp_path, correlation_rows()).axes[1].get_title(loc="right")
    assert title == "−0.25 [−0.31, −0.19]\n0.75 [0.69, 0.81]"
    undefined = correlation_rows(["without random"], value=None)
    title = draw(tmp_path, undefined).axes[1].get_title(loc="right")
    assert title == "undefined\nundefined"


def test_the_densest_method_is_at_the_bottom_of_all_panels(tmp_path):
    figure = draw(tmp_path, correlation_rows())
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == ["Saliency", "Random", "$ M_{"]
    assert [0.25, 1] in [line.get_xydata()[0].tolist() for line in figure.axes[1].get_lines()]
