"""What methods look like in all figures, and what files figures are written to."""

import matplotlib
import pytest
from matplotlib.figure import Figure

from pisoft.figures.style import line_styles, save_figure, theme


@pytest.mark.parametrize("name", ["random", "attention", "attention_rollout", "grad_ellm_original"])
def test_shipped_methods_look_the_same_whatever_is_shown_beside_them(name):
    assert line_styles([name])[name] == line_styles(["mine", "gradient_shap", name])[name]


def test_a_method_keeps_its_look_when_others_follow():
    assert line_styles(["mine"])["mine"] == line_styles(["mine", "random", "new"])["mine"]


def test_no_two_of_many_methods_look_the_same():
    names = ["random", "attention", "saliency", "input_x_gradient", "deeplift"]
    names += ["integrated_gradients", "value_zeroing", "reagent", "grad_ellm"]
    names += [f"method {k}" for k in range(100)]
    assert len(set(line_styles(names).values())) == len(names)


def test_the_look_is_not_left_behind():
    before = dict(matplotlib.rcParams)
    with theme():
        pass
    assert dict(matplotlib.rcParams) == before


def test_another_format_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"\.pdf, \.svg, \.png"):
        save_figure(Figure(), [tmp_path / "figure.jpg"])
