"""A run's numbers in the docs: from a summary that is small enough to be kept with the code.

It holds means over samples with their intervals and tests, and no record.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from pisoft.columns import SCHEMAS
from pisoft.config.reference import markdown_table
from pisoft.errors import BenchmarkError
from pisoft.files import whole_files
from pisoft.pages.paper_findings import HALVES, Numbers, paper_findings
from pisoft.pages.readme import entry_text, number_rows, sample_counts
from pisoft.statistics.metrics import AUC_METRICS, AVERAGE, METRICS
from pisoft.tables import notes
from pisoft.tables.accuracy import COLUMNS
from pisoft.tables.grid import blocks, each
from pisoft.tables.layout import dataset_columns
from pisoft.views import Results

# Kinds of summary files, and which metrics of them are kept; `accuracy` is kept whole.
KEPT = {
    "statistics": [*AUC_METRICS, "soft_ns", "soft_nc", "expected_retained"],
    "comparisons": [*AUC_METRICS],
    "density_correlations": [*AUC_METRICS],
    "advantage": ["pi_soft_ns", "pi_soft_nc"],
    "accuracy": [],
}
PER_DATASET = ("statistics", "accuracy")
ABOUT = "about.json"
DIGITS = "%.6g"


@dataclass(frozen=True)
class About:
    """What the numbers are of.

    Attributes:
        model: label of the one model.
        datasets: label of each dataset.
        methods: label of each method.
        protocols: routing protocols.
        settings: sections of the run file, as YAML.
        facts: provenance of the results.
        left_out: methods of the catalogue that were not run.
    """

    model: str
    datasets: Mapping[str, str]
    methods: Mapping[str, str]
    protocols: tuple[str, ...]
    settings: str
    facts: tuple[str, ...]
    left_out: tuple[str, ...] = ()


def keep(folder: Path, rows: Mapping[str, pd.DataFrame], about: About) -> None:
    """Write a summary: means over datasets of each kind, of PER_DATASET those of each dataset."""
    paths = [folder / f"{kind}.csv" for kind in KEPT]
    with whole_files("{}", *paths, folder / ABOUT) as (*written, facts):
        for path, (kind, metrics) in zip(written, KEPT.items(), strict=True):
            kept = rows[kind][rows[kind]["metric"].isin(metrics)] if metrics else rows[kind]
            if kind not in PER_DATASET:
                kept = kept[kept["dataset"] == AVERAGE]
            if kind == "advantage":
                kept = kept[kept["part"].isin(HALVES)]
            kept.to_csv(path, index=False, float_format=DIGITS, lineterminator="\n")
        facts.write_text(json.dumps(vars(about), indent=2, ensure_ascii=False) + "\n", "utf-8")


def kept(folder: Path) -> tuple[Numbers, About]:
    """Read a summary.

    Raises:
        BenchmarkError: a file of it is missing.
    """
    try:
        about = About(**json.loads((folder / ABOUT).read_text(encoding="utf-8")))
        rows = {kind: pd.read_csv(folder / f"{kind}.csv") for kind in KEPT}
    except OSError as error:
        raise BenchmarkError(f"{folder}: no summary of a run is kept there: {error}") from error
    return Numbers(**rows, methods=about.methods), about


def real_numbers_text(numbers: Numbers, about: About, figure: str) -> str:
    """Return the page of the docs, as Markdown.

    Args:
        numbers: of the summary.
        about: what they are of.
        figure: path of the figure from the page.
    """
    return "\n".join([*_page(numbers, about, figure), ""])


def _page(numbers: Numbers, about: About, figure: str) -> Iterator[str]:
    counts = sample_counts(numbers.statistics)
    yield f"# Real numbers: {about.model}"
    yield ""
    yield "Written by `make readme` from a kept summary of one run, with no record in it."
    yield ""
    listed = ", ".join(f"{label} {counts[name]}" for name, label in about.datasets.items())
    yield f"Samples that could be evaluated: {listed}. With intervals this wide, real differences"
    yield 'may go undetected; findings that hinge on them are marked "inconclusive".'
    if about.left_out:
        yield f"Not run: {'; '.join(about.left_out)}."
    yield ""
    yield from _answers(numbers.accuracy, about)
    yield "## Do the paper's findings hold on this model?"
    yield ""
    findings = paper_findings(numbers, list(about.protocols))
    told = [(one.claim, f"**{one.verdict}**", one.why) for one in findings]
    yield markdown_table(("finding", "here", "why"), told)
    yield "The paper's models are of 7, 8 and 70 billion parameters."
    yield ""
    for protocol in about.protocols:
        own = numbers.statistics[numbers.statistics["protocol"] == protocol]
        for metric in AUC_METRICS:
            yield f"## {METRICS[metric].label}, {protocol} routing"
            yield ""
            columns = dataset_columns(about.datasets)
            ordered = sorted(columns, key=AVERAGE.__ne__)  # the average first
            ranked = list(numbers.ranked(protocol, metric).index)
            labels = {name: about.methods[name] for name in ranked}
            cells = [(metric, name) for name in ordered]
            rows = number_rows(own, cells, labels)
            yield markdown_table(("method", *(columns[name] for name in ordered)), rows)
    yield "Means over samples, in brackets their 95 % bootstrap interval; Avg is the mean over"
    yield "datasets. Bold: best of a column. ≈: not significantly different from it (paired"
    yield "permutation test)."
    yield ""
    yield f"![π-Soft-NS and π-Soft-NC over the retaining probability π]({figure})"
    yield ""
    yield "## Provenance"
    yield ""
    yield from (f"- {fact}" for fact in about.facts)
    yield "- Settings:"
    yield ""
    yield from (f"      {line}" for line in about.settings.splitlines())


def _answers(rows: pd.DataFrame, about: About) -> Iterator[str]:
    """Yield what the model answered: what the scores are to explain."""
    results = Results(rows.reindex(columns=SCHEMAS["accuracy"].names), {}, about.datasets)
    (block,) = blocks(results, {about.model: {}}, each("dataset", about.datasets), COLUMNS)
    yield "## What the model answers"
    yield ""
    yield markdown_table(
        ("Dataset", *(column.label for column in COLUMNS)),
        [(row.label, *map(entry_text, row.entries)) for row in block.rows],
    )
    yield " ".join(notes.ACCURACY)
    yield "Where an interval of accuracy includes 0.5, the model may be guessing between two"
    yield "answers. Scores explain the prediction the model makes, right or wrong; whether that"
    yield "prediction is worth explaining is yours to judge."
    yield ""
