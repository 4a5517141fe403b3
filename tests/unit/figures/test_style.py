"""Method styles across figures, and figure file formats."""

import matplotlib
import pytest
from matplotlib.figure import Figure

from pisoft.figures.style import line_styles, save_figure, theme


@pytest.mark.parametrize("name", ["random", "attention", "attention_rollout", "grad_ellm_original"])
def test_shipped_methods_look_the_same_in_every_figure(name):
    assert line_styles([name])[name] == line_styles(["mine", "gradient_shap", name])[name]


def test_adding_methods_keeps_a_methods_style():
    assert line_styles(["mine"])["mine"] == line_styles(["mine", "random", "new"])["mine"]


def test_all_methods_look_different():
    names = ["random", "attention", "saliency", "input_x_gradient", "deeplift"]
    names += ["integrated_gradients", "value_zeroing", "reagent", "grad_ellm"]
    names += [f"method {k}" for k in range(100)]
    assert len(set(line_styles(names).values())) == len(names)


def test_the_theme_restores_matplotlibs_settings():
    before = dict(matplotlib.rcParams)
    with theme():
        pass
    assert dict(matplotlib.rcParams) == before


def test_an_unsupported_format_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"\.pdf, \.svg, \.png"):
        save_figure(Figure(), [tmp_path / "figure.jpg"])
