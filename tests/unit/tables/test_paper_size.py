"""LaTeX tables as large as the paper's: models, methods and datasets, all of them crossed."""

import itertools

import pandas as pd
import pytest

from estimating import estimated, view
from pisoft.statistics.metrics import DATAMODEL_METRICS
from pisoft.statistics.published import DATASETS, METHODS, MODELS
from pisoft.statistics.results import results_table
from pisoft.tables import (
    datamodel_scores,
    original_soft,
    pi_soft_auc,
    timings,
    variance_components,
)
from soft_tables import CELL, curves_on, sample_rows
from typesetting import assert_latex_fits, needs_latex

GRID = [step / 20 for step in range(1, 20)]


@pytest.fixture(scope="module")
def results():
    """Results of the soft metrics, and what looks like those of datamodel scores."""
    means = {
        (method, dataset): 0.9 - place / 20
        for place, method in enumerate(METHODS)
        for dataset in DATASETS
    }
    frames = vars(estimated(sample_rows(means, samples=7)))
    statistics, coverage = frames["statistics"], frames["coverage"]
    soft = statistics[statistics["metric"] == "soft_nc"]
    datamodel = [soft.assign(metric=metric) for metric in DATAMODEL_METRICS]
    counted = coverage[coverage["metric"] == "identity"].assign(metric=DATAMODEL_METRICS[0])
    return {
        **frames,
        "statistics": pd.concat([statistics, *datamodel]),
        "coverage": pd.concat([coverage, counted]),
        **curves_on(GRID),
    }


@needs_latex
@pytest.mark.parametrize(
    "display",
    [
        pi_soft_auc,
        original_soft,
        variance_components,
        datamodel_scores,
    ],
    ids=lambda display: display.__name__,
)
def test_the_paper_s_numbers_fit_a_column_or_both(results, tmp_path, display):
    names = {"models": {"llama": "Llama-3.1-70B-Instruct"}, "clamp": "none"}
    shown = view(results, CELL, methods=METHODS, datasets=DATASETS, **names)
    assert_latex_fits(display.table(shown), tmp_path)


@needs_latex
def test_times_fit_a_column_or_both(tmp_path):
    measured = {"seconds_per_sample": 123.4, "peak_memory_mb": 123456.0}
    cells = itertools.product(MODELS, METHODS, DATASETS, measured)
    rows = pd.DataFrame(cells, columns=["model", "method", "dataset", "metric"])
    rows = rows.assign(value=rows["metric"].map(measured), n=2000, text="NVIDIA H100 80GB HBM3")
    frames = {"timings": results_table("timings", [rows]).to_pandas()}
    shown = view(frames, {}, models=MODELS, methods=METHODS, datasets=DATASETS)
    assert_latex_fits(timings.table(shown), tmp_path)
