"""The layer study: how many layers Grad-ELLM should sum (paper, app:layer-ablation).

A depth is selected on the development samples and reported on the rest. The paper selects on the
samples that it reports; that number is computed too, as `leaky`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from pisoft.columns import SCHEMAS
from pisoft.config.slices import LayerStudySlice
from pisoft.config.studies import SELECTED_METHODS
from pisoft.contracts import read_provenance
from pisoft.errors import BenchmarkError
from pisoft.keyed import keyed_generator
from pisoft.statistics.reading import Files, Summary
from pisoft.statistics.soft import SAMPLE_METRICS, summarise

METRICS = {"auc_pi_soft_ns": "AUC π-Soft-NS ↑", "auc_pi_soft_nc": "AUC π-Soft-NC ↑"}
DEVELOPMENT, REST = "development", "rest"
SELECTED, FIXED, LEAKY = "selected", "fixed", "leaky"
SMALLEST_PART = 2  # samples: fewer have no standard error
ROW = ["dataset", "token_weights", "metric"]
# Metrics that tables show of the depth selected by the first. What both have in common is of one.
_MEASURED = {
    "auc_pi_soft_ns": {
        *(name for name in SAMPLE_METRICS if name.startswith("auc_") and "_nc" not in name),
        *("monte_carlo_ns", "h0", "identity", "numerical"),
    },
    "auc_pi_soft_nc": {
        *(name for name in SAMPLE_METRICS if name.startswith("auc_") and "_nc" in name),
        "monte_carlo_nc",
    },
}


Settings = LayerStudySlice


def summaries(files: Files, settings: LayerStudySlice) -> dict[str, Summary]:
    """Return the study's samples, and those of the selected depths, from its `soft` files."""
    _check_layers(settings, files["soft"])
    measured, *_ = summarise(files["soft"], settings.minimum_h0, settings.clamp)
    samples = measured.to_pandas()
    study = study_samples(settings, samples)
    tables = {"layer_study": study, "soft_samples": depth_selected(samples, study)}
    return {
        kind: pa.Table.from_pandas(
            rows[SCHEMAS[kind].names], schema=SCHEMAS[kind], preserve_index=False
        ).replace_schema_metadata(None)
        for kind, rows in tables.items()
    }


def _check_layers(settings: LayerStudySlice, paths: Iterable[Path]) -> None:
    """Check that depths taken for all layers are all that the model was found to have."""
    whole = {
        (method.model, method.name): method for method in settings.methods if method.all_layers
    }
    for path in paths:
        model, name = path.parts[-3:-1]
        method = whole.get((model, name))
        found = read_provenance(path).get("layers")
        if method is not None and method.depth not in (None, found):
            raise BenchmarkError(
                f"{path}: model '{method.model}' has {found} decoder layers, but the run file's "
                f"catalogue entry says {method.depth}; correct its `shape`"
            )


def part_of(seed: int, dataset: str, sample_id: str, development_share: float) -> str:
    """Return the part of a sample, which depends on nothing but the arguments."""
    draw = keyed_generator(seed, "layer_study", dataset, sample_id).random()
    return DEVELOPMENT if draw < development_share else REST


def study_samples(settings: LayerStudySlice, samples: pd.DataFrame) -> pd.DataFrame:
    """Return the `layer_study` rows: cell, sample and AUC, with depth and part.

    Args:
        settings: the study.
        samples: rows of `soft_samples` of its cells.
    """
    rows = samples[samples["metric"].isin(METRICS)]
    methods = pd.DataFrame(
        [{**method.model_dump(), "method": method.name} for method in settings.methods]
    )
    rows = rows.merge(methods, on=["model", "method"], how="left", validate="many_to_one")
    rows["part"] = [
        part_of(settings.seed, dataset, sample_id, settings.development_share)
        for dataset, sample_id in zip(rows["dataset"], rows["sample_id"], strict=True)
    ]
    return rows.astype({"depth": "Int32"})


