"""The figure of how far methods agree."""

import itertools

import pandas as pd
import pytest
from matplotlib.text import Text

from agreeing import DATASETS, METHODS, SETTINGS, VALUES, agreement_files, agreement_of
from pisoft.figures.method_agreement import plot_method_agreement
from pisoft.figures.style import save_figure
from pisoft.statistics.agreement_means import with_average
from pisoft.units import NOTHING
from rooms import plot


def draw(values=None, methods=METHODS, datasets=DATASETS):
    rows = agreement_of(VALUES if values is None else values)
    return plot_method_agreement(with_average(rows, datasets), methods, datasets, "Llama")


def cells(panel):
    """Texts of a heatmap by line and column."""
    return {
        (int(text.get_position()[1]), int(text.get_position()[0])): text.get_text()
        for text in panel.texts
    }


def test_panels_show_tau_below_and_overlap_above_the_diagonal():
    average, sst2, imdb = draw().axes[:3]
    assert cells(sst2) == {
        (1, 0): ".20", (2, 0): "−.40", (2, 1): "1.0",
        (0, 1): ".10", (0, 2): ".30", (1, 2): ".90",
    }  # fmt: skip
    assert cells(average)[1, 0] == ".40"
    assert cells(average)[2, 0] == cells(average)[0, 2] == NOTHING
    assert cells(imdb)[2, 0] == NOTHING
    titles = [panel.get_title() for panel in (average, sst2, imdb)]
    assert titles == ["Mean over datasets · n = 10–20", "SST2 · n = 10", "IMDb · n = 0–10"]


def test_small_numbers_have_no_negative_zero():
    (_, panel) = draw({("random", "mine", "sst2"): (-0.001, 0.004)}, datasets={"sst2": "S"}).axes[
        :2
    ]
    assert cells(panel)[2, 0] == cells(panel)[0, 2] == ".00"


@pytest.mark.parametrize("count", [1, 2, 13])
@pytest.mark.parametrize("datasets", [1, 2, 5])
def test_no_text_leaves_the_figure_whatever_its_size(count, datasets):
    methods = {f"m{k}": f"A rather long method {k}" for k in range(count)}
    names = {f"d{k}": f"Dataset {k}" for k in range(datasets)}
    pairs = itertools.combinations(methods, 2)
    values = {(a, b, name): (-0.5, 0.5) for a, b in pairs for name in names}
    figure = draw(values, methods, names)
    figure.draw_without_rendering()
    assert_texts_inside(figure)


def assert_texts_inside(figure):
    for text in figure.findobj(Text):
        if text.get_visible() and text.get_text().strip():
            box = text.get_window_extent()
            inside = box.x0 >= -1 and box.y0 >= -1
            inside &= box.x1 <= figure.bbox.x1 + 1 and box.y1 <= figure.bbox.y1 + 1
            assert inside, text.get_text()


def test_a_figure_of_one_method_comes_out(tmp_path):
    save_figure(draw({}, {"random": "Random"}), [tmp_path / "one.png"])
    assert (tmp_path / "one.png").stat().st_size


def test_a_model_whose_samples_all_failed_makes_a_figure():
    average = draw(dict.fromkeys(VALUES, (None, None))).axes[0]
    assert set(cells(average).values()) == {NOTHING}
    assert average.get_title() == "Mean over datasets · n = 0"


def test_the_script_writes_the_numbers_of_all_datasets_beside_it(tmp_path):
    files = {"agreement": agreement_files(tmp_path)}
    made = plot("method_agreement", SETTINGS, files, tmp_path, model="llama")
    found = pd.read_csv(made["png"].with_suffix(".csv")).set_index(["dataset", "method", "other"])
    tau = found[found["statistic"] == "kendall_tau"]["value"]
    assert tau["imdb", "attention", "mine"] == 0.5
    assert tau["average", "attention", "mine"] == 0.75
