"""The table of which metrics can tell scores that know the evidence from those that do not."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from pisoft.displays import display
from pisoft.statistics.metrics import METRICS
from pisoft.tables.layout import Block, Entry, Row, Table, mean_entry, number_text, sample_note
from pisoft.units import NOTHING
from pisoft.views import View

SHARES = {
    "oracle_over_noisy": "Oracle > noisy",
    "noisy_over_random": "Noisy > random",
    "random_over_anti-oracle": "Random > anti-oracle",
    "oracle_over_random": "Oracle > random",
    "ladder": "Ladder τ",
}
MEANS = "means_in_order"
NEEDED = "samples_needed"
COLUMNS = (*SHARES.values(), "Means in order", "Samples needed")


@display(
    title="Can the metrics tell?",
    by=("model",),
    reads={"metric_validation": "summary/metric_validation"},
    cells="control",
)
def table(view: View) -> Table:
    """Build the table of one model."""
    files, settings, cell = view.files, view.settings, view.cell
    rows = files.rows("metric_validation", **cell)
    return diagnosis_table(rows, where=settings.where(cell), datasets=settings.datasets)


def diagnosis_table(rows: pd.DataFrame, *, where: str, datasets: Mapping[str, str]) -> Table:
    """Build the table of how each metric orders the controls.

    Args:
        rows: `diagnosis` rows of one model; those at single π are in the CSV and the figure alone.
        where: model, for the title.
        datasets: label of each dataset; those without controls are left out.
    """
    whole = rows[rows["pi"].isna()]
    shown = {name: label for name, label in datasets.items() if name in set(whole["dataset"])}
    blocks, notes = [], []
    for dataset, label in shown.items():
        of_dataset = whole[whole["dataset"] == dataset]
        keys = of_dataset[["metric", "protocol"]].fillna("").drop_duplicates()
        by_metric = {
            (name, protocol): of_dataset[
                (of_dataset["metric"] == name) & (of_dataset["protocol"].fillna("") == protocol)
            ]
            for name, protocol in sorted(keys.itertuples(index=False), key=_place)
        }
        blocks.append(Block(label, tuple(_row(*key, own) for key, own in by_metric.items())))
        notes.append(_verdict(label, by_metric))
    return Table(
        title=f"Can the metrics tell? · {where}",
        corner="Metric",
        columns=COLUMNS,
        blocks=tuple(blocks),
        notes=(*notes, *_NOTES, sample_note(whole, shown)),
        values=rows.drop(columns="model"),
    )


def _place(key: tuple[str, str]) -> tuple[str, int]:
    """Return where a metric stands: by protocol, insertion and deletion last."""
    name, protocol = key
    return protocol or "~", list(METRICS).index(name)


def _label(name: str, protocol: str) -> str:
    return METRICS[name].label + (f" · {protocol}" if protocol else "")


def _row(name: str, protocol: str, rows: pd.DataFrame) -> Row:
    found = rows[rows["method"].isna()].set_index("statistic")
    entries = [mean_entry(found.loc[statistic], 2) for statistic in SHARES]
    entries.append(Entry(number_text(found.loc[MEANS, "value"], 2)))
    needed, n = found.loc[NEEDED, ["value", "n"]]
    never = f"more than {n:.0f}" if n else NOTHING
    entries.append(Entry(never if pd.isna(needed) else f"{needed:.0f}"))
    return Row(_label(name, protocol), tuple(entries))


def _verdict(label: str, by_metric: Mapping[tuple[str, str], pd.DataFrame]) -> str:
    """Name the metrics that recover the order, and those that do not."""
    found: dict[bool, list[str]] = {True: [], False: []}
    for key, rows in by_metric.items():
        needed = rows.loc[rows["statistic"] == NEEDED, "value"]
        found[bool(needed.notna().any())].append(_label(*key))
    parts = [
        f"{what}: {', '.join(names)}"
        for what, names in (
            ("recovered by", found[True]),
            ("not recovered with these samples by", found[False]),
        )
        if names
    ]
    return f"{label}: the order of the means is {'; '.join(parts)}."


_NOTES = (
    "The oracle's scores are 1 for the tokens of the known evidence and 0 for others, the "
    "anti-oracle's the reverse; noisy is the oracle with the middle of the run's amounts of normal "
    "noise. A > B: share of samples whose value is better for A, ties counting one half; 0.5 is "
    "what a metric has that cannot tell. Ladder: Kendall's τ-a between less noise and a better "
    "value over all amounts of noise, mean over samples; 1 is best. In brackets: 95 % intervals "
    "over samples (Wilson's of shares, Student's t of τ).",
    "Means in order: probability that the means over as many samples, drawn anew, have the order "
    "oracle, noisy, random, anti-oracle. Samples needed: the fewest with which it reaches 95 %.",
    "LDS, faithfulness correlation and infidelity read the draws of random scores, which are no "
    "fair control of their own masks: their order with random scores says less than that of the "
    "others.",
    "This is a test of the metrics, by evidence that a reader takes for the reason: a model that "
    "decides by other tokens makes a good metric fail it.",
)
