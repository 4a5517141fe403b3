"""The figure of advantages: the lack of random scores."""

from helpers.curve_results import view
from pisoft.figures.advantage import plot
from pisoft.statistics.metrics import NO_CONTROL


def test_without_random_scores_the_figure_says_so():
    figure = plot(view(advantage=[]))
    assert not figure.axes
    assert NO_CONTROL in [text.get_text() for text in figure.texts]
