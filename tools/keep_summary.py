"""Keep a finished run's means over samples in one file, an entry of the leaderboard."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

from by_answer import by_answer
from comparable_runs import run_settings, settings_hash
from paper_findings import paper_findings
from pisoft.attribution import load_method
from pisoft.config.commandline import run_file, run_file_parser
from pisoft.config.jobs.displays import LabelSettings
from pisoft.config.loading import load_run
from pisoft.config.methods import Method
from pisoft.config.resolved import Config
from pisoft.config.shards import shards
from pisoft.errors import BenchmarkError
from pisoft.pages.index import model_facts
from pisoft.statistics.reading import load_rows
from pisoft.store.parquet import computed_on, made_with, read_provenance, read_table
from pisoft.store.shards import cell_path, shards_of
from pisoft.workflow.commandline import run
from summary import KEPT, PROCEDURES, Summary, keep, kept, results_of, samples_of

CONFIG_FOLDER = Path(__file__).parents[1] / "config"
CATALOGUE = CONFIG_FOLDER, load_method
BOARD = Path("docs/leaderboard")
STUDY_OF_KIND = {
    "permutation_baseline": "permuted",
    "sensitivity": "operators",
    "off_distribution": "operators",
}
README_RUN = "laptop-gpu"  # shown in README.md: most methods and prompts
PAGE_RUN = "laptop-files"  # shown on the page of real numbers: it has all studies
# Also shown on the page: runs with other operators, and with comparisons to be decided.
OPERATORS_RUN, STOP_RUN = "laptop-operators", "laptop-stop"
FIGURES = Path("docs/assets/real-numbers")  # a run's curves, named after it


def main(arguments: argparse.Namespace) -> None:
    """Write the summary of a run; keep its first figure if README.md or a page shows the run."""
    raw, paths = run_file(arguments)
    config = load_run(raw, paths, *CATALOGUE)
    results = Path("results", config.run_file.run)
    data, labels = results / "data", LabelSettings.from_config(config)
    evaluated_by = {cell.protocol for cell in config.cells()}
    protocols = tuple(name for name in config.run_file.protocols if name in evaluated_by)
    if not (data / "summary/statistics.parquet").is_file():
        raise BenchmarkError(f"{results}: no finished run")
    files = {kind: [data / f"summary/{kind}.parquet"] for kind in KEPT}
    by_model = data / "summary/density_correlations"
    files["density_correlations"] = [by_model / f"{name}.parquet" for name in config.models]
    for kind, study in STUDY_OF_KIND.items():
        if not config.cells(study):
            files[kind] = []
    if config.run_file.stop is None:
        files["decisions"] = []
    cells = {
        (model, name): shards(config, model, name)
        for model in config.models
        for name in config.datasets_of(model)
    }
    generated = {
        (model, name): data / cell_path(f"generations/{model}", name, cut)
        for (model, name), cut in cells.items()
    }
    evaluated: dict[str, list[Path]] = {}
    for cell in config.cells():
        folder = f"soft/{cell.protocol}/{cell.model}/{cell.method}"
        path = cell_path(folder, cell.dataset, cells[cell.model, cell.dataset])
        evaluated.setdefault(cell.model, []).append(data / path)
    devices = {model: computed_on(paths) for model, paths in evaluated.items()}
    origins = {
        model: {**read_provenance(path), "device": devices[model]}
        for (model, _), path in generated.items()
    }
    samples = read_table(data / "summary/soft_samples.parquet", "soft_samples").to_pandas()
    facts = model_facts({labels.models[name]: origin for name, origin in origins.items()})
    settings, versions = run_settings(config), made_with(chain(*evaluated.values()))
    summary = Summary(
        run=config.run_file.run,
        models=labels.models,
        datasets=labels.datasets,
        methods=labels.methods,
        protocols=protocols,
        origins=dict(zip(origins, facts.values(), strict=True)),
        devices=devices,
        versions={name: list(several) for name, several in versions.items()},
        procedures=PROCEDURES,
        settings_hash=settings_hash(settings),
        settings=settings,
        left_out=left_out(config, load_run({**raw, "methods": "all"}, paths, *CATALOGUE).methods),
        by_answer=_by_answer(samples, generated, config) if len(origins) == 1 else (),
        previous=_verdicts(arguments.previous),
        results=results_of({kind: load_rows(paths, kind) for kind, paths in files.items()}),
        samples=samples_of(samples) if arguments.samples else None,
    )
    is_part = summary.run in (OPERATORS_RUN, STOP_RUN)  # already on the leaderboard
    board = FIGURES if is_part else BOARD
    path = arguments.folder / board / f"{summary.run}.json"
    keep(path, summary)
    print(path)
    if summary.run in (README_RUN, PAGE_RUN):
        first = Path(protocols[0], next(iter(config.models)), next(iter(config.datasets)))
        curves = results / "figures/pi_curves" / f"{first}.svg"
        shutil.copyfile(curves, arguments.folder / FIGURES / f"{summary.run}.svg")


def _by_answer(
    samples: pd.DataFrame, paths: Mapping[tuple[str, str], Path], config: Config
) -> tuple[dict[str, Any], ...]:
    """Return how the order of methods depends on the answers of the run's only model."""
    columns = ["sample_id", "correct", "margins"]
    answers = pd.concat(
        read_table(part, "generations", columns)
        .to_pandas()
        .assign(dataset=name, margin=lambda rows: rows["margins"].str[0])
        for (_, name), path in paths.items()
        for part in shards_of(path)
    )
    compared = by_answer(samples, answers, config.run_file.seed)
    return tuple(compared.round(4).to_dict("records"))


def _verdicts(path: Path | None) -> dict[str, str]:
    """Return the verdicts of a previously kept summary, by claim."""
    if path is None:
        return {}
    summary = kept(path)
    findings = paper_findings(summary.numbers, summary.protocols)
    return {finding.claim: finding.verdict for finding in findings}


def left_out(config: Config, methods: Mapping[str, Method]) -> tuple[str, ...]:
    """Return the labels of catalogue methods that a run lacks, and their requirements."""
    return tuple(
        f"{method.label}, which needs a masked model" if method.needs_masked_model else method.label
        for name, method in methods.items()
        if name not in config.methods
    )


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = run_file_parser(__doc__, CONFIG_FOLDER / "config.yaml")
    parser.add_argument("--folder", type=Path, default=Path(), help="where README.md is")
    parser.add_argument("--previous", type=Path, help="an older summary, to show its verdicts too")
    parser.add_argument("--samples", action="store_true", help="keep areas of single samples too")
    return parser


if __name__ == "__main__":
    run(main, parser())
