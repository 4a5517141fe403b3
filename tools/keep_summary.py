"""Keep a finished run's means over samples, for README.md and the page of real numbers."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import pandas as pd

from by_answer import by_answer
from pisoft.attribution import load_method
from pisoft.config.captions import left_out, settings_as_yaml
from pisoft.config.commandline import run_file, run_file_parser
from pisoft.config.jobs.displays import LabelSettings
from pisoft.config.loading import load_run
from pisoft.config.shards import shards
from pisoft.errors import BenchmarkError
from pisoft.pages.index import facts_of
from pisoft.pages.paper_findings import paper_findings
from pisoft.pages.real_numbers import KEPT, PROCEDURES, About, keep, kept
from pisoft.statistics.reading import load_rows
from pisoft.store.parquet import made_with, read_provenance, read_table
from pisoft.store.shards import cell_path, shards_of
from pisoft.workflow.commandline import run

CONFIG_FOLDER = Path(__file__).parents[1] / "config"
CATALOGUE = CONFIG_FOLDER, load_method
FOLDER = Path("docs/assets/real-numbers")
CURVES = "pi_curves.svg"
SETTINGS = ("seed", "max_samples", "generation", "target", "evaluation", "statistics")


def main(arguments: argparse.Namespace) -> None:
    """Read the summaries of a run of one model, and the curves of its first dataset."""
    raw, paths = run_file(arguments)
    config = load_run(raw, paths, *CATALOGUE)
    if len(config.models) > 1:
        raise BenchmarkError(f"models: {len(config.models)} are selected; a page is of one")
    (model,), dataset = config.models, next(iter(config.datasets))
    results = Path("results", config.run_file.run)
    data, labels = results / "data", LabelSettings.of(config)
    protocols = tuple(dict.fromkeys(cell.protocol for cell in config.cells()))
    drawn = results / "figures/pi_curves" / protocols[0] / model / f"{dataset}.svg"
    if not drawn.is_file():
        raise BenchmarkError(f"{drawn}: not found; the run has to be finished")
    by_model = {"density_correlations": f"density_correlations/{model}"}
    files = {kind: [data / f"summary/{by_model.get(kind, kind)}.parquet"] for kind in KEPT}
    if not config.cells("permuted"):
        files["permutation_baseline"] = []
    rows = {kind: load_rows(paths, kind) for kind, paths in files.items()}
    label = labels.models[model]
    cuts = {name: shards(config, model, name) for name in config.datasets}
    origin = read_provenance(data / cell_path(f"generations/{model}", dataset, cuts[dataset]))
    evaluated = (
        data
        / cell_path(f"soft/{cell.protocol}/{model}/{cell.method}", cell.dataset, cuts[cell.dataset])
        for cell in config.cells()
    )
    settings = settings_as_yaml(config)
    answers = pd.concat(
        read_table(path, "generations", ["sample_id", "correct"]).to_pandas()
        for name in config.datasets
        for path in shards_of(data / cell_path(f"generations/{model}", name, cuts[name]))
    )
    samples = read_table(data / "summary/soft_samples.parquet", "soft_samples").to_pandas()
    compared = by_answer(samples, answers, config.run_file.seed)
    about = About(
        model=label,
        datasets=labels.datasets,
        methods=labels.methods,
        protocols=protocols,
        settings="".join(settings[name] for name in SETTINGS),
        left_out=left_out(config, load_run({**raw, "methods": "all"}, paths, *CATALOGUE).methods),
        facts=(*facts_of({label: origin}, made_with(evaluated)), PROCEDURES),
        by_answer=tuple(compared.round(4).to_dict("records")),
        previous=_verdicts(arguments.previous),
    )
    keep(arguments.folder / FOLDER, rows, about)
    shutil.copyfile(drawn, arguments.folder / FOLDER / CURVES)


def _verdicts(folder: Path | None) -> dict[str, str]:
    """Return the verdicts of a summary that was kept before, by claim."""
    if folder is None:
        return {}
    numbers, about = kept(folder)
    return {one.claim: one.verdict for one in paper_findings(numbers, about.protocols)}


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = run_file_parser(__doc__, CONFIG_FOLDER / "config.yaml")
    parser.add_argument("--folder", type=Path, default=Path(), help="where README.md is")
    parser.add_argument("--previous", type=Path, help="an older summary, to show its verdicts too")
    return parser


if __name__ == "__main__":
    run(main, parser())
