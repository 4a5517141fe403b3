"""The numbers that the paper prints (`config/published.csv`): reading, checking, what they are of.

Xin Huang and Antoni B. Chan: Faithfulness Evaluation for Decoder-only LLM Attributions with
Controlled Retained Information.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from pisoft.config import naming
from pisoft.config.base import TokenWeights
from pisoft.config.studies import SELECTED_LABELS, SELECTED_METHODS
from pisoft.errors import BenchmarkError, did_you_mean
from pisoft.statistics.metrics import AVERAGE, Best

CITATION = (
    "Xin Huang and Antoni B. Chan: Faithfulness Evaluation for Decoder-only LLM Attributions "
    "with Controlled Retained Information."
)


@dataclass(frozen=True)
class PublishedMetric:
    """A metric of the paper; one that is `routed` is of a protocol."""

    label: str
    best: Best | None  # None: neither end is better
    routed: bool


METRICS = {
    "auc_pi_soft_ns": PublishedMetric("AUC π-Soft-NS ↑", "highest", routed=True),
    "auc_pi_soft_nc": PublishedMetric("AUC π-Soft-NC ↑", "highest", routed=True),
    "soft_ns": PublishedMetric("Original Soft-NS ↑", "highest", routed=True),
    "soft_nc": PublishedMetric("Original Soft-NC ↑", "highest", routed=True),
    "expected_retained": PublishedMetric("E[R]", None, routed=True),
    "deletion_auc": PublishedMetric("Deletion ↑", "highest", routed=False),
    "insertion_auc": PublishedMetric("Insertion ↓", "lowest", routed=False),
    "seconds_per_sample": PublishedMetric("Seconds per sample ↓", "lowest", routed=False),
}
PROTOCOLS = ("dynamic", "fixed")
MODELS = {
    "llama-3.1-8b-instruct": "Llama-3.1-8B-Instruct",
    "mistral-7b-instruct-v0.3": "Mistral-7B-Instruct-v0.3",
    "llama-3.1-70b-instruct": "Llama-3.1-70B-Instruct",
}
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
    "grad_ellm": naming.grad_ellm("loosened"),
    "grad_ellm_original": naming.grad_ellm("original"),
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
        name: naming.grad_ellm(weights, "as in the paper: depth selected on what is reported")
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
    """Read the published numbers.

    Returns:
        One row per printed cell, in the order of the file, with the columns of :data:`HEADER`
        (`protocol` is empty where there is none; `value` is a float) and `decimals`, the number of
        digits that are printed after the point.

    Raises:
        BenchmarkError: no such file, another header, or a line with a missing or unknown name, a
            protocol too many or too few, something that is no plain number, or a cell that an
            earlier line has.
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


def columns_of(published: pd.DataFrame) -> dict[tuple[str, str, str], pd.DataFrame]:
    """Return the rows of each protocol, model and metric, in the order of the paper."""
    groups = published.groupby(COLUMN, sort=False)
    return {(str(a), str(b), str(c)): rows for (a, b, c), rows in groups}


def matrix(column: pd.DataFrame, values: str = "value") -> pd.DataFrame:
    """Return a column's cells as datasets × methods, in the order of the paper."""
    cells = column.pivot(index="dataset", columns="method", values=values)
    return cells.reindex(index=column["dataset"].unique(), columns=column["method"].unique())


def average_deviations(published: pd.DataFrame) -> pd.DataFrame:
    """Compare the printed averages with the means of the cells that they are averages of.

    Returns:
        One row per printed average that is not its cells' mean, rounded: protocol, model, metric,
        method, decimals, `printed`, `mean`, and `explained`: whether cells and average rounded (or
        cut off) from more digits could have given it.
    """
    rows = []
    for key, column in columns_of(published).items():
        cells = matrix(column)
        if AVERAGE not in cells.index:
            continue
        means = cells.drop(index=AVERAGE).mean(skipna=False)
        decimals = matrix(column, "decimals").loc[AVERAGE]
        for method, printed in cells.loc[AVERAGE].items():
            unit = 10.0 ** -decimals[method]
            difference = abs(means[method] - printed)
            if difference > unit / 2 * (1 + 1e-9):  # not at a tie, which either digit rounds
                rows.append(
                    {
                        **dict(zip(COLUMN, key, strict=True)),
                        "method": method,
                        "decimals": int(decimals[method]),
                        "printed": printed,
                        "mean": means[method],
                        # Half a unit for the average, another half for its rounded cells.
                        "explained": bool(difference <= unit * (1 + 1e-9)),
                    }
                )
    names = [*COLUMN, "method", "decimals", "printed", "mean", "explained"]
    return pd.DataFrame(rows, columns=names)


def _check_line(cells: list[str], where: str) -> None:
    if len(cells) != len(HEADER):
        raise BenchmarkError(f"{where}: {len(cells)} values, but {len(HEADER)} columns")
    line = dict(zip(HEADER, cells, strict=True))
    for name, legal in _LEGAL.items():
        if line[name] not in legal:
            raise BenchmarkError(
                f"{where}: {name}: unknown '{line[name]}'" + did_you_mean(line[name], legal)
            )
    if METRICS[line["metric"]].routed and line["protocol"] not in PROTOCOLS:
        raise BenchmarkError(
            f"{where}: protocol: unknown '{line['protocol']}'"
            + did_you_mean(line["protocol"], PROTOCOLS)
        )
    if not METRICS[line["metric"]].routed and line["protocol"]:
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
