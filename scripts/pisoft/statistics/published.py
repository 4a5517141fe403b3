"""The paper's printed numbers (`config/published.csv`): reading and checking them."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from pisoft.config.base import TokenWeights
from pisoft.config.jobs.pages import PUBLISHED_MODELS
from pisoft.config.studies import SELECTED_LABELS, SELECTED_METHODS, grad_ellm_label
from pisoft.errors import BenchmarkError, did_you_mean
from pisoft.statistics.metrics import AUC_METRICS, AVERAGE, RANKING_METRICS, Metric
from pisoft.statistics.metrics import METRICS as RUN_METRICS

CITATION = (
    "Xin Huang and Antoni B. Chan: Faithfulness Evaluation for Decoder-only LLM Attributions "
    "with Controlled Retained Information."
)


METRICS = {
    **{name: RUN_METRICS[name] for name in (*AUC_METRICS, "expected_retained", *RANKING_METRICS)},
    "soft_ns": Metric("Original Soft-NS ↑", "soft_ns"),
    "soft_nc": Metric("Original Soft-NC ↑", "soft_nc"),
    "seconds_per_sample": Metric("Seconds per sample ↓", "seconds_per_sample", "lowest"),
}
UNROUTED = {*RANKING_METRICS, "seconds_per_sample"}  # of no protocol
PROTOCOLS = ("dynamic", "fixed")
MODELS = PUBLISHED_MODELS
DATASETS = {
    "imdb": "IMDb",
    "sst2": "SST-2",
    "boolq_eraser": "BoolQ (ERASER)",
    "tellmewhy": "TellMeWhy",
    "wikibio": "WikiBio",
}
METHODS = {
    "attention": "Attention",
    "deeplift": "DeepLIFT",
    "input_x_gradient": "Input×Gradient",
    "integrated_gradients": "Integrated Gradients",
    "random": "Random",
    "saliency": "Saliency",
    "value_zeroing": "Value Zeroing",
    "reagent": "ReAGent",
    "grad_ellm": grad_ellm_label("loosened"),
    "grad_ellm_original": grad_ellm_label("original"),
}
# What the paper's "Ours" may be, in the order shown. It often names no variant, and reports the
# best of several numbers of layers, selected on the samples that it reports.
LEAKY_METHODS: dict[TokenWeights, str] = {
    "loosened": "grad_ellm_leaky",
    "original": "grad_ellm_original_leaky",
}
VARIANTS = {
    "grad_ellm_original": METHODS["grad_ellm_original"],
    **{SELECTED_METHODS[weights]: label for weights, label in SELECTED_LABELS.items()},
    **{
        name: grad_ellm_label(weights, "as in the paper: depth selected on what is reported")
        for weights, name in LEAKY_METHODS.items()
    },
}
COLUMN = ["protocol", "model", "metric"]  # what identifies one half of a printed table
HEADER = ("table", *COLUMN, "dataset", "method", "value")
_LEGAL: Mapping[str, tuple[str, ...]] = {
    "model": tuple(MODELS),
    "metric": tuple(METRICS),
    "dataset": (*DATASETS, AVERAGE),
    "method": tuple(METHODS),
}
_PLAIN_NUMBER = re.compile(r"\d+(\.\d+)?")


def load_published(path: Path) -> pd.DataFrame:
    """Read the published numbers, a row per printed cell in the order of the file.

    Columns are those of :data:`HEADER` (`protocol` is empty where there is none; `value` is a
    float) and `decimals`, the number of digits that are printed after the point.

    Raises:
        BenchmarkError: no such file, a wrong header, or a line with a missing or unknown name, a
            missing or superfluous protocol, an invalid number, or the cell of an earlier line.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            header, *lines = list(csv.reader(file)) or [[]]
    except (OSError, UnicodeError, csv.Error) as error:
        raise BenchmarkError(f"{path}: cannot be read: {error}") from error
    if tuple(header) != HEADER:
        raise BenchmarkError(f"{path}: line 1: the header must be {','.join(HEADER)}")
    if not lines:
        raise BenchmarkError(f"{path}: holds no number")
    seen: dict[tuple[str, ...], int] = {}
    for number, cells in enumerate(lines, start=2):
        where = f"{path}: line {number}"
        _check_line(cells, where)
        first = seen.setdefault(tuple(cells[1:-1]), number)
        if first != number:
            raise BenchmarkError(f"{where}: the same cell as in line {first}")
    published = pd.DataFrame(lines, columns=list(HEADER), dtype="str")
    decimals = published["value"].str.partition(".")[2].str.len()
    return published.assign(value=published["value"].astype(np.float64), decimals=decimals)


def averaged_columns(
    published: pd.DataFrame,
) -> Iterator[tuple[dict[str, str], pd.DataFrame, pd.DataFrame]]:
    """Yield protocol, model and metric of each printed average, its cells, and its rows.

    Cells are datasets × methods in the order of the paper.
    """
    for key, rows in published.groupby(COLUMN, sort=False):
        averages = rows[rows["dataset"] == AVERAGE]
        if len(averages):
            cells = rows.set_index(["dataset", "method"])["value"].unstack(sort=False)
            yield dict(zip(COLUMN, key, strict=True)), cells.drop(index=AVERAGE), averages


def average_deviations(published: pd.DataFrame) -> pd.DataFrame:
    """Return the printed averages that differ from the rounded means of their cells.

    Each has `printed`, `mean`, and `explained`: whether rounding or truncating cells and average
    from more digits can explain it.
    """
    parts = []
    for _, cells, averages in averaged_columns(published):
        means = cells.mean(skipna=False).rename("mean")
        parts.append(averages.rename(columns={"value": "printed"}).merge(means, on="method"))
    rows = pd.concat(parts, ignore_index=True)
    unit = 10.0 ** -rows["decimals"]
    difference = (rows["mean"] - rows["printed"]).abs()
    # Half a unit for the average, another half for its rounded cells.
    rows["explained"] = difference <= unit * (1 + 1e-9)
    names = [*COLUMN, "method", "decimals", "printed", "mean", "explained"]
    # Either digit rounds a tie.
    return rows.loc[difference > unit / 2 * (1 + 1e-9), names]


def _check_line(cells: list[str], where: str) -> None:
    if len(cells) != len(HEADER):
        raise BenchmarkError(f"{where}: {len(cells)} values, but {len(HEADER)} columns")
    line = dict(zip(HEADER, cells, strict=True))
    routed = line["metric"] not in UNROUTED
    legal = {**_LEGAL, "protocol": PROTOCOLS} if routed else _LEGAL
    for name, names in legal.items():
        if line[name] not in names:
            hint = did_you_mean(line[name], names)
            raise BenchmarkError(f"{where}: {name}: unknown '{line[name]}'{hint}")
    if line["protocol"] and not routed:
        raise BenchmarkError(
            f"{where}: protocol: '{line['protocol']}' is not allowed; "
            f"'{line['metric']}' has none, so leave it empty"
        )
    if not line["table"]:
        raise BenchmarkError(f"{where}: table: is empty; give the paper's label of the table")
    if not _PLAIN_NUMBER.fullmatch(line["value"]):
        raise BenchmarkError(
            f"{where}: value: '{line['value']}' is not a number as printed, such as 0.603"
        )
