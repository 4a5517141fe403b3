"""Recovery of the used statement, by length of the text and depth of the statement in it."""

from __future__ import annotations

from itertools import product

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from pisoft.figures.panels import GREY, draw, heading, in_rows, lines, n_text, over_doublings
from pisoft.statistics.context_use import ALL, BY_CHANCE, BY_DEPTH, METRICS
from pisoft.statistics.metrics import AVERAGE, TOKENS
from pisoft.statistics.results import select
from pisoft.views.labels import PLANTED_TASKS, RECOVERY
from pisoft.views.titles import best_recovery
from pisoft.views.view import View, display

AXES = {ALL: "Tokens of the text", BY_DEPTH: "Depth of the statement"}


@display(
    title="Do methods find the statement that the model used?",
    by=("model",),
    reads=("context_use",),
    cells="context_use",
)
def plot(view: View) -> Figure:
    """Draw a row of panels for each generator: lines over length and depth, and chance, dashed."""
    results = view.results("context_use")
    rows = results.rows
    tasks = [task for task in PLANTED_TASKS if task in set(rows["other"])]
    lengths = select(rows, metric=TOKENS, part=ALL).groupby("dataset")["value"].mean().round()
    most = rows.groupby("method")["n"].sum().idxmax()  # chance is of its samples

    def fill(panel: Axes, keys: tuple[str, str, str]) -> None:
        task, metric, part = keys
        selected = select(rows, other=task, part=part)
        selected = selected[(selected["dataset"] == AVERAGE) == (part == BY_DEPTH)]
        if part == ALL:
            selected = selected.assign(position=selected["dataset"].map(lengths))
        lines(panel, select(selected, metric=metric), results.methods)
        chance = select(selected, metric=BY_CHANCE[metric], method=most).sort_values("position")
        ends = chance["position"], chance["value"]
        panel.plot(*ends, "--", color=GREY, linewidth=1, label="By chance")
        panel.set(ylim=(0, 1), xlabel=AXES[part], ylabel="")
        if part == BY_DEPTH:
            panel.set(xlim=(0, 1), xticks=(0, 0.5, 1))
            panel.xaxis.set_major_formatter(PercentFormatter(1))
        else:
            over_doublings(panel, selected["position"])
            panel.set_ylabel(f"{RECOVERY[metric]}\n{PLANTED_TASKS[task]}")

    panels = {" ".join(keys): keys for keys in product(tasks, METRICS, AXES)}
    n = n_text(select(rows, metric=METRICS[0], part=ALL, dataset=list(results.datasets)))
    grid = in_rows(panels, 4)
    average = select(rows, metric=METRICS[0], part=ALL, dataset=AVERAGE)
    message = best_recovery(average, PLANTED_TASKS, results.methods)
    return draw(heading(view, n, message=message), fill, panels, 1.4 + 1.9 * len(grid), rows=grid)
