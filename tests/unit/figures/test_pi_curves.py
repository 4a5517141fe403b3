"""Curves over π: who is in colour, who is named where, and in which order."""

from matplotlib.colors import to_hex

from helpers.curve_results import CELL, METHODS, WHERE, curve_rows, view
from pisoft.figures.pi_curves import OTHERS, plot
from pisoft.figures.style import line_styles
from pisoft.statistics.metrics import CURVE_METRICS

MANY = {
    **{f"m{place}": f"A rather long name of method {place}" for place in range(9)},
    "grad_ellm": "Grad-ELLM",
    "grad_ellm_original": "Grad-ELLM (original)",
    "random": "Random",
    "last": "Last",
}


def area_rows(methods, tied=()):
    """Rows of both areas; the first method is the best, the last one the worst."""
    first, *_ = methods
    return [
        {
            **CELL, "metric": f"auc_{metric}", "method": method, "value": 1 - place / 100,
            "rank": place + 1, "best": first,
            "p_adjusted": None if method == first else 0.05 if method in tied else 0.001,
        }
        for metric in CURVE_METRICS
        for place, method in enumerate(methods)
    ]  # fmt: skip


def draw(methods, tied=(), curves=None):
    rows = curve_rows(list(methods)[::-1]) if curves is None else curves
    return plot(view(methods, curves=rows, statistics=area_rows(methods, tied)))


def texts(panel):
    """The legend's texts, from top to bottom."""
    return panel.get_legend().get_texts()


def names(panel):
    """The names below a panel, without their AUC."""
    return [text.get_text().split("  ")[-1] for text in texts(panel)]


def colours(panel):
    """The colours of the curves."""
    curves = [line for line in panel.get_lines() if len(line.get_xdata()) > 1]
    return [to_hex(line.get_color(), keep_alpha=False) for line in curves]


def test_the_best_the_tied_the_paper_s_random_scores_and_the_worst_are_named():
    for panel in draw(MANY, tied=["m2"]).axes:
        assert names(panel) == [
            "A rather long name of method 0",
            "A rather long name of method 2 ≈",
            "Grad-ELLM",
            "Grad-ELLM (original)",
            "Random",
            "Last",
            "others: 7",
        ]
        styles = line_styles(MANY)
        named = {"m0", "m2", "grad_ellm", "grad_ellm_original", "random", "last"}
        expected = [styles[name].colour.lower() for name in MANY if name in named]
        assert colours(panel) == [OTHERS.lower()] * (len(MANY) - len(named)) + expected
        assert len(panel.collections) == len(named), "only lines in colour have bands"
        assert panel.get_title() == "Best or tied (≈): 2 of 13 methods"
        (bold,) = (text for text in texts(panel) if text.get_fontweight() == "bold")
        assert bold.get_text() == "1.000  A rather long name of method 0"


def test_of_many_that_are_tied_the_first_four_are_in_colour():
    panel = draw(MANY, tied=[name for name in MANY if name not in ("m0", "random", "last")]).axes[0]
    assert names(panel)[:5] == [
        "A rather long name of method 0",
        *(f"A rather long name of method {place} ≈" for place in (1, 2, 3)),
        "Grad-ELLM ≈",
    ]
    assert panel.get_title() == "Best or tied (≈): 11 of 13 methods"


def test_equal_methods_are_all_the_best():
    areas = [{**r, "rank": 1.5 if r["rank"] < 3 else r["rank"]} for r in area_rows(METHODS)]
    panel = plot(view(METHODS, curves=curve_rows(), statistics=areas)).axes[0]
    bold = [text.get_text() for text in texts(panel) if text.get_fontweight() == "bold"]
    assert bold == ["1.000  Random", "0.990  Attention"]


def test_a_method_without_a_curve_is_neither_counted_nor_named():
    rows = curve_rows([name for name in MANY if name != "m0"])
    panel = draw(MANY, tied=["m1"], curves=rows).axes[0]
    assert names(panel)[0] == "A rather long name of method 1 ≈"
    assert panel.get_title() == "Best or tied (≈): 1 of 12 methods"


def test_of_few_methods_all_are_in_colour():
    panel = draw(METHODS, tied=["attention", "mine"]).axes[0]
    assert names(panel) == ["Random", "Attention ≈", "Grad-ELLM", "$ Mine_{ <b> ≈"]


def test_without_any_value_nothing_is_named():
    rows = [{**row, "value": None, "rank": None, "best": ""} for row in area_rows(METHODS)]
    figure = plot(view(METHODS, curves=curve_rows(n=0), statistics=rows))
    assert [names(panel) for panel in figure.axes] == [[], []]
    assert figure.get_suptitle() == f"{WHERE} · n = 0"
