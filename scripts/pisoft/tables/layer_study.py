"""The table of the layer study; its numbers are :mod:`pisoft.statistics.layer_study`'s."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from pisoft.config import naming
from pisoft.config.base import TokenWeights
from pisoft.contracts import OK
from pisoft.displays import display
from pisoft.statistics.layer_study import (
    DEVELOPMENT,
    FIXED,
    LEAKY,
    METRICS,
    REST,
    SELECTED,
    SMALLEST_PART,
    depth_statistics,
)
from pisoft.tables.layout import Block, Entry, Row, Table
from pisoft.units import NOTHING
from pisoft.views import View

_ROW = ["metric", "dataset", "token_weights"]


@display(
    title="Layers that Grad-ELLM sums",
    by=("protocol", "model"),
    reads={"layer_study": "summary/layer_study"},
    cells="study",
)
def table(view: View) -> Table:
    """Build the table of one protocol and model."""
    files, settings, cell = view.files, view.settings, view.cell
    rows = files.rows("layer_study", **cell)
    names = set(rows["dataset"])
    studied = {name: label for name, label in settings.datasets.items() if name in names}
    return layer_study_table(rows, where=settings.where(cell), datasets=studied)


def layer_study_table(samples: pd.DataFrame, *, where: str, datasets: Mapping[str, str]) -> Table:
    """Build the table of Grad-ELLM at several depths (paper, app:layer-ablation).

    Args:
        samples: `layer_study` rows of one protocol and model.
        where: model and protocol, for the title.
        datasets: label of each dataset, in the order of the rows.
    """
    values = depth_statistics(samples)
    order = {name: place for place, name in enumerate([*METRICS, *datasets])}
    values = values.sort_values(
        ["metric", "dataset"], key=lambda names: names.map(order), kind="stable"
    )
    depths = sorted(values.loc[values["statistic"] == REST, "depth"].unique())
    rows = dict(iter(values.groupby(_ROW, sort=False)))
    blocks = tuple(
        Block(
            title,
            tuple(
                Row(_name(datasets[dataset], weights), _entries(numbers))
                for (metric, dataset, weights), numbers in rows.items()
                if metric == name
            ),
        )
        for name, title in METRICS.items()
    )
    fixed = values.loc[values["statistic"] == FIXED, "depth"].iloc[0]
    columns = (
        *(f"Depth {depth}" for depth in depths),
        "Selected depth",
        "Selected",
        f"Fixed depth {_depth_text(fixed, 'all')}",
        "Leaky depth",
        "Leaky",
    )
    return Table(
        title=f"Layers that Grad-ELLM sums · {where}",
        corner="Dataset, method",
        columns=columns,
        blocks=blocks,
        notes=(*_STATISTICS, *_sample_notes(samples, values, datasets)),
        values=values[["metric", *values.columns.drop("metric")]],
    )


_STATISTICS = (
    "Depth d: AUC of Grad-ELLM over the last d decoder layers (at most all of them), mean over the "
    "samples that had no part in selecting a depth. Higher is better.",
    "Selected depth: the one with the highest mean on the development samples (of equals, the "
    "smaller). Selected and fixed depth: mean ± standard error on the other samples.",
    "Leaky, for comparison only: the depth is selected on the very samples that are reported (all "
    "of them), as in the paper. The best of several noisy means is too high on average; to see by "
    "how much on equal samples, compare Selected with the best Depth column.",
)


def _name(dataset: str, weights: TokenWeights) -> str:
    return f"{dataset}, {naming.grad_ellm(weights)}"


def _entries(numbers: pd.DataFrame) -> tuple[Entry, ...]:
    """Return the cells of one row."""
    by_statistic = numbers.set_index("statistic")
    selected, fixed, leaky = (by_statistic.loc[name] for name in (SELECTED, FIXED, LEAKY))
    by_depth = numbers[numbers["statistic"] == REST].sort_values("depth")
    texts = (
        *map(_number_text, by_depth["value"]),
        _depth_text(selected["depth"], NOTHING),
        _mean_text(selected),
        _mean_text(fixed),
        _depth_text(leaky["depth"], NOTHING),
        _number_text(leaky["value"]),
    )
    return tuple(map(Entry, texts))


def _number_text(value: float) -> str:
    return NOTHING if np.isnan(value) else f"{value:.3f}"


def _mean_text(number: pd.Series) -> str:
    if np.isnan(number["value"]):
        return NOTHING
    return f"{number['value']:.3f} ± {number['standard_error']:.3f}"


def _depth_text(depth: object, missing: str) -> str:
    return missing if pd.isna(depth) else str(depth)


# Notes ----------------------------------------------------------------------------------------


def _sample_notes(
    samples: pd.DataFrame, values: pd.DataFrame, datasets: Mapping[str, str]
) -> list[str]:
    """Say how many samples each part has, which of them failed why, and what has no value."""
    single = samples.drop_duplicates(["dataset", "sample_id"])
    parts = single.groupby(["dataset", "part"]).size().unstack(fill_value=0)
    parts = parts.reindex(columns=[DEVELOPMENT, REST], fill_value=0)
    listed = ", ".join(
        f"{datasets[name]} {parts.loc[name, DEVELOPMENT]} + {parts.loc[name, REST]}"
        for name in datasets
    )
    return [
        f"Samples, development + rest: {listed}.",
        _failure_note(samples, datasets),
        *_missing_notes(values, datasets),
    ]


def _failure_note(samples: pd.DataFrame, datasets: Mapping[str, str]) -> str:
    """Count the samples that failed at any depth by dataset, token weighting and reason."""
    failed = samples[samples["status"] != OK]
    failed = failed.drop_duplicates(["dataset", "token_weights", "sample_id"])
    if failed.empty:
        return "No sample failed."
    counts = failed.groupby(["dataset", "token_weights", "status"], sort=False).size()
    listed = "; ".join(
        f"{_name(datasets[dataset], weights)}: {count} {status}"
        for (dataset, weights, status), count in counts.items()
    )
    return f"Samples that failed at some depth, left out at every depth: {listed}."


def _missing_notes(values: pd.DataFrame, datasets: Mapping[str, str]) -> list[str]:
    """Name each dataset and token weighting that has too few samples in a part."""
    counts = values[values["statistic"].isin([DEVELOPMENT, REST])]
    counts = counts.drop_duplicates(["dataset", "token_weights", "statistic"])
    counts = counts.pivot(index=["dataset", "token_weights"], columns="statistic", values="n")
    return [
        f"No value for {_name(datasets[dataset], weights)}: {row[DEVELOPMENT]} development samples "
        f"and {row[REST]} others could be evaluated, and each part needs {SMALLEST_PART}."
        for (dataset, weights), row in counts.iterrows()
        if row.min() < SMALLEST_PART
    ]
