"""Areas under the curves of π-Soft-NS and π-Soft-NC (paper, tab:llama-soft), and robust ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from pisoft.config.slices import DisplaySlice
from pisoft.contracts import OK
from pisoft.displays import display
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.reading import Files
from pisoft.statistics.soft import NOISE_METRICS
from pisoft.tables.layout import Table, marks
from pisoft.tables.soft import AUC_METRICS, SoftRows, clamp_note, soft_samples

ROBUST_METRICS = (  # that no single sample can rule
    "ratio_auc_pi_soft_ns",
    "ratio_auc_pi_soft_nc",
    "median_auc_pi_soft_ns",
    "median_auc_pi_soft_nc",
    "auc_low_pi_soft_ns",
    "auc_low_pi_soft_nc",
)


@display(
    title="AUC of π-Soft-NS and π-Soft-NC",
    by=("protocol", "model"),
    reads={
        "statistics": "summary/statistics",
        "soft_samples": "summary/soft_samples",
        "selected_samples": "summary/depth_selected/soft_samples",
        "soft_curves": "summary/soft_curves",
    },
)
def table(files: Files, settings: DisplaySlice, cell: Mapping[str, str]) -> Table:
    """Build the table of one protocol and model."""
    grid = sorted(files.rows("soft_curves", **cell)["pi"].unique())
    samples = soft_samples(files, **cell)
    noise = samples[samples["metric"].isin(NOISE_METRICS)]
    number_type = settings.types[cell["model"]]
    return auc_table(SoftRows.read(files, settings, cell), grid, number_type, noise)


def auc_table(
    rows: SoftRows, grid: Sequence[float], number_type: str, noise: pd.DataFrame
) -> Table:
    """Build the table of areas under the π-Soft curves, and statistics that no sample can rule.

    Args:
        rows: its rows.
        grid: retaining probabilities of the curves.
        number_type: of the model's weights and activations, for the noise floor.
        noise: `soft_samples` rows of NOISE_METRICS; none if the model has more than 16 bits.
    """
    statistic = (
        "Mean over samples of the area under the curve (trapezoid) on the grid π = "
        f"{min(grid):g}, …, {max(grid):g} ({len(grid)} values), so a curve that is 1 everywhere "
        f"has {max(grid) - min(grid):.3g}. Higher is better."
    )
    noise_notes = _noise_notes(rows.statistics, rows.outcomes, number_type, noise)
    notes = (
        statistic,
        marks(rows.statistics),
        clamp_note(rows.clamp),
        *rows.average_notes(),
        *noise_notes,
        "A mean of ratios is ruled by samples whose zero baseline hardly changes the prediction "
        "(small H₀). Ratio of means: mean over samples of the area before it is divided by H₀, "
        "over the mean of H₀; never clamped. Median: of the samples' areas; not tested, and its "
        "interval is of each method alone. π ≤ 0.3: mean of the areas over that part of the grid "
        "only, where few tokens are kept or removed.",
    )
    metrics = (*AUC_METRICS, *ROBUST_METRICS)
    return rows.averaged_table("AUC of π-Soft-NS and π-Soft-NC", metrics, notes)


def _noise_notes(
    statistics: pd.DataFrame, outcomes: pd.DataFrame, number_type: str, noise: pd.DataFrame
) -> list[str]:
    """Say how far rounding alone moves predictions, against the zero baseline."""
    found = outcomes.loc[outcomes["status"] == OK, "value"]
    if found.empty:
        return []
    h0 = statistics[(statistics["metric"] == "h0") & (statistics["dataset"] != AVERAGE)]
    mean_h0 = (h0["value"] * h0["n"]).sum() / h0["n"].sum()
    known = noise.dropna(subset="value")
    if not known.empty:
        sizes = known["value"].abs().groupby(known["metric"])
        distance, of_h0, ns, nc = sizes.mean()[list(NOISE_METRICS)]
        return [
            f"Noise floor ({number_type}): in float32, a draw's distance differs by "
            f"{distance:.1g} on average, H₀ by {of_h0:.1g}, at most "
            f"{sizes.max()['noise_h0']:.1g}, the AUC of one draw by {ns:.1g} (π-Soft-NS) and "
            f"{nc:.1g} (π-Soft-NC), in {sizes.size().iloc[0]} evaluations that were done in both; "
            f"the zero baseline is at {mean_h0:.2g} on average. A sample fails where H₀ is below "
            "the largest such difference in H₀ of its method and dataset."
        ]
    return [
        f"Noise floor ({number_type}): the unperturbed input, evaluated like a perturbed one, is "
        f"at distance {found.mean():.1g} on average and {found.max():.1g} at most; the zero "
        f"baseline is at {mean_h0:.2g} on average."
    ]
