"""How each method distributes its scores (paper, fig:attribution-distribution)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pisoft.displays import display
from pisoft.figures.style import LineStyle, line_styles, theme
from pisoft.statistics.scores import StepScores, read_scores, scores_by_sample
from pisoft.views import View

EDGES = np.linspace(0, 1, 41)  # of the histogram's bins
COLUMNS = 3  # of panels
ROW_HEIGHT = 0.36  # inches per method
TALLEST = 0.85  # of a row, what a method's highest bin fills
OPACITY = 0.55
BESIDE = (1.02, 0.98)  # of a panel, where the column of means begins


@dataclass(frozen=True)
class Distribution:
    """A method's scores on one dataset, each sample with equal weight.

    Attributes:
        shares: of the scores in each bin between :data:`EDGES`, (bins,).
        mean: of the scores; NaN without a sample.
        n: samples with scores.
        n_failed: samples without.
    """

    shares: np.ndarray
    mean: float
    n: int
    n_failed: int


def distribution(steps: Iterable[StepScores], method: str) -> Distribution:
    """Return how a method's scores are distributed.

    A step's tokens, a sample's steps and the samples have equal weight each, so that the mean is
    that of the original metrics' expected retaining share.

    Args:
        steps: of one model and dataset, the steps of a sample next to each other.
        method: whose scores.
    """
    histograms: list[np.ndarray] = []
    means: list[float] = []
    samples = 0
    for _, found in scores_by_sample(steps, method):
        samples += 1
        if found:
            histograms.append(np.mean([np.histogram(s, EDGES)[0] / s.size for s in found], axis=0))
            means.append(float(np.mean([scores.mean() for scores in found])))
    return Distribution(
        shares=np.mean(histograms, axis=0) if histograms else np.zeros(EDGES.size - 1),
        mean=float(np.mean(means)) if means else float("nan"),
        n=len(means),
        n_failed=samples - len(means),
    )


@display(
    title="Distribution of the scores",
    by=("model",),
    reads={
        "prompts": "prompts/{model}/{part}",
        "attributions": "attributions/{model}/{method}/{part}",
    },
)
def plot(view: View) -> Figure:
    """Draw the figure of one model, reading one method and dataset at a time."""
    files, settings, cell = view.files, view.settings, view.cell
    prompts = {path.stem: path for path in files["prompts"]}
    found: dict[str, dict[str, Distribution]] = {}
    for path in files["attributions"]:
        method, dataset = path.parts[-2], path.stem
        steps = read_scores(prompts[dataset], [path], settings)
        found.setdefault(settings.datasets[dataset], {})[method] = distribution(steps, method)
    explained_by = {name for by_method in found.values() for name in by_method}
    methods = {name: label for name, label in settings.methods.items() if name in explained_by}
    where = f"{settings.where(cell)} · normalisation: {settings.normalisation}"
    return plot_scores(found, methods, where)


def plot_scores(
    found: Mapping[str, Mapping[str, Distribution]], methods: Mapping[str, str], where: str
) -> Figure:
    """Draw the distributions of all methods, one row each, in one panel per dataset.

    Each row is scaled to its highest bin, so that its shape shows whether scores are spread out or
    sparse. The marker and the number beside the row are the mean.

    Args:
        found: by dataset's label, by method.
        methods: label of each method, from top to bottom.
        where: the model, for the title.
    """
    styles = line_styles(methods)
    columns = min(len(found), COLUMNS)
    rows = -(-len(found) // columns)
    with theme():
        size = (1.8 + 3.1 * columns, (ROW_HEIGHT * len(methods) + 0.9) * rows + 0.4)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel()
        for panel, (dataset, by_method) in zip(axes, found.items(), strict=False):
            for place, method in enumerate(methods):
                _draw_row(panel, by_method.get(method), styles[method], len(methods) - 1 - place)
            panel.set_title(f"{dataset} · {_sample_text(by_method.values())}", fontsize="medium")
            panel.set_xlabel("Score s of a token")
            panel.text(*BESIDE, "mean", transform=panel.transAxes, fontsize="small")
            panel.set_xlim(0, 1)
            panel.set_yticks(range(len(methods)), [*methods.values()][::-1])
            panel.set_ylim(-0.2, len(methods))
            seaborn.despine(ax=panel, left=True)
        for panel in axes[len(found) :]:
            panel.set_axis_off()
        figure.suptitle(where, fontsize="medium")
    return figure


def _draw_row(panel: Axes, found: Distribution | None, style: LineStyle, floor: float) -> None:
    """Draw one method's histogram on its floor, with its mean."""
    if found is None or not found.n:
        panel.text(0.5, floor + 0.3, "no value", ha="center", fontsize="small", style="italic")
        return
    heights = floor + TALLEST * found.shares / found.shares.max()
    panel.stairs(heights, EDGES, baseline=floor, fill=True, color=style.colour, alpha=OPACITY)
    panel.plot(
        [found.mean],
        [floor],
        color=style.colour,
        marker=style.marker,
        markersize=7,
        clip_on=False,
        zorder=3,
    )
    failed = f" ({found.n_failed} failed)" if found.n_failed else ""
    text = f"{found.mean:.2f}{failed}"
    panel.text(BESIDE[0], floor + 0.25, text, fontsize="small", va="center", clip_on=False)


def _sample_text(found: Iterable[Distribution]) -> str:
    """Return `n = 98`, or a range over the methods that have a value where they differ."""
    counts = [one.n for one in found if one.n] or [0]
    fewest, most = min(counts), max(counts)
    return f"n = {most}" if fewest == most else f"n = {fewest}\N{EN DASH}{most}"
