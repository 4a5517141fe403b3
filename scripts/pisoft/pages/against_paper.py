"""The page "Against the paper": the comparison with published numbers, in words and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from pisoft.config.jobs.pages import PublishedJob
from pisoft.formatting import NOTHING
from pisoft.pages.page import Page, Section, text
from pisoft.statistics import against_paper as outcomes
from pisoft.statistics import published as paper
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.published_settings import LEFT_OPEN, as_text, compared_settings, differences
from pisoft.statistics.results import select
from pisoft.tables import grid
from pisoft.tables.grid import Block, Entry, Row, Table, blocks, columns, each, plain
from pisoft.tables.writer import explorer_links
from pisoft.views.view import Number, Results

ROWS = {**paper.DATASETS, AVERAGE: "Average"}


def against_paper_page(
    published: pd.DataFrame,
    cells: pd.DataFrame,
    agreements: pd.DataFrame,
    robustness: pd.DataFrame,
    settings: PublishedJob,
    explorer: str = "",
) -> Page:
    """Build the page of a run with models of the paper.

    Rows come from :func:`pisoft.statistics.published.load_published` and from `compare`,
    `agreement` and `published_robustness` in :mod:`pisoft.statistics.against_paper`; `explorer` is
    the address of the explorer, if there is one.
    """
    models = {
        name: label
        for name, label in paper.MODELS.items()
        if name in settings.models and name not in settings.other_models
    }
    datasets = settings.datasets.keys() - settings.other_datasets.keys()
    labels = {name: label for name, label in paper.DATASETS.items() if name in datasets}
    links = explorer_links(explorer, models, labels)
    cells = cells[cells["model"].isin(models)]
    summary = summary_table(agreements[agreements["model"].isin(models)], links)
    orders = "How far the published order depends on single datasets"
    numbers = text("published_numbers", nothing=NOTHING)
    reading = (numbers, text("published_variants"), text("published_entries"))
    return Page(
        "Against the paper",
        (
            Section("What is compared", tuple(_scope(settings, models))),
            Section("How many numbers agree", _counts(cells[~cells["variant"]]), (summary,)),
            Section("Number by number", reading, tuple(cell_tables(cells, links))),
            Section(orders, _robustness(robustness), tuple(robustness_tables(robustness))),
            Section("Where the published numbers are from", _sources(published)),
        ),
    )


def where(model: str, protocol: str) -> str:
    """Return the label of a published model and, if there is one, the protocol."""
    return paper.MODELS[model] + (f" · {protocol} routing" if protocol else "")


# What is compared -----------------------------------------------------------------------------


def _scope(settings: PublishedJob, models: Mapping[str, str]) -> Iterator[str]:
    """Name the models and datasets that are compared and those that are not, and other settings."""
    names = ", ".join(models.values())
    yield f"This page compares this run's numbers of {names} on the paper's datasets."
    for kind, labels, reasons, published in (
        ("models", settings.models, settings.other_models, paper.MODELS),
        ("datasets", settings.datasets, settings.other_datasets, paper.DATASETS),
    ):
        listed = ", ".join(
            f"{label} ({name}: {reasons.get(name, 'not in the paper')})"
            for name, label in labels.items()
            if name in reasons or name not in published
        )
        if listed:
            yield f"Other {kind}: {listed}. The paper's are {', '.join(published.values())}."
    yield text("published_records")
    yield from _settings(settings)


def _settings(settings: PublishedJob) -> Iterator[str]:
    """List the settings that differ from the paper's, and those that the paper leaves open."""
    unlike = "; ".join(
        f"{one.key}: {as_text(one.here)} (paper: {as_text(one.setting.paper)}, {one.setting.where})"
        for one in differences(settings)
    )
    yield (
        f"Settings that differ from the paper's: {unlike}. Numbers that depend on one of these are "
        f"not compared ('{outcomes.OTHER_SETTINGS}'); the number of draws and how evenly they are "
        "spread affect only precision."
        if unlike
        else "Settings that the paper states are the same here."
    )
    usual, unusual = [], []
    for one in compared_settings(settings):
        here, there = as_text(one.here), as_text(one.setting.paper)
        if one.verdict == LEFT_OPEN and one.here == one.setting.paper:
            usual.append(f"{one.key}: {here}")
        elif one.verdict == LEFT_OPEN:
            unusual.append(f"{one.key}: {here} (not {there})")
    for listed, how in ((unusual, "different from"), (usual, "as in")):
        if listed:
            yield f"Left open by the paper, and {how} config/paper.yaml: {'; '.join(listed)}."


