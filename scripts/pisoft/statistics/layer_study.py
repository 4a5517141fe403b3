"""The layer study: how many layers Grad-ELLM should sum (paper, app:layer-ablation).

As in the paper, one depth is selected per model and dataset, here by the mean of both AUCs over all
protocols. It is selected on development samples and reported on the rest. The paper selects on the
reported samples; `leaky` is that number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pisoft.config.jobs.summaries import LayerStudyJob
from pisoft.config.studies import SELECTED_METHODS
from pisoft.errors import BenchmarkError
from pisoft.seeds import keyed_generator
from pisoft.statistics.metrics import AUC_METRICS, DECIMALS
from pisoft.statistics.reading import Files, Summary
from pisoft.statistics.samples import mean_rows
from pisoft.statistics.soft import summarise
from pisoft.store.parquet import OK, read_provenance

DEVELOPMENT, REST = "development", "rest"
SELECTED, FIXED, LEAKY = "selected", "fixed", "leaky"
SMALLEST_PART = 2  # samples: fewer have no standard error
CELL = ["model", "dataset", "token_weights"]  # what has a depth
MEAN = ["value", "standard_error", "low", "high", "n_clusters"]
NUMBER = ["protocol", "metric", "part", "position", *MEAN, "n", "n_failed", "text"]


def summaries(files: Files, settings: LayerStudyJob) -> dict[str, Summary]:
    """Return the study's samples, its numbers, and the samples of the selected depths."""
    _check_layers(settings, files["soft"])
    measured, *_ = summarise(files["soft"], settings.minimum_h0, settings.clamp)
    samples = measured.to_pandas()
    clusters = files.clusters()
    study = study_samples(settings, samples, clusters)
    return {
        "layer_study": [study],
        "depths": [depth_statistics(study, clusters)],
        "soft_samples": [depth_selected(samples, study)],
    }


def _check_layers(settings: LayerStudyJob, paths: Iterable[Path]) -> None:
    """Check that depths meant as all layers equal the number of layers of the loaded model."""
    depths = {(m.model, m.name): m.depth for m in settings.methods if m.all_layers}
    for path in paths:
        model, name = path.parts[-3:-1]
        depth, n_layers = depths.get((model, name)), read_provenance(path).get("layers")
        if depth not in (None, n_layers):
            raise BenchmarkError(
                f"{path}: model '{model}' has {n_layers} decoder layers, but the run file's "
                f"catalogue entry says {depth}; correct its `layers`"
            )


def part_of(seed: int, dataset: str, cluster: str, development_share: float) -> str:
    """Return the part of a cluster, or of a sample without one; it depends on nothing else."""
    draw = keyed_generator(seed, "layer_study", dataset, cluster).random()
    return DEVELOPMENT if draw < development_share else REST


def study_samples(
    settings: LayerStudyJob, samples: pd.DataFrame, clusters: Mapping[str, str]
) -> pd.DataFrame:
    """Return the AUC rows of `soft_samples` as rows of `layer_study`."""
    rows = samples[samples["metric"].isin(AUC_METRICS)]
    methods = pd.DataFrame(
        [{**method.model_dump(), "method": method.name} for method in settings.methods]
    )
    rows = rows.merge(methods, on=["model", "method"], how="left", validate="many_to_one")
    rows["part"] = [
        part_of(settings.seed, dataset, clusters.get(sample, sample), settings.development_share)
        for dataset, sample in zip(rows["dataset"], rows["sample_id"], strict=True)
    ]
    return rows.astype({"depth": "Int32"})


def depth_selected(samples: pd.DataFrame, study: pd.DataFrame) -> pd.DataFrame:
    """Return rows of `soft_samples` for the methods of :data:`SELECTED_METHODS`.

    They are the rest samples at the best depth on the development samples.
    """
    parts = [samples.iloc[:0]]
    for (*cell, weights), rows in study.groupby(CELL, sort=False):
        best = next(number["name"] for number in _numbers(rows, {}) if number["part"] == SELECTED)
        is_selected = (samples[["model", "dataset", "method"]] == [*cell, best]).all(axis="columns")
        is_selected &= samples["sample_id"].isin(rows.loc[rows["part"] == REST, "sample_id"])
        parts.append(samples[is_selected].assign(method=SELECTED_METHODS[weights]))
    return pd.concat(parts)


def depth_statistics(
    study: pd.DataFrame, clusters: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Return the study's numbers, rows of `depths`, in the order of the samples.

    Every number of a dataset and token weighting (`method`) is over the samples evaluated at every
    depth (`position`). Its `part` is

    * `development`, `rest`: mean over that part at each candidate depth;
    * `selected`: mean over the rest at the candidate that is best on the development part;
    * `fixed`: mean over the rest at the fixed depth;
    * `leaky`: mean over all samples at the candidate that is best on all samples (the paper). It
      has no interval, which would not show the bias of picking the best of several noisy means.

    The best depth has the highest mean over metrics and protocols; ties go to the smaller depth.
    There are no values if a part has fewer than :data:`SMALLEST_PART` samples. `text` counts all
    failed samples.
    """
    numbers = [
        dict(zip(CELL, key, strict=True)) | number
        for key, rows in study.groupby(CELL, sort=False)
        for number in _numbers(rows, clusters or {})
    ]
    table = pd.DataFrame(numbers, columns=[*CELL, *NUMBER])
    table.loc[table["part"] == LEAKY, ["low", "high"]] = np.nan
    return table.rename(columns={"token_weights": "method"})


def _numbers(rows: pd.DataFrame, clusters: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield :data:`NUMBER` of a model, dataset and token weighting; no `name`: too few samples."""
    methods = rows.drop_duplicates("method").set_index("method").sort_values("depth")
    candidates, (fixed,) = (methods.index[methods[name]] for name in ("candidate", "fixed"))
    values = rows.pivot(
        index=["sample_id", "part"], columns=["protocol", "metric", "method"], values="value"
    )
    part_of_sample = values.index.get_level_values("part")
    samples = {name: values[part_of_sample == name] for name in (DEVELOPMENT, REST)}
    samples[LEAKY] = values
    complete = {name: part_values.dropna() for name, part_values in samples.items()}
    enough = min(len(complete[name]) for name in (DEVELOPMENT, REST)) >= SMALLEST_PART
    means = {name: complete[name].mean().groupby("method").mean() for name in complete}
    best = {
        name: means[name][candidates].round(DECIMALS).idxmax() if enough else None
        for name in (DEVELOPMENT, LEAKY)
    }
    failed = rows[rows["status"] != OK].drop_duplicates("sample_id")["status"].value_counts()
    failures = ", ".join(f"{count} {status}" for status, count in failed.items())
    numbers = [(part, part, name) for part in (DEVELOPMENT, REST) for name in candidates]
    numbers += [(SELECTED, REST, best[DEVELOPMENT]), (FIXED, REST, fixed)]
    numbers += [(LEAKY, LEAKY, best[LEAKY])]
    estimates = {
        part: mean_rows(part_values.droplevel("part"), clusters)
        for part, part_values in (complete.items() if enough else ())
    }
    for protocol, metric in values.columns.droplevel("method").unique():
        for number, part, name in numbers:
            part_values = complete[part]
            estimate = (
                estimates[part].loc[(protocol, metric, name)][MEAN]
                if enough and name
                else [np.nan] * len(MEAN)
            )
            depth = methods["depth"].astype(float).get(name)
            counts = len(part_values), len(samples[part]) - len(part_values)
            described = (protocol, metric, number, depth, *estimate, *counts)
            yield dict(zip([*NUMBER, "name"], (*described, failures, name), strict=True))
