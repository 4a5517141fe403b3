"""The distribution of each method's scores (paper, fig:attribution-distribution)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pisoft.figures.panels import draw, heading, in_rows, n_text
from pisoft.figures.style import line_styles
from pisoft.statistics.scores import StepScores, read_methods, scores_by_sample
from pisoft.views.view import View, display

EDGES = np.linspace(0, 1, 41)  # of the histogram's bins
COLUMNS = 3  # of panels
ROW_HEIGHT = 0.24  # inches per method
TALLEST = 0.85  # of a row, what a method's highest bin fills
OPACITY = 0.55
BESIDE = (1.02, 1.01)  # of a panel, where the column of means begins


@dataclass(frozen=True)
class Distribution:
    """A method's scores on one dataset, each sample with equal weight."""

    shares: np.ndarray  # of the scores in each bin between EDGES, (bins,)
    mean: float  # NaN without a sample
    n: int  # samples with scores
    n_failed: int  # samples without


def distribution(steps: Iterable[StepScores], method: str) -> Distribution:
    """Return the distribution of a method's scores on one model and dataset.

    Tokens of a step, steps of a sample and samples are weighted equally, so the mean is the
    expected retaining share of the original metrics.
    """
    samples = [scored for _, scored in scores_by_sample(steps, method)]
    ok = [scored for scored in samples if scored]
    if not ok:
        return Distribution(np.zeros(EDGES.size - 1), np.nan, 0, len(samples))
    shares = [np.mean([np.histogram(s, EDGES)[0] / s.size for s in steps], axis=0) for steps in ok]
    mean = np.mean([np.mean([scores.mean() for scores in steps]) for steps in ok])
    return Distribution(np.mean(shares, axis=0), float(mean), len(ok), len(samples) - len(ok))


@display(title="Distribution of the scores", by=("model",), reads=("prompts", "attributions"))
def plot(view: View) -> Figure:
    """Draw the figure of one model, reading one method and dataset at a time."""
    settings = view.settings
    distributions: dict[str, dict[str, Distribution]] = {}
    for _, method, dataset, steps in read_methods(view.files, settings):
        by_method = distributions.setdefault(settings.datasets[dataset], {})
        by_method[method] = distribution(steps, method)
    explained_by = {name for by_method in distributions.values() for name in by_method}
    methods = {name: label for name, label in settings.methods.items() if name in explained_by}
    return plot_scores(view, distributions, methods)


def plot_scores(
    view: View, distributions: Mapping[str, Mapping[str, Distribution]], methods: Mapping[str, str]
) -> Figure:
    """Draw distributions, a panel per dataset and a row per method, with marked means.

    Rows are scaled to their highest bin, so shapes show whether scores are spread out or sparse.
    """
    fill = partial(_draw_rows, methods=methods)
    rows = in_rows(distributions, min(len(distributions), COLUMNS))
    height = (ROW_HEIGHT * len(methods) + 0.6) * len(rows) + 0.5
    normalised = f"normalisation: {view.settings.normalisation}"
    scored = [one for by_method in distributions.values() for one in by_method.values() if one.n]
    means = sorted(one.mean for one in scored)
    message = f"Mean scores lie between {means[0]:.2f} and {means[-1]:.2f}" if means else ""
    title = heading(view, normalised, message=message)
    return draw(title, fill, distributions, height, legend=False, rows=rows, sharey=True)


def _draw_rows(
    panel: Axes, distributions: Mapping[str, Distribution], methods: Mapping[str, str]
) -> None:
    beside: dict[str, Any] = {"fontsize": "small", "clip_on": False}
    floors = range(len(methods))[::-1]
    for floor, (method, look) in zip(floors, line_styles(methods).items(), strict=True):
        one = distributions.get(method)
        if one is None or not one.n:
            panel.text(0.5, floor + 0.3, "no value", ha="center", fontsize="small", style="italic")
            continue
        heights = floor + TALLEST * one.shares / one.shares.max()
        panel.stairs(heights, EDGES, baseline=floor, fill=True, color=look.colour, alpha=OPACITY)
        panel.plot([one.mean], [floor], markersize=5, clip_on=False, zorder=3, **look.point)
        failed = f" ({one.n_failed} failed)" if one.n_failed else ""
        panel.text(BESIDE[0], floor + 0.25, f"{one.mean:.2f}{failed}", va="center", **beside)
    counts = pd.DataFrame({"n": [one.n for one in distributions.values()]})
    panel.set_title(f"{panel.get_ylabel()} · {n_text(counts)}", fontsize="medium")
    panel.text(*BESIDE, "mean", transform=panel.transAxes, **beside)
    panel.set(xlabel="Score s of a token", ylabel="", xlim=(0, 1), ylim=(-0.2, len(methods)))
    panel.set_yticks(range(len(methods)), [*methods.values()][::-1])
    panel.spines["left"].set_visible(False)
