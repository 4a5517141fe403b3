"""All curves over π: appearance fixed per method, legend complete, files reproducible."""

import matplotlib
import pytest

from helpers.curve_results import GRID, METHODS, WHERE, curve_rows, view
from pisoft.figures.panels import GREY
from pisoft.figures.pi_curves_all import plot
from pisoft.figures.style import line_styles, save_figure
from pisoft.statistics.metrics import CURVE_METRICS


def draw(rows, methods=METHODS):
    return plot(view(methods, curves=rows))


def test_each_method_has_a_panel_with_both_metrics_and_random_scores_in_grey():
    figure = draw(curve_rows())
    assert [panel.get_title() for panel in figure.axes] == [*METHODS.values()]
    looks = line_styles(METHODS)
    for name, panel in zip(METHODS, figure.axes, strict=True):
        drawn = [line for line in panel.get_lines() if len(line.get_xdata()) == len(GRID)]
        colours = [line.get_color() for line in drawn]
        other = [] if name == "random" else [GREY] * len(CURVE_METRICS)
        assert colours == other + [looks[name].colour] * len(CURVE_METRICS)


def test_a_method_without_any_value_says_so():
    rows = curve_rows(["random", "attention"]) + curve_rows(["mine"], n=0)
    titles = [panel.get_title() for panel in draw(rows).axes]
    assert titles == ["Random", "Attention", "$ Mine_{ <b> (no value)"]


def test_title_states_the_number_of_samples():
    assert draw(curve_rows()).get_suptitle().endswith(f"\n{WHERE} · n = 20")
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
