"""The figure of orders with one choice changed: dots, intervals, rings, what is missing."""

from helpers.sensitivity_results import NUMBERS, WHY, view
from pisoft.figures.sensitivity import CHANGED, SAME, plot


def lines_of(panel):
    return [(line.get_color(), line.get_xydata().tolist()) for line in panel.get_lines()]


def test_dots_stand_at_their_tau_with_intervals_and_rings_of_the_datasets(tmp_path):
    figure = plot(view(tmp_path))
    assert figure.get_suptitle().endswith("Llama · dynamic routing · n = 18")
    for panel in figure.axes:
        lines = lines_of(panel)
        assert (SAME, [[1.0, 0]]) in lines
        assert (SAME, [[0.75, 0], [1.0, 0]]) in lines
        assert (CHANGED, [[0.25, 2]]) in lines, "another method is best"
        assert lines[-1][1].count([0.25, 2.25]) == 2, "a ring of each dataset"
        assert any(points == [[1, 0], [1, 1]] for _, points in lines), "the line at τ = 1"
        assert panel.get_xlim()[0] < -0.75, "all of a negative interval is inside"
    texts = [[text.get_text() for text in panel.texts] for panel in figure.axes]
    assert texts[0] == ["other best", "no", "yes", "yes", WHY, "15 %"]
    assert texts[1] == ["other best", "no", "does not apply", "yes", WHY, "15 %"]


def test_a_single_dataset_has_no_rings(tmp_path):
    panel = plot(view(tmp_path, datasets={"sst2": "SST2"})).axes[0]
    assert lines_of(panel)[-1][1] == []
    assert "rings" not in panel.get_xlabel()


def test_without_any_number_every_row_says_why(tmp_path):
    why = "fewer than two methods have a value"
    panel = plot(view(tmp_path, why)).axes[0]
    assert [text.get_text() for text in panel.texts][1:] == [why] * len(NUMBERS)
