"""The original Soft-NS and Soft-NC with E[R] (paper, `llama verify`)."""

from __future__ import annotations

from collections.abc import Mapping

from pisoft.config.slices import DisplaySlice
from pisoft.displays import display
from pisoft.statistics.metrics import METRICS
from pisoft.statistics.reading import Files
from pisoft.tables.layout import Table, marks, statistic_block
from pisoft.tables.soft import SoftRows, clamp_note

ORIGINAL_METRICS = {"soft_ns": 3, "soft_nc": 3, "expected_retained": 1}  # decimals


@display(
    title="Original Soft-NS and Soft-NC",
    by=("protocol", "model"),
    reads={"statistics": "summary/statistics", "soft_samples": "summary/soft_samples"},
)
def table(files: Files, settings: DisplaySlice, cell: Mapping[str, str]) -> Table:
    """Build the table of one protocol and model."""
    return original_table(SoftRows.read(files, settings, cell))


def original_table(rows: SoftRows) -> Table:
    """Build the table of the original Soft-NS and Soft-NC with E[R] (paper, `llama verify`)."""
    blocks = tuple(
        statistic_block(
            title,
            rows.statistics,
            [(metric, name, decimals) for metric, decimals in ORIGINAL_METRICS.items()],
            rows.methods,
            rows.families,
            ranked_by=0,
        )
        for name, title in rows.datasets.items()
    )
    statistic = (
        f"Rank: by {METRICS['soft_ns'].label}. Means over samples, scores used as they are (no "
        "calibration). Higher is better for Soft-NS and Soft-NC. E[R] is the expected number of "
        "retained tokens, the sum of the scores: methods that retain different numbers of tokens "
        "are not comparable here."
    )
    return rows.table(
        "Original Soft-NS and Soft-NC",
        [METRICS[metric].label for metric in ORIGINAL_METRICS],
        ORIGINAL_METRICS,
        blocks,
        (statistic, marks(rows.statistics), clamp_note(rows.clamp)),
    )
