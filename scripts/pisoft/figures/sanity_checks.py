"""How similar scores stay when the model is randomised, or when it reads another input."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pisoft.figures.panels import GREY, draw, error_lengths, lines, n_text, over_layers
from pisoft.figures.style import line_styles
from pisoft.statistics.results import select
from pisoft.views.registry import display
from pisoft.views.view import View

DODGE = 1.03  # factor between neighbours, so that error bars do not overlap
SPREAD = 0.7  # of all methods, where checks stand side by side, 1 apart
CHECKS = {"labels": "Shuffled\nlabels", "input": "Another\ninput"}


@display(
    title="Do scores change with model and input?",
    by=("model",),
    reads=("sanity_checks",),
    cells="sanity_checks",
)
def plot(view: View) -> Figure:
    """Draw Spearman's ρ of every check, mean over datasets, with 95 % intervals."""
    results = view.results("sanity_checks")
    results = results.select(dataset=results.summary)
    checks = {part: label for part, label in CHECKS.items() if part in set(results.rows["part"])}

    def over_reinitialised(panel: Axes) -> None:
        rows = select(results.rows, part="layers")
        lines(panel, rows, results.methods, dodge=DODGE)
        over_layers(panel, rows["position"], "Reinitialised decoder layers, counted from the last")
        panel.axhline(0, color=GREY, linewidth=1)

    def abreast(panel: Axes) -> None:
        looks = line_styles(results.methods)
        for index, (name, look) in enumerate(looks.items()):
            rows = select(results.rows, method=name).set_index("part").loc[list(checks)]
            shift = SPREAD * (index - (len(looks) - 1) / 2) / len(looks)
            panel.errorbar(
                np.arange(len(checks)) + shift,
                rows["value"],
                error_lengths(rows),
                **look.point,
                linestyle="none",
                markersize=7,
                linewidth=1.4,
                capsize=3,
            )
        panel.set_xticks(range(len(checks)), list(checks.values()))
        panel.set_xlim(-0.5, len(checks) - 0.5)
        panel.axhline(0, color=GREY, linewidth=1)

    return draw(
        f"{view.heading} · {n_text(results.rows)}",
        {"Spearman's ρ with the original scores ↓": over_reinitialised, "": abreast},
        (9.2, 4.8),
        sharey=True,
        width_ratios=[3, len(checks)],
    )
