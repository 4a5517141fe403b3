"""LaTeX tables as large as the paper's: models, methods and datasets, all of them crossed."""

import itertools

import numpy as np
import pandas as pd
import pytest
from pisoft.tables.soft import SoftRows

from estimating import estimated
from pisoft.statistics.published import DATASETS, METHODS, MODELS
from pisoft.tables.datamodel_scores import SHOWN, STRICTEST, stored_draws_table
from pisoft.tables.original_soft import original_table
from pisoft.tables.pi_soft_auc import auc_table
from pisoft.tables.timings import timings_table
from pisoft.tables.variance_components import variance_table
from soft_tables import outcomes_of, sample_rows
from typesetting import assert_latex_fits, needs_latex

WHERE = "Llama-3.1-70B-Instruct · dynamic routing"
GRID = [step / 20 for step in range(1, 20)]


@pytest.fixture(scope="module")
def results():
    """Rows of `soft_samples`, and what is estimated from them."""
    means = {
        (method, dataset): 0.9 - place / 20
        for place, method in enumerate(METHODS)
        for dataset in DATASETS
    }
    rows = sample_rows(means, samples=7)
    return rows, estimated(rows)


def soft(build):
    def table(results):
        rows, found = results
        families = dict.fromkeys(METHODS, "gradient")
        return build(
            SoftRows(
                found.statistics, outcomes_of(rows), WHERE, METHODS, families, DATASETS, "none"
            )
        )

    return table


def variances(results):
    return variance_table(results[1].variances, where=WHERE, methods=METHODS, datasets=DATASETS)


def timings(results):
    cells = itertools.product(MODELS, METHODS, DATASETS)
    rows = pd.DataFrame(cells, columns=["model", "method", "dataset"]).assign(
        n=2000, n_failed=0, seconds_per_sample=123.4, peak_memory_mb=123456.0,
        peak_device_memory_mb=np.nan, device="NVIDIA H100 80GB HBM3",
    )  # fmt: skip
    return timings_table(
        rows,
        models=MODELS,
        methods=METHODS,
        datasets=DATASETS,
        controls=("random",),
        imported=(),
    )


NO_NOISE = pd.DataFrame(columns=["metric", "value"])


def stored_draws(results):
    rows = pd.DataFrame(results[0])
    samples = rows[rows["metric"] == "identity"].assign(metric=STRICTEST)
    soft = results[1].statistics
    of_one = soft[soft["metric"] == "soft_nc"]
    statistics = pd.concat([of_one.assign(metric=metric) for metric in SHOWN])
    return stored_draws_table(
        statistics,
        samples,
        where=WHERE,
        methods=METHODS,
        families=dict.fromkeys(METHODS, "gradient"),
        datasets=DATASETS,
    )


@needs_latex
@pytest.mark.parametrize(
    "table",
    [
        soft(lambda rows: auc_table(rows, GRID, "bfloat16", NO_NOISE)),
        soft(original_table),
        variances,
        timings,
        stored_draws,
    ],
    ids=("pi_soft_auc", "original_soft", "variance_components", "timings", "datamodel_scores"),
)
def test_the_paper_s_numbers_fit_a_column_or_both(results, tmp_path, table):
    assert_latex_fits(table(results), tmp_path)
