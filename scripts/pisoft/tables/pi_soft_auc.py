"""Areas under the curves of π-Soft-NS and π-Soft-NC (paper, tab:llama-soft), and robust ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pisoft.statistics.metrics import AUC_METRICS, AVERAGE
from pisoft.statistics.soft import NOISE_METRICS
from pisoft.tables import notes
from pisoft.tables.layout import Table
from pisoft.tables.ranking import ranking
from pisoft.views.registry import display
from pisoft.views.view import View

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
    reads=("statistics", "coverage", "noise", "curves"),
)
def table(view: View) -> Table:
    """Build the table of one protocol and model."""
    grid = np.unique(view.results("curves").rows["position"])
    areas = notes.AREAS.format(grid[0], grid[-1], len(grid), np.ptp(grid))
    ranked = ranking(view, (*AUC_METRICS, *ROBUST_METRICS), "identity", (areas, notes.ROBUST))
    return replace(ranked, notes=(*ranked.notes, *_noise(view)))


def _noise(view: View) -> tuple[str, ...]:
    """Say how far rounding alone moves predictions, against the zero baseline."""
    sizes = view.results_if_any("noise").rows.set_index("metric")
    if sizes.empty:
        return ()
    h0 = view.results("statistics", metric="h0").rows
    h0 = h0[h0["dataset"] != AVERAGE]
    baseline = (h0["value"] * h0["n"]).sum() / h0["n"].sum()
    number_type = view.settings.types[view.cell["model"]]
    if "noise_h0" not in sizes.index:
        identity = sizes.loc["identity"]
        numbers = identity["value"], identity["high"]
        return (notes.NOISE.format(number_type, *numbers, baseline),)
    distance, of_h0, ns, nc = sizes["value"][list(NOISE_METRICS)]
    most, n = sizes.loc["noise_h0", ["high", "n"]]
    return (
        notes.NOISE_OF_HALF_PRECISION.format(
            number_type, distance, of_h0, most, ns, nc, n, baseline
        ),
    )
