"""The figure of the layer study."""

import math

import numpy as np
import pytest

from helpers.layer_study_samples import (
    DISAGREEING,
    TOO_SMALL,
    study_rows,
    study_view,
    with_small_part,
)
from pisoft.figures.layer_study import plot


def test_the_figure_shows_means_over_the_rest_at_every_depth():
    rows = study_rows(DISAGREEING) + study_rows(DISAGREEING, weights="original")
    figure = plot(study_view(rows, dataset="sst2"))
    assert figure._suptitle.get_text() == "Llama · SST2 · dynamic routing · n = 3"
    assert [panel.get_ylabel() for panel in figure.axes] == ["AUC π-Soft-NS ↑", "AUC π-Soft-NC ↑"]
    for panel in figure.axes:
        assert list(panel.get_xticks()) == [1, 2, 4]
        for line, band in zip(panel.get_lines(), panel.collections, strict=True):
            expected = [(d, np.mean(DISAGREEING[d]["rest"])) for d in (1, 2, 4)]
            assert line.get_xydata() == pytest.approx(np.array(expected))
            heights = [y for x, y in band.get_paths()[0].vertices if x == 1]
            assert np.ptp(heights) == pytest.approx(2 * 4.302653 * 0.1 / math.sqrt(3))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "Grad-ELLM",
        "Grad-ELLM (original)",
    ]


@pytest.mark.parametrize(("part", "kept"), TOO_SMALL)
def test_the_legend_says_that_a_part_is_too_small(part, kept):
    (legend,) = plot(study_view(with_small_part(part, kept), dataset="sst2")).legends
    assert [text.get_text() for text in legend.get_texts()] == ["Grad-ELLM (no value)"]