# Results --------------------------------------------------------------------------------------


def _counts(cells: pd.DataFrame) -> tuple[str, ...]:
    """Count the published numbers that agree, with an explanation."""
    counts = cells["outcome"].value_counts().reindex(outcomes.COMPARED, fill_value=0)
    inside, outside, no_interval, times = counts
    return (
        f"{inside} of {inside + outside} published numbers lie inside this run's 95 % interval. "
        f"{no_interval} more have no interval here, and {len(cells) - counts.sum()} have no "
        f"number here. {times} are times, which depend on the machine and are not judged.",
        text("published_interval"),
    )


def _robustness(robustness: pd.DataFrame) -> tuple[str, ...]:
    """State how often the best method depends on one dataset, and where the order depends most."""
    ranks, taus = (select(robustness, part=part) for part in ("without", "kendall_tau"))
    orders = ranks.groupby([*paper.COLUMN, "other"])
    best = ranks[ranks["rank"] == orders["rank"].transform("min")]
    leaders = best.groupby([*paper.COLUMN, "other"])["method"].agg(frozenset)
    changes = leaders.groupby(paper.COLUMN).nunique() > 1
    least = taus.loc[taus["value"].idxmin()]
    return (
        text("published_ranks"),
        f"In {changes.sum()} of {len(changes)} orders (one for each model, protocol and metric), "
        "leaving out one dataset changes which methods rank first. "
        f"The order changes most in {paper.METRICS[least['metric']].label} of "
        f"{where(least['model'], least['protocol'])}, without {paper.DATASETS[least['other']]}: "
        f"τ = {grid.number_text(least['value'], 2)}.",
    )


def _sources(published: pd.DataFrame) -> tuple[str, ...]:
    """Cite the paper, and list its averages that do not follow from their cells."""
    deviations = paper.average_deviations(published)
    unexplained = deviations[~deviations["explained"]]
    listed = "; ".join(
        f"{paper.METHODS[row.method]}, {paper.METRICS[row.metric].label}, "
        f"{where(row.model, row.protocol)} ({row.printed:.{row.decimals}f} is printed, "
        f"{row.mean:.{row.decimals + 1}f} is the mean)"
        for row in unexplained.itertuples()
    )
    return (
        f"{paper.CITATION} The {len(published)} numbers of its tables are in config/published.csv, "
        "digit by digit.",
        f"Of its {(published['dataset'] == AVERAGE).sum()} averages, {len(deviations)} are not "
        f"the rounded mean of the numbers above them. {len(deviations) - len(unexplained)} are off "
        "by one in the last digit, which averaging unrounded numbers or truncating the mean would "
        f"explain. Not explained: {listed or 'none'}.",
    )


# Tables ---------------------------------------------------------------------------------------

_COUNTS = ("compared", "inside", "outside", "no_interval")


def summary_table(agreements: pd.DataFrame, links: Mapping[str, Mapping[str, str]]) -> Table:
    """Build the table of agreeing numbers and of the agreement of orders, by column."""
    datasets = [name for name in ROWS if name in set(agreements["dataset"])]
    lines: dict[str, list[Row]] = {}
    keys = ["model", "protocol", "metric"]
    for (model, protocol, metric), rows in agreements.groupby(keys, sort=False):
        taus = rows.set_index("dataset")["kendall_tau"].reindex(datasets)
        texts = [f"{rows[name].sum():.0f}" for name in _COUNTS]
        texts += [grid.number_text(tau, 2) for tau in taus]
        label = paper.METRICS[metric].label + (f" · {protocol}" if protocol else "")
        lines.setdefault(paper.MODELS[model], []).append(Row(label, tuple(map(Entry, texts))))
    return Table(
        title="Published numbers inside this run's intervals, and agreement of the orders",
        corner="Metric",
        columns=(
            *(name.replace("_", " ").capitalize() for name in _COUNTS),
            *(f"τ {ROWS[name]}" for name in datasets),
        ),
        blocks=tuple(Block(title, tuple(rows)) for title, rows in lines.items()),
        notes=(text("published_counts"), text("published_taus", nothing=NOTHING)),
        values=agreements,
        links=links,
    )


