"""All curves over π: appearance fixed per method, legend complete, files reproducible."""

import matplotlib
import numpy as np
import pytest

from helpers.curve_results import GRID, METHODS, WHERE, curve_rows, view
from pisoft.figures.pi_curves_all import plot
from pisoft.figures.style import line_styles, save_figure
from pisoft.statistics.metrics import CURVE_METRICS


def draw(rows, methods=METHODS):
    return plot(view(methods, curves=rows))


def test_lines_show_the_means_and_bands_the_intervals():
    for panel, label in zip(draw(curve_rows()).axes, CURVE_METRICS.values(), strict=True):
        assert panel.get_ylabel() == label
        assert panel.get_xlabel() == "Retaining probability π"
        line = panel.get_lines()[1]
        assert line.get_xydata() == pytest.approx(np.array([(pi, pi * 1.1) for pi in GRID]))
        band = panel.collections[1].get_paths()[0].vertices
        at_half = sorted({round(y, 9) for x, y in band if x == 0.5})
        assert at_half == pytest.approx([0.45, 0.65])


def test_both_panels_have_one_range_of_values_which_begins_at_zero():
    rows = [{**r, "value": r["value"] * (1 + (r["metric"] == "pi_soft_nc"))} for r in curve_rows()]
    ns, nc = (panel.get_ylim() for panel in draw(rows).axes)
    assert ns == nc
    assert ns[0] == 0
    assert ns[1] >= max(row["value"] for row in rows)
    below = [{**row, "value": row["value"] - 0.5} for row in rows]
    assert draw(below).axes[1].get_ylim()[0] <= -0.4, "of metrics that are not clamped"


def test_wide_bands_leave_the_lines_most_of_the_panel():
    for panel in draw(curve_rows(error=100)).axes:
        low, high = panel.get_ylim()
        values = np.concatenate([line.get_ydata() for line in panel.get_lines()])
        assert low <= values.min()
        assert high >= values.max()
        assert np.ptp(values) > 0.6 * (high - low)


def test_a_method_without_any_value_is_named_in_the_legend():
    rows = curve_rows(["random", "attention"]) + curve_rows(["mine"], n=0)
    (legend,) = draw(rows).legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts == ["Random", "Attention", "$ Mine_{ <b> (no value)"]


def test_title_states_the_number_of_samples():
    assert draw(curve_rows()).get_suptitle() == f"{WHERE} · n = 20"
    rows = curve_rows(["random"], n=18) + curve_rows(["mine"], n=20)
    assert draw(rows).get_suptitle().endswith("n = 18\N{EN DASH}20")
    rows = curve_rows(["random"], n=18) + curve_rows(["mine"], n=0)
    assert draw(rows).get_suptitle().endswith("n = 18")
    assert draw(curve_rows(n=0)).get_suptitle().endswith("n = 0")


def test_known_methods_keep_their_look_when_others_are_added():
    before = line_styles(["random", "attention", "mine"])
    after = line_styles(["new", "random", "attention", "mine"])
    assert before["random"] == after["random"]
    assert before["attention"] == after["attention"]
    assert line_styles(["random", "attention", "mine", "new"])["mine"] == before["mine"]


@pytest.mark.parametrize("own", ["attention_rollout", "occlusion", "grad_ellm_original"])
def test_our_further_methods_look_the_same_whatever_is_shown_beside_them(own):
    assert line_styles([own])[own] == line_styles(["mine", "gradient_shap", own])[own]


def test_no_two_of_many_methods_look_the_same():
    names = ["random", "attention", "saliency", "input_x_gradient", "deeplift"]
    names += ["integrated_gradients", "value_zeroing", "reagent", "grad_ellm"]
    names += [f"method {k}" for k in range(100)]
    assert len(set(line_styles(names).values())) == len(names)


def test_the_look_is_not_left_behind():
    before = dict(matplotlib.rcParams)
    draw(curve_rows())
    assert dict(matplotlib.rcParams) == before


def test_another_format_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"\.pdf, \.svg, \.png"):
        save_figure(draw(curve_rows()), [tmp_path / "figure.jpg"])
