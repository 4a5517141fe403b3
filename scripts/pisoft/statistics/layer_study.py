"""The layer study: how many layers Grad-ELLM should sum (paper, app:layer-ablation).

A depth is selected on the development samples and reported on the rest. The paper selects on the
samples that it reports; that number is computed too, as `leaky`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from pisoft.config.slices.summaries import LayerStudySlice
from pisoft.contracts import SCHEMAS, read_provenance
from pisoft.errors import BenchmarkError
from pisoft.keyed import keyed_generator
from pisoft.statistics.reading import Files, Summary
from pisoft.statistics.soft import summarise

METRICS = {"auc_pi_soft_ns": "AUC π-Soft-NS ↑", "auc_pi_soft_nc": "AUC π-Soft-NC ↑"}
DEVELOPMENT, REST = "development", "rest"
SELECTED, FIXED, LEAKY = "selected", "fixed", "leaky"
SMALLEST_PART = 2  # samples: fewer have no standard error
ROW = ["dataset", "token_weights", "metric"]


Settings = LayerStudySlice


def summaries(files: Files, settings: LayerStudySlice) -> dict[str, Summary]:
    """Return one file of samples, from the study's `soft` files."""
    _check_layers(settings, files["soft"])
    return {"layer_study": study_samples(settings, files["soft"])}


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


def study_samples(settings: LayerStudySlice, paths: Sequence[Path]) -> pa.Table:
    """Return the `layer_study` rows: cell, sample and AUC, with depth and part.

    Args:
        settings: the study.
        paths: its `soft` files.

    Raises:
        BenchmarkError: as :func:`pisoft.statistics.soft.summarise`.
    """
    samples, _ = summarise(paths, settings.minimum_h0, settings.clamp)
    rows = samples.to_pandas()
    rows = rows[rows["metric"].isin(METRICS)]
    methods = pd.DataFrame(
        [{**method.model_dump(), "method": method.name} for method in settings.methods]
    )
    rows = rows.merge(methods, on=["model", "method"], how="left", validate="many_to_one")
    rows["part"] = [
        part_of(settings.seed, dataset, sample_id, settings.development_share)
        for dataset, sample_id in zip(rows["dataset"], rows["sample_id"], strict=True)
    ]
    rows["depth"] = rows["depth"].astype("Int32")
    schema = SCHEMAS["layer_study"]
    table = pa.Table.from_pandas(rows[schema.names], schema=schema, preserve_index=False)
    return table.replace_schema_metadata(None)


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


def _row_numbers(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Return statistic, depth, value, standard_error, n, n_failed of one dataset and metric."""
    methods = rows.drop_duplicates("method").set_index("method").sort_values("depth")
    candidates = methods.index[methods["candidate"]]
    (fixed,) = methods.index[methods["fixed"]]
    values = rows.pivot(index="sample_id", columns="method", values="value")  # failed: NaN
    whole = values.dropna()
    parts = rows.drop_duplicates("sample_id").set_index("sample_id")["part"][whole.index]
    development, rest = whole[parts == DEVELOPMENT], whole[parts == REST]
    enough = min(len(development), len(rest)) >= SMALLEST_PART

    def number(statistic: str, part: pd.DataFrame, method: str | None) -> dict[str, Any]:
        known = enough and method is not None
        return {
            "statistic": statistic,
            "depth": None if method is None else methods["depth"][method],
            "value": part[method].mean() if known else float("nan"),
            "standard_error": part[method].sem(ddof=1) if known else float("nan"),
            "n": len(part),
            "n_failed": len(values) - len(whole),
        }

    def best(part: pd.DataFrame) -> str | None:
        return part[candidates].mean().idxmax() if enough else None  # the first, so smallest, depth

    return [
        *(number(DEVELOPMENT, development, method) for method in candidates),
        *(number(REST, rest, method) for method in candidates),
        number(SELECTED, rest, best(development)),
        number(FIXED, rest, fixed),
        number(LEAKY, whole, best(whole)),
    ]