def cell_tables(cells: pd.DataFrame, links: Mapping[str, Mapping[str, str]]) -> Iterator[Table]:
    """Yield a table of the published and the run's numbers for each protocol, model and metric."""
    for (protocol, model, metric), column in cells.groupby(paper.COLUMN, sort=False):
        how = "divided by" if metric == outcomes.SECONDS else "minus"
        yield Table(
            title=f"{paper.METRICS[metric].label} · {where(model, protocol)}",
            corner="Method",
            columns=("Paper", "This run", f"Run {how} paper", "Paper's number", "n (failed)"),
            blocks=tuple(
                Block(ROWS[dataset], tuple(map(_cell_row, rows.itertuples())))
                for dataset, rows in column.groupby("dataset", sort=False)
            ),
            notes=(
                f"The paper's table: {column['table'].iloc[0]}.",
                *([text("published_times")] if metric == outcomes.SECONDS else []),
            ),
            values=column,
            links={label: links[label] for label in (paper.MODELS[model],) if label in links},
        )


def robustness_tables(robustness: pd.DataFrame) -> Iterator[Table]:
    """Yield a table of ranks with each dataset left out, for each model and protocol."""
    for (protocol, model), rows in robustness.groupby(["protocol", "model"], sort=False):
        results = Results(rows, paper.METHODS, paper.DATASETS)
        left_out = {
            name: f"Without {paper.DATASETS[name]}" if name else "All" for name in rows["other"]
        }
        titles = {paper.METRICS[name].label: {"metric": name} for name in rows["metric"]}
        methods = {name: paper.METHODS[name] for name in rows["method"] if name}
        ranks = columns("other", left_out, rank_entry, part="without")
        taus = columns("other", left_out, plain(2), part="kendall_tau")
        ranked = zip(
            blocks(results, titles, each("method", methods), ranks, ranks[0], sparse=True),
            blocks(results, titles, {"Kendall's τ": {}}, taus),
            strict=True,
        )
        yield Table(
            title=f"Ranks of the published means · {where(model, protocol)}",
            corner="Method",
            columns=tuple(left_out.values()),
            blocks=tuple(Block(block.title, (*block.rows, *tau.rows)) for block, tau in ranked),
            notes=(),
            values=results.values,
        )


def rank_entry(number: Number) -> Entry:
    """Show a rank; the best is bold."""
    return Entry(grid.rank_text(number.rank), strong=number.is_best)


def _cell_row(cell: Any) -> Row:
    """Return the row of one method on a dataset; whole numbers get an extra digit."""
    digits = max(cell.decimals, 1)
    failed = f" ({cell.n_failed:.0f})" if cell.n_failed > 0 else ""
    difference = grid.number_text(cell.difference, digits)
    if cell.difference >= 0:
        difference = f"+{difference}"
    if cell.metric == outcomes.SECONDS and not pd.isna(cell.value):
        difference = f"{cell.value / cell.published:.2g}" if cell.published else NOTHING
    interval = grid.interval_text(cell.low, cell.high, digits)
    return Row(
        {**paper.METHODS, **paper.VARIANTS}[cell.method],
        (
            Entry(f"{cell.published:.{cell.decimals}f}"),
            Entry(grid.number_text(cell.value, digits), interval=interval),
            Entry(difference),
            Entry(cell.outcome),
            Entry(NOTHING if pd.isna(cell.n) else f"{cell.n:.0f}{failed}"),
        ),
    )
