"""Effects of readings that the paper leaves open: one run's records, evaluated under each.

`make bench-readings CONFIG=config/local.yaml LOCAL_ROOT=DIR SETTINGS='max_samples=12'`. A reading
of the evaluation changes one key of the run file; its results are recomputed in the same folder,
results/readings, where Snakemake updates only what changed. Readings of a method are run as
additional methods. Prints two Markdown tables and writes their rows to results/bench/readings.json.

Squared distances are another reading, computed from the draws of the run itself.

The first table has a row per reading and metric: the mean of the methods' values (each averaged
over datasets, like in the tables of the run), under the run's own settings and under the reading;
the method whose value changes most; and Kendall's τ between the two orders of methods. The second
has a row per reading of a method: Kendall's τ of its scores with the default's, mean over samples
and range over datasets, and the differences of both AUCs from the default's.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import yaml
from snakemake.common.configfile import load_configfile
from snakemake.utils import update_config

from measuring import REPOSITORY, bench_parser, report_tables
from pisoft.errors import BenchmarkError
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.reading import Files, load_rows
from pisoft.statistics.soft import summarise
from pisoft.store.parquet import read_provenance, read_table, write_table
from pisoft.store.schemas import SCHEMAS
from pisoft.workflow.commandline import run

RUN = "readings"
METRICS = {
    "auc_pi_soft_ns": "π-Soft-NS",
    "auc_pi_soft_nc": "π-Soft-NC",
    "soft_ns": "Soft-NS",
    "soft_nc": "Soft-NC",
    "expected_retained": "E[R]",
    "deletion_auc": "deletion",
    "insertion_auc": "insertion",
}
AREAS = tuple(METRICS)[:2]
READINGS: dict[str, dict[str, Any]] = {
    "clamp: mean": {"evaluation": {"clamp": "mean"}},
    "clamp: none": {"evaluation": {"clamp": "none"}},
    "step_scores: aggregated": {"evaluation": {"step_scores": "aggregated"}},
    "step_scores: aggregated, of every token": {
        "generation": {"step_interval": 1},
        "evaluation": {"step_scores": "aggregated", "step_interval": 5},
    },
    "target: generated": {"target": "generated"},
    "normalisation: rank": {"evaluation": {"normalisation": "rank"}},
    "normalisation: max": {"evaluation": {"normalisation": "max"}},
    "scope: user_turn": {"evaluation": {"scope": "user_turn"}},
    "scope: all": {"evaluation": {"scope": "all"}},
    "mask: element": {"evaluation": {"mask": "element"}},
    "score_floor: 1e-3": {"evaluation": {"score_floor": 1e-3}},
    "minimum_h0: 0.1": {"evaluation": {"minimum_h0": 0.1}},
    "operator: zero": {"ranking": {"operator": "zero"}},
    "flip_of: first_token": {"ranking": {"flip_of": "first_token"}},
}
# Method, then the name of its reading and the options of the reading.
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "value_zeroing": {
        "raw mean": {"threshold": 0, "normalise_layers": False, "final_norm": False},
        "not normalised by layer": {"normalise_layers": False},
        "no threshold": {"threshold": 0},
        "last layer before the final norm": {"final_norm": False},
    },
    "attention": {"mean of all layers": {"layers": None}},
    "grad_ellm": {
        "cosine": {"similarity": "cosine"},
        "min-max over content": {"normalise_over": "content"},
        "ReLU of the sum": {"relu": "sum"},
        "heads apart": {"heads": "per_head"},
        "last layer only": {"layers": 1},
        "original λ": {"token_weights": "original"},
    },
}

DEFAULTS = ["random", "saliency", *VARIANTS]
STATISTICS = "data/summary/statistics.parquet"

logger = logging.getLogger(__name__)


def main(arguments: argparse.Namespace) -> None:
    """Evaluate under every reading, and report."""
    base = _base(arguments.configfile, arguments.config)
    results = arguments.directory / f"results/{RUN}"
    agreements = [
        f"data/summary/method_agreement/{model}/{dataset}.parquet"
        for model in base["models"]
        for dataset in base["datasets"]
    ]
    _make(base, arguments.directory, STATISTICS, *agreements)
    before = _averages(results)
    method_rows = _method_rows(results, before)
    evaluation_rows = reading_rows("squared distances", before, _squared(results, before))
    for name, change in READINGS.items():
        logger.info("%s", name)
        changed = {**deepcopy(base), "methods": DEFAULTS}
        update_config(changed, change)
        _make(changed, arguments.directory, STATISTICS)
        evaluation_rows += reading_rows(name, before, _averages(results))
    report_tables({"evaluation": evaluation_rows, "methods": method_rows}, arguments.output)


def _base(path: Path, changes: Iterable[str]) -> dict[str, Any]:
    """Return the run file with the readings of methods added to their defaults."""
    settings = load_configfile(path)
    for change in changes:
        key, _, value = change.partition("=")
        settings[key] = yaml.safe_load(value)
    entries = {
        _name(method, index): {"method": method, "label": f"{method}: {label}", "options": options}
        for method, variants in VARIANTS.items()
        for index, (label, options) in enumerate(variants.items())
    }
    methods = [*DEFAULTS, *entries]
    update_config(settings, {"run": RUN, "catalogue": {"methods": entries}})
    return {**settings, "methods": methods, "protocols": ["dynamic"], "layer_study": None}


def _name(method: str, index: int) -> str:
    return f"{method}_reading_{index + 1}"


def _make(settings: Mapping[str, Any], directory: Path, *targets: str) -> None:
    """Run the workflow up to some of the run's files.

    Raises:
        BenchmarkError: it fails.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
        yaml.safe_dump(dict(settings), file)
        file.flush()
        command = [sys.executable, "-m", "snakemake"]
        command += [f"results/{RUN}/{name}" for name in targets]
        command += ["--snakefile", str(REPOSITORY / "Snakefile"), "--directory", str(directory)]
        command += ["--configfile", file.name, "--quiet", "all", "--cores", "all"]
        if subprocess.run(command, check=False).returncode:
            raise BenchmarkError("the workflow failed; its messages are above")


