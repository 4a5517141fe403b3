"""The leaderboard: methods of all kept runs by model, dataset, routing and metric.

Methods of comparable runs are ranked together; other runs are ranked separately, with the settings
that differ.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from comparable_runs import NOT_STATED, Settings, cell_settings, differences
from documents import render
from pisoft.statistics.metrics import AUC_METRICS, AVERAGE, DECIMALS, METRICS
from pisoft.tables.grid import each, interval_text, mark, number_text, rank_text
from pisoft.views.view import decimals
from summary import Summary, kept

KEYS = ["model", "dataset", "protocol", "operator", "metric"]
LONGEST = 60  # characters of a setting's value that are shown


@dataclass(frozen=True)
class Ranking:
    """Methods of comparable runs, best first.

    Attributes:
        runs: the comparable runs.
        standings: a line for each method.
        differing: settings that make other runs of the same cell incomparable, by run.
        options: differing options of methods, by run.
    """

    runs: tuple[str, ...]
    standings: tuple[dict[str, Any], ...]
    differing: Mapping[str, Sequence[str]]
    options: Mapping[str, Sequence[str]]


def entries(folder: Path) -> dict[str, Summary]:
    """Return the summaries of a folder by the names of their files.

    Raises:
        BenchmarkError: a summary is not valid.
    """
    return {path.stem: kept(path) for path in sorted(folder.glob("*.json"))}


def leaderboard(summaries: Mapping[str, Summary]) -> str:
    """Return the runs, the filters and all rankings, as HTML.

    Args:
        summaries: by file name.
    """
    rows = pd.concat(_rows(summaries), ignore_index=True)
    found: dict[str, dict[str, str]] = {"model": {}, "dataset": {AVERAGE: "Average"}}
    for summary in summaries.values():
        for key, names in (("model", summary.models), ("dataset", summary.datasets)):
            found[key] |= {name: label for name, label in names.items() if name not in found[key]}
    found["metric"] = {name: METRICS[name].label for name in AUC_METRICS}
    labels = {  # unique per entry
        key: {entry[key]: label for label, entry in each(key, names).items()}
        for key, names in found.items()
    }
    cells = []
    for names, group in rows.groupby(KEYS, sort=False):
        cell = dict(zip(KEYS, map(str, names), strict=True))
        routing = " ".join(filter(None, (cell["protocol"], cell["operator"])))
        shown = {**{key: labels[key][cell[key]] for key in labels}, "routing": routing}
        cells.append((shown, tuple(_rankings(cell, group, summaries))))
    filters = {
        key: list(dict.fromkeys(shown[key] for shown, _ in cells))
        for key in ("model", "dataset", "routing", "metric")
    }
    return render("leaderboard.html.jinja", summaries=summaries, cells=cells, filters=filters)


def _rows(summaries: Mapping[str, Summary]) -> Iterator[pd.DataFrame]:
    """Yield the ranked numbers of each run, the means over datasets first."""
    for name, summary in summaries.items():
        rows = summary.numbers.rows["statistics"]
        rows = rows[rows["metric"].isin(AUC_METRICS)].dropna(subset="value")
        label = rows["method"].map(summary.methods)
        rows = rows.assign(run=name, decimals=decimals(rows), label=label)
        yield rows.sort_values("dataset", key=lambda names: names != AVERAGE, kind="stable")


def _rankings(
    cell: Mapping[str, str], rows: pd.DataFrame, summaries: Mapping[str, Summary]
) -> Iterator[Ranking]:
    """Yield a ranking per set of comparable runs of a cell, the one with most samples first."""
    keys = {key: cell[key] for key in ("model", "dataset", "metric")}
    owners = {
        kind: {name for summary in summaries.values() for name in getattr(summary, kind)}
        for kind in ("models", "datasets", "methods")
    }
    settings = {
        run: cell_settings(summaries[run].settings, owners, **keys) for run in rows["run"].unique()
    }
    classes: dict[str, list[str]] = {}
    for run, (shared, _) in settings.items():
        classes.setdefault(json.dumps(shared, sort_keys=True), []).append(run)
    samples = rows.groupby("run")["n"].max()
    for runs in sorted(classes.values(), key=lambda runs: -samples[runs].max()):
        shared, options = settings[runs[0]]
        yield Ranking(
            tuple(runs),
            tuple(_standings(rows[rows["run"].isin(runs)])),
            {
                run: list(_differences(shared, other, owners["datasets"]))
                for run, (other, _) in settings.items()
                if run not in runs
            },
            {run: list(_differences(options, settings[run][1])) for run in runs[1:]},
        )


def _standings(rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the methods of comparable runs, ranked together; each is tested within its run."""
    ranks = rows["value"].round(DECIMALS).rank(ascending=False)  # higher areas are better
    rows = rows.assign(joint=ranks, is_best=rows["method"] == rows["best"])
    for row in rows.sort_values("joint", kind="stable").itertuples():
        yield {
            "rank": rank_text(row.joint),
            "method": row.label,
            "value": number_text(row.value, row.decimals),
            "interval": interval_text(row.low, row.high, row.decimals) or "",
            "mark": mark(row),
            "n": row.n,
            "failed": row.n_failed,
            "run": row.run,
        }


def _differences(
    first: Settings, second: Settings, datasets: Collection[str] | None = None
) -> Iterator[str]:
    """Yield the differing settings of two runs, or items of lists: `KEY: HERE, there THERE`.

    A setting stated by only one run is left out if it belongs to one of the `datasets`, which the
    other run lacks; without `datasets`, as for options of methods, it is always left out.
    """
    for key, values in differences(first, second).items():
        if NOT_STATED in values and (datasets is None or key.partition(".")[0] in datasets):
            continue
        yield f"{key}: {_listed(*values) or ', there '.join(map(_shortened, values))}"


def _listed(here: Any, there: Any) -> str:
    """Describe the items that only one of two lists has; empty for other values."""
    if not (isinstance(here, list) and isinstance(there, list)):
        return ""
    only = {
        "here": [str(item) for item in here if item not in there],
        "there": [str(item) for item in there if item not in here],
    }
    return ", ".join(f"{side} also {' and '.join(items)}" for side, items in only.items() if items)


def _shortened(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
