"""The page "Against the paper": what is compared and what is not, in words and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from pisoft.config.slices import PublishedSlice
from pisoft.pages.against_paper_tables import (
    cell_tables,
    robustness_tables,
    summary_table,
    where,
)
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
from pisoft.statistics.published_settings import differences
from pisoft.tables.explorer_links import explorer_links
from pisoft.tables.layout import number_text
from pisoft.units import NOTHING


def against_paper_page(
    published: pd.DataFrame,
    cells: pd.DataFrame,
    agreements: pd.DataFrame,
    robustness: pd.DataFrame,
    settings: PublishedSlice,
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
                "What the published order owes to single datasets",
                _robustness(robustness),
                tuple(robustness_tables(robustness)),
            ),
            Section("Where the published numbers are from", _sources(published)),
        ),
    )


# What is compared -----------------------------------------------------------------------------


def _scope(settings: PublishedSlice, models: Sequence[str]) -> Iterator[str]:
    """Say which models and datasets are compared, which are others, and how settings differ."""
    if models:
        names = ", ".join(MODELS[name] for name in models)
        yield f"Compared are this run's numbers of {names} on the datasets of the paper."
    else:
        yield (
            "No number of this run is set beside a published one, because none is of a published "
            "model on a published dataset. What the published order owes to single datasets, "
            "below, is of the paper alone."
        )
    yield from _others("models", settings.models, settings.other_models, MODELS)
    yield from _others("datasets", settings.datasets, settings.other_datasets, DATASETS)
    if models:
        yield (
            "Records are other draws of the datasets than the paper's. The paper samples 2000 "
            "records of IMDb and of SST-2 and gives no number for the others; how many there are "
            "here stands beside every number. Its BoolQ is ERASER's, which the catalogue has as "
            "boolq_eraser."
        )
        yield _unlike(settings)
        yield _left_open(settings, models)


def _others(
    kind: str, labels: Mapping[str, str], reasons: Mapping[str, str], published: Mapping[str, str]
) -> Iterator[str]:
    """Yield a paragraph on the models or datasets of the run that are no published ones, if any."""
    others = [
        f"{label} ({name}: {reasons.get(name, 'not in the paper')})"
        for name, label in labels.items()
        if name in reasons or name not in published
    ]
    if others:
        yield (
            f"Other {kind}: {', '.join(others)}. The paper's are {', '.join(published.values())}."
        )


def _unlike(settings: PublishedSlice) -> str:
    """Say which settings are not those that the paper states."""
    found = [
        f"{one.what}: {_words(one.here)} (paper: {_words(one.paper)}, {one.where})"
        for one in differences(settings)
    ]
    if not found:
        return "Settings that the paper states are the same here."
    return (
        f"Settings unlike the paper's: {'; '.join(found)}. Numbers that one of them decides are "
        f"not compared and say '{OTHER_SETTINGS}'; how many draws there are, and whether they are "
        "spread evenly, decides none."
    )


def _left_open(settings: PublishedSlice, models: Sequence[str]) -> str:
    """Say how those settings are that the paper does not state."""
    types = ", ".join(f"{MODELS[name]} in {settings.types[name]}" for name in models)
    ranking = settings.ranking
    removal = (
        f", deletion by '{ranking.operator}', flips of the {ranking.flip_of}" if ranking else ""
    )
    return (
        f"Settings that the paper leaves open, as they are here: scope "
        f"'{settings.evaluation.scope}', normalisation '{settings.evaluation.normalisation}'"
        f"{removal}, answers of at most {settings.generation.max_new_tokens} tokens, {types}."
    )


def _words(setting: object) -> str:
    """Return a setting as a reader would say it."""
    if isinstance(setting, bool):
        return "yes" if setting else "no"
    if isinstance(setting, tuple):
        return f"{setting[0]:g}, …, {setting[-1]:g} ({len(setting)} values)"
    return str(setting)


# Results --------------------------------------------------------------------------------------


_READING = (
    "Every published number, this run's with its 95 % bootstrap interval in brackets, and the "
    "difference. "
    "A published number stands for all that are printed so: it is inside if one of them lies "
    "in the interval. n counts the samples in this run's mean, in brackets those that failed. "
    f"{NOTHING} stands where there is no number.",
    'The paper\'s "Ours" names no variant of Grad-ELLM, and is the best of several numbers of '
    "layers for each dataset and model. Beside it stand all variants that this run has; only "
    "the first counts above.",
    "Instead of inside or outside it may say: no interval (one sample gives none), other "
    "machine (times), other settings, not run, no value (nothing could be evaluated), other "
    "dataset, other average (over other datasets than the paper's).",
)


def _counts(shown: pd.DataFrame) -> tuple[str, ...]:
    """Say how many of the published numbers agree, and how to read that."""
    counts = shown["outcome"].value_counts()
    inside, judged = counts.get(INSIDE, 0), counts.reindex([INSIDE, OUTSIDE], fill_value=0).sum()
    without = (~shown["outcome"].isin(COMPARED)).sum()
    return (
        f"{inside} of {judged} published numbers lie inside this run's 95 % interval. "
        f"{counts.get(NO_INTERVAL, 0)} more have no interval here, {without} have no number here, "
        f"and {counts.get(OTHER_MACHINE, 0)} are times, which are shown and not judged, as they "
        "are of another machine.",
        "The interval says how far this run's mean may be off because of the samples that it "
        "happens to have. It knows nothing of the chance in the paper's own samples, for which "
        "the paper gives no uncertainty: of two sound measurements of the same model, too, clearly "
        "less than 95 % of the numbers of one would be inside the intervals of the other.",
    )


def _robustness(robustness: pd.DataFrame) -> tuple[str, ...]:
    """Say how often the best method hangs on one dataset, and where the order does most."""
    orders = robustness.drop_duplicates([*COLUMN, "other"])
    changes = orders.groupby(COLUMN, sort=False)["best_changes"].any()
    least = orders.loc[orders["kendall_tau"].idxmin()]
    of = where(least["model"], least["protocol"])
    return (
        "The methods ranked by the mean of their published numbers over the datasets, and by the "
        "means with each dataset left out. The means are computed from the printed numbers; 1 is "
        "best, and methods with equal means share the mean of their ranks. Kendall's τ compares "
        "an order with that on all datasets: 1 is the same order, \N{MINUS SIGN}1 the reverse. "
        "Bold: the best, which may be another one without a dataset.",
        f"In {changes.sum()} of {len(changes)} orders, one for each model, protocol and metric, "
        "there is a dataset without which another method would be best or share the first rank. "
        f"The order changes most in {METRICS[least['metric']].label} of {of}, without "
        f"{DATASETS[least['other']]}: τ = {number_text(least['kendall_tau'], 2)}.",
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
        "the rounded mean of the numbers above them. "
        f"{len(deviations) - len(unexplained)} are off by one in the last digit, as they would be "
        "if digits that are not printed were averaged, or if the mean was cut off instead of "
        f"rounded. Neither explains: {listed or 'none'}.",
    )
