"""The figure of orders with a choice made otherwise: dots, intervals, rings, what is missing."""

from pisoft.figures.sensitivity import OTHER, SAME, plot_sensitivity
from sensitive import DATASETS, NUMBERS, WHY, frame, sensitivity_rows


def draw(rows=None, datasets=DATASETS):
    return plot_sensitivity(frame(rows or sensitivity_rows()), datasets, "Llama · dynamic")


def lines_of(panel):
    return [(line.get_color(), line.get_xydata().tolist()) for line in panel.get_lines()]


def test_dots_stand_at_their_tau_with_intervals_and_rings_of_the_datasets():
    figure = draw()
    assert figure.get_suptitle().endswith("Llama · dynamic · n = 18")
    for panel in figure.axes:
        lines = lines_of(panel)
        assert (SAME, [[1.0, 0]]) in lines
        assert (SAME, [[0.75, 0], [1.0, 0]]) in lines
        assert (OTHER, [[0.25, 2]]) in lines, "another method is best"
        assert any(points == [[0.25, 2.25], [0.25, 2.25]] for _, points in lines)
        assert any(points == [[1, 0], [1, 1]] for _, points in lines), "the line at τ = 1"
    texts = [[text.get_text() for text in panel.texts] for panel in figure.axes]
    assert texts[0] == ["other best", "no", "yes", "yes", WHY, "15 %"]
    assert texts[1] == ["other best", "no", "does not apply", "yes", WHY, "15 %"]


def test_all_of_a_negative_interval_is_inside():
    assert draw().axes[0].get_xlim()[0] < -0.75


def test_a_single_dataset_has_no_rings():
    figure = draw(sensitivity_rows(("sst2", "average")), {"sst2": "SST2"})
    assert len(figure.axes[1].get_lines()) == 2 + 2 * 3, "two lines across, three dots"
    assert "rings" not in figure.get_supxlabel()


def test_without_any_number_every_row_says_why():
    why = "fewer than two methods have a value"
    missing = dict.fromkeys(("kendall_tau", "low", "high", "best", "best_changes"))
    rows = [{**row, **missing, "reason": why} for row in sensitivity_rows()]
    panel = draw(rows).axes[0]
    assert [text.get_text() for text in panel.texts][1:] == [why] * len(NUMBERS)
