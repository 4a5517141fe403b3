"""The areas by statistics that no single sample can rule."""

from __future__ import annotations

from collections.abc import Mapping

from pisoft.config.slices.display import SoftDisplaySlice
from pisoft.statistics.reading import Files
from pisoft.tables.layout import Table, marks
from pisoft.tables.soft import SoftRows, clamp_note

ROBUST_METRICS = (
    "ratio_auc_pi_soft_ns",
    "ratio_auc_pi_soft_nc",
    "median_auc_pi_soft_ns",
    "median_auc_pi_soft_nc",
    "auc_low_pi_soft_ns",
    "auc_low_pi_soft_nc",
)


Settings = SoftDisplaySlice


def table(files: Files, settings: SoftDisplaySlice, cell: Mapping[str, str]) -> Table:
    """Build the table of one protocol and model."""
    return robust_table(SoftRows.read(files, settings, cell))


def robust_table(rows: SoftRows) -> Table:
    """Build the table of statistics that no single sample can rule, beside the paper's means."""
    notes = (
        "A mean of ratios is ruled by samples whose zero baseline hardly changes the prediction "
        "(small H₀). Ratio of means: mean over samples of the area before it is divided by H₀, "
        "over the mean of H₀; never clamped. Median: of the samples' areas. π ≤ 0.3: mean of the "
        "areas over that part of the grid only, where few tokens are kept or removed. Higher is "
        "better.",
        marks(rows.statistics),
        "Medians are not tested, and their intervals are of each method alone.",
        clamp_note(rows.clamp),
        *rows.average_notes(),
    )
    return rows.averaged_table(
        "AUC of π-Soft-NS and π-Soft-NC, other statistics", ROBUST_METRICS, notes
    )
