"""Areas under the curves of π-Soft-NS and π-Soft-NC (paper, tab:llama-soft)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from pisoft.config.slices.display import SoftDisplaySlice
from pisoft.contracts import OK
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.reading import Files
from pisoft.tables.layout import Table, marks
from pisoft.tables.soft import AUC_METRICS, SoftRows, clamp_note

Settings = SoftDisplaySlice


def table(files: Files, settings: SoftDisplaySlice, cell: Mapping[str, str]) -> Table:
    """Build the table of one protocol and model."""
    grid = sorted(files.rows("soft_curves", **cell)["pi"].unique())
    return auc_table(SoftRows.read(files, settings, cell), grid, settings.types[cell["model"]])


def auc_table(rows: SoftRows, grid: Sequence[float], number_type: str) -> Table:
    """Build the table of areas under the π-Soft curves (paper, tab:llama-soft).

    Args:
        rows: its rows.
        grid: retaining probabilities of the curves.
        number_type: of the model's weights and activations, for the noise floor.
    """
    statistic = (
        "Mean over samples of the area under the curve (trapezoid) on the grid π = "
        f"{min(grid):g}, …, {max(grid):g} ({len(grid)} values), so a curve that is 1 everywhere "
        f"has {max(grid) - min(grid):.3g}. Higher is better."
    )
    notes = (statistic, marks(rows.statistics), clamp_note(rows.clamp), *rows.average_notes())
    return rows.averaged_table(
        "AUC of π-Soft-NS and π-Soft-NC",
        AUC_METRICS,
        (*notes, *_noise_notes(rows.statistics, rows.outcomes, number_type)),
    )


def _noise_notes(statistics: pd.DataFrame, outcomes: pd.DataFrame, number_type: str) -> list[str]:
    """Say how far rounding alone moves the unperturbed prediction, against the zero baseline."""
    found = outcomes.loc[outcomes["status"] == OK, "value"]
    if found.empty:
        return []
    h0 = statistics[(statistics["metric"] == "h0") & (statistics["dataset"] != AVERAGE)]
    mean_h0 = (h0["value"] * h0["n"]).sum() / h0["n"].sum()
    return [
        f"Noise floor ({number_type}): the unperturbed input, evaluated like a perturbed one, is "
        f"at distance {found.mean():.1g} on average and {found.max():.1g} at most; the zero "
        f"baseline is at {mean_h0:.2g} on average."
    ]
