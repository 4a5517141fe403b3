"""What the tables of the soft metrics share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import pandas as pd

from pisoft.config.base import Clamp
from pisoft.config.evaluation import CLAMPS
from pisoft.config.slices import DisplaySlice
from pisoft.config.studies import SELECTED_METHODS
from pisoft.statistics.metrics import METRICS
from pisoft.statistics.reading import Files, load_rows, present
from pisoft.tables.layout import (
    Block,
    Table,
    average_notes,
    coverage_notes,
    dataset_columns,
    missing_average_notes,
    statistic_block,
    tidy,
)

AUC_METRICS = ("auc_pi_soft_ns", "auc_pi_soft_nc")


def soft_samples(files: Files, **selection: str) -> pd.DataFrame:
    """Return `soft_samples` rows, those of selected depths included if there are any."""
    paths = [*files["soft_samples"], *files.get("selected_samples", ())]
    return load_rows(paths, "soft_samples", **selection)


@dataclass(frozen=True)
class SoftRows:
    """What the tables of one protocol and model show.

    Attributes:
        statistics: its `statistics` rows.
        outcomes: its `soft_samples` rows of the metric `identity`.
        where: model and protocol, for titles.
        methods: label of each method.
        families: family of each method.
        datasets: label of each dataset, in the order of the columns.
        clamp: where Soft-NS is clamped at 0.
    """

    statistics: pd.DataFrame
    outcomes: pd.DataFrame
    where: str
    methods: Mapping[str, str]
    families: Mapping[str, str]
    datasets: Mapping[str, str]
    clamp: Clamp

    @classmethod
    def read(cls, files: Files, settings: DisplaySlice, cell: Mapping[str, str]) -> SoftRows:
        """Read the statistics and samples of a protocol and model, of selected depths, too."""
        outcomes = soft_samples(files, metric="identity", **cell)
        return cls(
            statistics=files.rows("statistics", **cell),
            outcomes=outcomes,
            where=settings.where(cell),
            methods=present(settings.methods, outcomes),
            families=settings.families,
            datasets=settings.datasets,
            clamp=settings.clamp,
        )

    def table(
        self,
        title: str,
        columns: Iterable[str],
        metrics: Iterable[str],
        blocks: tuple[Block, ...],
        notes: Iterable[str],
    ) -> Table:
        """Return a table of some metrics; notes on the samples follow those given."""
        return Table(
            title=f"{title} · {self.where}",
            corner="Method",
            columns=("Rank", *columns),
            blocks=blocks,
            notes=(*notes, *coverage_notes(self.outcomes, self.methods, self.datasets)),
            values=tidy(self.statistics, metrics, self.methods, self.datasets),
        )

    def averaged_table(self, title: str, metrics: Collection[str], notes: Iterable[str]) -> Table:
        """Return a table with a block for each metric: datasets, and their average."""
        columns = dataset_columns(self.datasets)
        blocks = tuple(
            statistic_block(
                METRICS[metric].label,
                self.statistics,
                [(metric, name, 3) for name in columns],
                self.methods,
                self.families,
            )
            for metric in metrics
        )
        return self.table(title, columns.values(), metrics, blocks, notes)

    def average_notes(self) -> tuple[str, ...]:
        """Say what the average is, and which method has none; and what a selected depth is."""
        missing = missing_average_notes(self.outcomes, self.methods, self.datasets)
        chosen = set(SELECTED_METHODS.values()) & set(self.methods)
        return (*average_notes(self.datasets), *missing, *([_SELECTED] if chosen else []))


_SELECTED = (
    "Depth selected: the number of layers with the highest mean on the development samples of the "
    "layer study, by dataset and metric; the numbers are of its other samples."
)


def clamp_note(clamp: Clamp) -> str:
    """Say where Soft-NS is clamped."""
    said = f"Soft-NS is {CLAMPS[clamp]}."
    if clamp != "none":
        return said
    return (
        f"{said} It may be negative, and a sample whose zero baseline hardly changes the "
        "prediction (small H₀) can then rule a mean: see the other statistics."
    )