def depth_selected(samples: pd.DataFrame, study: pd.DataFrame) -> pd.DataFrame:
    """Return rows of `soft_samples` of the methods that :data:`SELECTED_METHODS` names.

    They are those of the depth that is best on the development samples, by dataset and metric, on
    the other samples.

    Args:
        samples: rows of `soft_samples` of the study's cells.
        study: rows of :func:`study_samples`.
    """
    parts = [samples.iloc[:0]]
    for (protocol, model, dataset, weights, metric), rows in study.groupby(
        ["protocol", "model", *ROW], sort=False
    ):
        depths = _Depths(rows)
        chosen = depths.best(depths.development)
        rest = rows.loc[rows["part"] == REST, "sample_id"]
        of_cell = (samples[["protocol", "model", "dataset"]] == [protocol, model, dataset]).all(
            axis=1
        )
        wanted = (samples["method"] == chosen) & samples["metric"].isin(_MEASURED[metric])
        own = samples[of_cell & wanted & samples["sample_id"].isin(rest)]
        parts.append(own.assign(method=SELECTED_METHODS[weights]))
    return pd.concat(parts, ignore_index=True)


def depth_statistics(samples: pd.DataFrame) -> pd.DataFrame:
    """Return the study's numbers, one per row: what the table's CSV holds.

    Every number of one dataset, token weighting and metric is over the samples that could be
    evaluated at every depth. `statistic` is

    * `development`, `rest`: mean over that part at each candidate depth;
    * `selected`: mean over the rest at the candidate that is best on the development part;
    * `fixed`: mean over the rest at the fixed depth;
    * `leaky`: mean over all samples at the candidate that is best on all samples (the paper).

    Best is the highest mean; of equal means, the smaller depth. If a part has fewer than
    :data:`SMALLEST_PART` samples, nothing has a value.

    Args:
        samples: `layer_study` rows of one protocol and model.

    Returns:
        dataset, token_weights, metric, statistic, depth, value, standard_error, n, n_failed, in
        the order of the rows given.
    """
    numbers = [
        dict(zip(ROW, key, strict=True)) | number
        for key, rows in samples.groupby(ROW, sort=False)
        for number in _row_numbers(rows)
    ]
    return pd.DataFrame(numbers).astype({"depth": "Int32"})


class _Depths:
    """The study's values of one dataset, token weighting and metric.

    Attributes:
        methods: facts of each method, in the order of depth.
        candidates: names of the methods that may be selected.
        n_failed: samples that failed at some depth.
        whole: values of the other samples by method, of which `development` and `rest` are parts.
        enough: whether each part has samples enough.
    """

    def __init__(self, rows: pd.DataFrame) -> None:
        self.methods = rows.drop_duplicates("method").set_index("method").sort_values("depth")
        self.candidates = self.methods.index[self.methods["candidate"]]
        values = rows.pivot(index="sample_id", columns="method", values="value")  # failed: NaN
        self.whole = values.dropna()
        self.n_failed = len(values) - len(self.whole)
        parts = rows.drop_duplicates("sample_id").set_index("sample_id")["part"]
        parts = parts[self.whole.index]
        self.development, self.rest = (self.whole[parts == part] for part in (DEVELOPMENT, REST))
        self.enough = min(len(self.development), len(self.rest)) >= SMALLEST_PART

    def best(self, part: pd.DataFrame) -> str | None:
        """Return the candidate with the highest mean; of equal ones, that of the smaller depth."""
        return part[self.candidates].mean().idxmax() if self.enough else None

    def number(self, statistic: str, part: pd.DataFrame, method: str | None) -> dict[str, Any]:
        """Return statistic, depth, value, standard_error, n, n_failed."""
        known = self.enough and method is not None
        return {
            "statistic": statistic,
            "depth": None if method is None else self.methods["depth"][method],
            "value": part[method].mean() if known else float("nan"),
            "standard_error": part[method].sem(ddof=1) if known else float("nan"),
            "n": len(part),
            "n_failed": self.n_failed,
        }


def _row_numbers(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the numbers of one dataset, token weighting and metric."""
    of = _Depths(rows)
    (fixed,) = of.methods.index[of.methods["fixed"]]
    return [
        *(of.number(DEVELOPMENT, of.development, method) for method in of.candidates),
        *(of.number(REST, of.rest, method) for method in of.candidates),
        of.number(SELECTED, of.rest, of.best(of.development)),
        of.number(FIXED, of.rest, fixed),
        of.number(LEAKY, of.whole, of.best(of.whole)),
    ]
