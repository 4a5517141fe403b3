"""The page "Against the paper": what is compared and what is not, in words and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pandas as pd

from pisoft.config.jobs import PublishedJob
from pisoft.formatting import NOTHING
from pisoft.pages.against_paper_tables import cell_tables, robustness_tables, summary_table, where
from pisoft.pages.page import Page, Section
from pisoft.statistics.against_paper import (
    COMPARED,
    INSIDE,
    NO_INTERVAL,
    OTHER_MACHINE,
    OTHER_SETTINGS,
    OUTSIDE,
)
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.published import (
    CITATION,
    COLUMN,
    DATASETS,
    METHODS,
    METRICS,
    MODELS,
    average_deviations,
)
from pisoft.statistics.published_settings import (
    LEFT_OPEN,
    as_text,
    compared_settings,
    differences,
)
from pisoft.statistics.results import select
from pisoft.tables.layout import explorer_links, number_text


def against_paper_page(
    published: pd.DataFrame,
    cells: pd.DataFrame,
    agreements: pd.DataFrame,
    robustness: pd.DataFrame,
    settings: PublishedJob,
    explorer: str = "",
) -> Page:
    """Build the page; numbers are beside each other only for models with a comparable number.

    Args:
        published: rows of :func:`pisoft.statistics.published.load_published`.
        cells: rows of :func:`pisoft.statistics.against_paper.compare`.
        agreements: rows of :func:`pisoft.statistics.against_paper.agreement`.
        robustness: rows of :func:`pisoft.statistics.against_paper.published_robustness`.
        settings: what of the run is not as published.
        explorer: address of the page that shows scores, if there is one.
    """
    found = set(cells.loc[cells["outcome"].isin(COMPARED), "model"])
    models = [name for name in MODELS if name in found]
    sections = [Section("What is compared", tuple(_scope(settings, models)))]
    if models:
        shown = cells[cells["model"].isin(models)]
        datasets = settings.datasets.keys() - settings.other_datasets.keys()
        links = explorer_links(
            explorer,
            {name: MODELS[name] for name in models},
            {name: label for name, label in DATASETS.items() if name in datasets},
        )
        summary = replace(summary_table(agreements[agreements["model"].isin(models)]), links=links)
        sections += [
            Section("How many numbers agree", _counts(shown[~shown["variant"]]), (summary,)),
            Section("Number by number", _READING, tuple(cell_tables(shown, links))),
        ]
    return Page(
        "Against the paper",
        (
            *sections,
            Section(
                "How far the published order depends on single datasets",
                _robustness(robustness),
                tuple(robustness_tables(robustness)),
            ),
            Section("Where the published numbers are from", _sources(published)),
        ),
    )


# What is compared -----------------------------------------------------------------------------


def _scope(settings: PublishedJob, models: Sequence[str]) -> Iterator[str]:
    """Say which models and datasets are compared, which are others, and how settings differ."""
    if models:
        names = ", ".join(MODELS[name] for name in models)
        yield f"Compared are this run's numbers of {names} on the paper's datasets."
    else:
        yield (
            "No number is compared, because none is of a published model on a published dataset. "
            "The section on single datasets, below, is about the paper alone."
        )
    for kind, labels, reasons, published in (
        ("models", settings.models, settings.other_models, MODELS),
        ("datasets", settings.datasets, settings.other_datasets, DATASETS),
    ):
        others = ", ".join(
            f"{label} ({name}: {reasons.get(name, 'not in the paper')})"
            for name, label in labels.items()
            if name in reasons or name not in published
        )
        if others:
            yield f"Other {kind}: {others}. The paper's are {', '.join(published.values())}."
    if models:
        yield (
            "The records are other samples of the datasets than the paper's, which has 2000 of "
            "IMDb and of SST-2 and states no number for the others; n stands beside every number. "
            "The paper's BoolQ is ERASER's, in the catalogue boolq_eraser."
        )
        yield from _settings(settings)


def _settings(settings: PublishedJob) -> Iterator[str]:
    """Say which settings are not those of the paper, and how those are that it leaves open."""
    unlike = "; ".join(
        f"{one.key}: {as_text(one.here)} (paper: {as_text(one.setting.paper)}, {one.setting.where})"
        for one in differences(settings)
    )
    yield (
        f"Settings unlike the paper's: {unlike}. Numbers that depend on one of them are not "
        f"compared ('{OTHER_SETTINGS}'); the number of draws and how evenly they are spread only "
        "affect precision."
        if unlike
        else "Settings that the paper states are the same here."
    )
    left_open = [one for one in compared_settings(settings) if one.verdict == LEFT_OPEN]
    usual, unusual = [], []
    for one in left_open:
        text = f"{one.key}: {as_text(one.here)}"
        if one.here == one.setting.paper:
            usual.append(text)
        else:
            unusual.append(f"{text} (not {as_text(one.setting.paper)})")
    for texts, how in ((unusual, "not as in"), (usual, "as in")):
        if texts:
            yield f"Left open by the paper, and {how} config/paper.yaml: {'; '.join(texts)}."


# Results --------------------------------------------------------------------------------------

_READING = (
    "Each published number, this run's with its 95 % confidence interval, and their difference. A "
    "published number is inside if any number that rounds to it lies in the interval. n: samples "
    f"in this run's mean; in brackets, those that failed. {NOTHING}: no number.",
    'The paper\'s "Ours" names no variant of Grad-ELLM and is the best of several numbers of '
    "layers for each dataset and model. All variants of this run are listed; only the first counts "
    "above.",
    "Other entries: no interval (one sample gives none), other machine (times), other settings, "
    "not run, no value (no sample could be evaluated), other dataset, other average (over other "
    "datasets than the paper's).",
)


def _counts(shown: pd.DataFrame) -> tuple[str, ...]:
    """Say how many of the published numbers agree, and how to read that."""
    counts = shown["outcome"].value_counts()
    inside, judged = counts.get(INSIDE, 0), counts.reindex([INSIDE, OUTSIDE], fill_value=0).sum()
    without = (~shown["outcome"].isin(COMPARED)).sum()
    return (
        f"{inside} of {judged} published numbers lie inside this run's 95 % interval. "
        f"{counts.get(NO_INTERVAL, 0)} more have no interval here, {without} have no number here, "
        f"and {counts.get(OTHER_MACHINE, 0)} are times, which depend on the machine and are not "
        "judged.",
        "The interval covers the sampling error of this run alone; the paper states none. Even of "
        "two sound measurements of the same model, clearly fewer than 95 % of the numbers of one "
        "would lie inside the intervals of the other.",
    )


def _robustness(robustness: pd.DataFrame) -> tuple[str, ...]:
    """Say how often the best method depends on one dataset, and where the order does most."""
    ranks, taus = (select(robustness, part=part) for part in ("without", "kendall_tau"))
    orders = ranks.groupby([*COLUMN, "other"])
    best = ranks[ranks["rank"] == orders["rank"].transform("min")]
    leaders = best.groupby([*COLUMN, "other"])["method"].agg(frozenset)
    changes = leaders.groupby(COLUMN).nunique() > 1
    least = taus.loc[taus["value"].idxmin()]
    return (
        "Methods ranked by the mean of their published numbers over the datasets, and by the means "
        "without each dataset, all computed from the printed numbers; 1 is best, and equal means "
        "share a rank. Kendall's τ compares an order with that on all datasets: 1 is the same "
        "order, \N{MINUS SIGN}1 the reverse. Bold: the best.",
        f"In {changes.sum()} of {len(changes)} orders, one for each model, protocol and metric, "
        "another method would be best or share the first rank without one of the datasets. "
        f"The order changes most in {METRICS[least['metric']].label} of "
        f"{where(least['model'], least['protocol'])}, without {DATASETS[least['other']]}: "
        f"τ = {number_text(least['value'], 2)}.",
    )


def _sources(published: pd.DataFrame) -> tuple[str, ...]:
    """Cite the paper, and name its averages that do not follow from their cells."""
    deviations = average_deviations(published)
    unexplained = deviations[~deviations["explained"]]
    listed = "; ".join(
        f"{METHODS[row.method]}, {METRICS[row.metric].label}, {where(row.model, row.protocol)} "
        f"({row.printed:.{row.decimals}f} is printed, {row.mean:.{row.decimals + 1}f} is the mean)"
        for row in unexplained.itertuples()
    )
    return (
        f"{CITATION} The {len(published)} numbers of its tables are in config/published.csv, digit "
        "by digit.",
        f"Of its {(published['dataset'] == AVERAGE).sum()} averages, {len(deviations)} are not "
        f"the rounded mean of the numbers above them. {len(deviations) - len(unexplained)} are off "
        "by one in the last digit, which averaging unrounded numbers or truncating the mean would "
        f"explain. Not explained: {listed or 'none'}.",
    )
