"""Areas under the curves of π-Soft-NS and π-Soft-NC (paper, tab:llama-soft), and robust ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pisoft.statistics.estimates import FEWEST_FOR_INTERVAL
from pisoft.statistics.metrics import AUC_METRICS, AVERAGE, METRICS
from pisoft.statistics.soft import NOISE_METRICS
from pisoft.tables import grid, notes
from pisoft.tables.ranking import ranking
from pisoft.views.view import View, display

# That no single sample can rule.
ROBUST_METRICS = [name for name in METRICS if name.startswith(("ratio_", "median_", "auc_low_"))]


@display(
    title="AUC of π-Soft-NS and π-Soft-NC",
    by=("protocol", "model"),
    reads=("statistics", "coverage", "noise", "curves"),
)
def table(view: View) -> grid.Table:
    """Build the table of one protocol and model."""
    pis = np.unique(view.results("curves").rows["position"])
    ends = {"first": pis[0], "last": pis[-1], "count": len(pis), "span": np.ptp(pis)}
    no_medians = notes.sparse(view.settings, "single_samples", numbers="Medians")
    medians = "" if no_medians else " Median: not tested. No single sample dominates these."
    areas = notes.about("pi_soft_auc", medians=medians, **ends)
    on_metrics = [areas, no_medians, _too_few(view)]
    ranked = ranking(view, (*AUC_METRICS, *ROBUST_METRICS), "identity", *on_metrics)
    return replace(ranked, notes=(*ranked.notes, *_noise(view)))


def _too_few(view: View) -> str:
    """Name areas with points of the curve that lack an interval; empty if all have one."""
    curves = view.results("curves")
    measured = curves.rows.groupby(["dataset", "method"])["n"].agg(["min", "max"])
    few = measured[(measured["min"] < FEWEST_FOR_INTERVAL) & (measured["max"] > measured["min"])]
    labels = [
        label for name, label in curves.datasets.items() if name in few.index.unique("dataset")
    ]
    return notes.text("too_few", datasets=", ".join(labels)) if labels else ""


def _noise(view: View) -> tuple[str, ...]:
    """State how far rounding moves predictions, relative to the zero baseline."""
    sizes = view.results_if_any("noise").rows.set_index("metric")
    if sizes.empty:
        return ()
    h0 = view.results("statistics", metric="h0").rows
    h0 = h0[h0["dataset"] != AVERAGE]
    baseline = (h0["value"] * h0["n"]).sum() / h0["n"].sum()
    shared = {"number_type": view.settings.types[view.cell["model"]], "baseline": baseline}
    if "noise_h0" not in sizes.index:
        mean, most = sizes.loc["identity", ["value", "high"]]
        return (notes.text("noise", mean=mean, most=most, **shared),)
    mean, h0_noise, ns, nc = sizes["value"][list(NOISE_METRICS)]
    most, n = sizes.loc["noise_h0", ["high", "n"]]
    numbers = {"mean": mean, "h0": h0_noise, "most": most, "ns": ns, "nc": nc, "n": n}
    return (notes.text("noise_of_half_precision", **numbers, **shared),)