def _averages(results: Path) -> pd.DataFrame:
    """Return averages over datasets: a row per method, a column per model and metric."""
    rows = Files(statistics=[results / STATISTICS]).rows("statistics", dataset=AVERAGE)
    rows = rows[rows["metric"].isin(METRICS)]
    return rows.pivot(index="method", columns=["model", "metric"], values="value")


def _squared(results: Path, before: pd.DataFrame) -> pd.DataFrame:
    """Return the averages with 1 minus the Bhattacharyya coefficient in place of its root."""
    datasets = set(load_rows(results / STATISTICS, "statistics")["dataset"])
    files = sorted((results / "data/soft/dynamic").glob("*/*/*.parquet"))
    paths = [path for path in files if path.stem in datasets]  # others are from an earlier run
    if missing := datasets - {AVERAGE} - {path.stem for path in paths}:
        raise BenchmarkError(f"dataset '{min(missing)}': is cut into shards; set shard_size: null")
    with tempfile.TemporaryDirectory() as folder:
        squared = [Path(folder, *path.parts[-5:]) for path in paths]
        for path, new in zip(paths, squared, strict=True):
            table = read_table(path, "soft").to_pandas()
            for column in ("h0", "identity", "ns_distances", "nc_distances"):
                table[column] = table[column].map(np.square, na_action="ignore")
            table[["h0_noise", "ns_noise", "nc_noise"]] = np.nan  # which is not squared
            table = pa.Table.from_pandas(table, schema=SCHEMAS["soft"], preserve_index=False)
            write_table(new, "soft", table, {})
        settings = read_provenance(results / "data/summary/soft_samples.parquet")["settings"]
        samples, *_ = summarise(squared, settings["minimum_h0"] ** 2, settings["clamp"])
    means = samples.to_pandas().groupby(["dataset", "method", "model", "metric"])["value"].mean()
    averages = means.groupby(["method", "model", "metric"]).mean().unstack(["model", "metric"])
    return averages.reindex(columns=before.columns).fillna(before)  # insertion has no distances


def reading_rows(name: str, before: pd.DataFrame, after: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the effect of a reading of the evaluation on the metrics that it changes."""
    rows = []
    for model, metric in before.columns:
        old, new = (frame.loc[DEFAULTS, (model, metric)] for frame in (before, after))
        if new.equals(old):
            continue
        change = new - old
        most = change.abs().idxmax()
        rows.append(
            {
                "reading": name,
                "model": model,
                "metric": METRICS[metric],
                "before": f"{old.mean():.3f}",
                "after": f"{new.mean():.3f}",
                "largest change": f"{change[most]:+.3f} ({most})",
                "τ of the order": f"{old.corr(new, method='kendall'):.2f}",
            }
        )
    return rows


def _method_rows(results: Path, averages: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the differences between readings of methods and their defaults."""
    files = sorted((results / "data/summary/method_agreement").glob("*/*.parquet"))
    agreement = Files(method_agreement=files).rows("method_agreement", metric="kendall_tau")
    rows = []
    for method, variants in VARIANTS.items():
        for index, label in enumerate(variants):
            variant = _name(method, index)
            for model, rows_of_model in agreement.groupby("model", sort=False):
                methods = rows_of_model[["method", "other"]]
                pair = rows_of_model[methods.isin([method, variant]).all(axis="columns")]["value"]
                difference = averages.loc[variant] - averages.loc[method]
                rows.append(
                    {
                        "method": method,
                        "reading": label,
                        "model": model,
                        "τ with the default": f"{pair.mean():.2f}",
                        "range": f"{pair.min():.2f} to {pair.max():.2f}",
                        **{METRICS[area]: f"{difference[model, area]:+.3f}" for area in AREAS},
                    }
                )
    return rows


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = bench_parser(__doc__, "readings")
    parser.add_argument("--configfile", required=True, type=Path, help="run file to start from")
    parser.add_argument("--config", nargs="*", default=[], help="keys to change, KEY=VALUE")
    parser.add_argument("--directory", type=Path, default=Path(), help="where results/ is")
    return parser


if __name__ == "__main__":
    run(main, parser())
