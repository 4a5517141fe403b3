"""What the π-Soft metrics are about, on results (paper, fig:illustration_evaluation_protocol).

(a) The means of the scores, and so the shares of tokens that the original metrics keep, differ
between methods. (b) On one sample, each method's own power α brings its scores to the same mean π.
(c) The original metric is a point of another share for every method, beside its π-Soft curve.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pisoft.contracts import OK, read_table
from pisoft.displays import display
from pisoft.faithfulness.calibration import clip_scores
from pisoft.figures.panels import legend_columns
from pisoft.figures.style import LineStyle, line_styles, theme
from pisoft.statistics.metrics import CONTROL
from pisoft.statistics.results import select
from pisoft.statistics.scores import StepScores, perturbable_counts, read_scores
from pisoft.views import Results, View

TARGET = 0.3  # of the panels that show one retaining probability; the nearest on the grid is used
POINT_SIZE = 8


@dataclass(frozen=True)
class Calibrated:
    """One explained step of one sample, calibrated to π for a few methods.

    Attributes:
        sample_id: the sample.
        step: index of the generated token.
        before: by method, scores of the perturbable tokens, (m,).
        after: by method, the same to the power of α, (m,).
        alpha: by method.
    """

    sample_id: str
    step: int
    before: Mapping[str, np.ndarray]
    after: Mapping[str, np.ndarray]
    alpha: Mapping[str, float]


def retaining_shares(samples: pd.DataFrame, tokens: Mapping[str, int]) -> pd.DataFrame:
    """Return the share of tokens that the original metrics keep on average, E[R] / m.

    Args:
        samples: `soft_samples` rows of one protocol, model and dataset.
        tokens: number of perturbable tokens, m, of each sample.

    Returns:
        method, sample_id, share, soft_nc, of the ok samples.
    """
    ok = samples[samples["status"] == OK]
    wide = ok.pivot(index=["method", "sample_id"], columns="metric", values="value")
    wide = wide.reindex(columns=["expected_retained", "soft_nc"]).reset_index()  # none may be ok
    counts = wide["sample_id"].map(tokens).astype(np.float64)
    wide["share"] = wide["expected_retained"].astype(np.float64) / counts
    return wide[["method", "sample_id", "share", "soft_nc"]]


def shown_methods(shares: pd.DataFrame, methods: Iterable[str]) -> list[str]:
    """Return the methods of lowest, middle and highest mean share, and random scores anyway.

    They are ordered by their means; of equal means, the first of `methods`.
    """
    means = shares.groupby("method")["share"].mean()
    by_mean = sorted((method for method in methods if method in means), key=means.__getitem__)
    others = [method for method in by_mean if method != CONTROL]
    chosen = {others[place] for place in (0, len(others) // 2, -1)} if others else set()
    return [method for method in by_mean if method in chosen | {CONTROL}]


def read_alphas(path: Path, pi: float) -> dict[tuple[str, int], float]:
    """Return α by sample and step, of the ok rows of a `soft` file at one π."""
    table = read_table(path, "soft")
    rows = table.filter(pc.and_kleene(pc.equal(table["status"], OK), pc.equal(table["pi"], pi)))
    keys = zip(rows["sample_id"].to_pylist(), rows["step"].to_pylist(), strict=True)
    return dict(zip(keys, rows["alpha"].to_pylist(), strict=True))


def calibrated(
    steps: Iterable[StepScores], alphas: Mapping[str, Mapping[tuple[str, int], float]], floor: float
) -> Calibrated | None:
    """Return the first step at which all methods have an α; None if there is none.

    Args:
        steps: scores.
        alphas: by method, see :func:`read_alphas`.
        floor: scores are clipped to [floor, 1 - floor] before they are transformed.
    """
    for step in steps:
        key = (step.prompt["sample_id"], step.step)
        if all(key in by_step and method in step.raw for method, by_step in alphas.items()):
            alpha = {method: by_step[key] for method, by_step in alphas.items()}
            before = {method: step.scores(method) for method in alphas}
            after = {name: clip_scores(before[name], floor) ** alpha[name] for name in alphas}
            return Calibrated(*key, before, after, alpha)
    return None


@display(
    title="Why scores are calibrated",
    by=("protocol", "model"),
    reads={
        "soft_samples": "summary/soft_samples",
        "curves": "summary/curves",
        "prompts": "prompts/{model}/{part}",
        "attributions": "attributions/{model}/{method}/{part}",
        "soft": "soft/{protocol}/{model}/{method}/{part}",
    },
)
def plot(view: View) -> Figure:
    """Draw the figure of one protocol and model, on the run's first dataset."""
    files, settings = view.files, view.settings
    first, prompts = next(iter(settings.datasets)), files["prompts"][0]
    cell = {**view.cell, "dataset": first}
    samples, curves = files.rows("soft_samples", **cell), view.results("curves", dataset=first)
    shares = retaining_shares(samples, perturbable_counts(prompts, settings.scope))
    shown = shown_methods(shares, curves.methods)
    pi = min(curves.rows["position"], key=lambda pi: abs(pi - TARGET), default=TARGET)
    by_method = {path.parts[-2]: path for path in files["soft"] if path.stem == first}
    alphas = {name: read_alphas(path, pi) for name, path in by_method.items() if name in shown}
    scores = [path for path in files["attributions"] if path.stem == first]
    steps = read_scores(prompts, [path for path in scores if path.parts[-2] in shown], settings)
    example = calibrated(steps, alphas, settings.score_floor)
    return plot_protocol(shares, example, curves, pi, settings.where(cell))


def plot_protocol(
    shares: pd.DataFrame,
    example: Calibrated | None,
    curves: Results,
    pi: float,
    where: str,
) -> Figure:
    """Draw the three panels.

    Args:
        shares: of all methods, see :func:`retaining_shares`.
        example: of the methods of panels (b) and (c); None: panel (b) stays empty and says so.
        curves: of one protocol, model and dataset.
        pi: the retaining probability of panel (b).
        where: model, dataset and protocol, for the title.
    """
    methods = curves.methods
    styles = line_styles(methods)
    shown = shown_methods(shares, methods)
    with theme():
        figure = Figure(figsize=(13.5, 5.4), layout="constrained")
        grid = figure.add_gridspec(2, 3, width_ratios=(1.15, 1, 1.1))
        _draw_shares(figure.add_subplot(grid[:, 0]), shares, methods, styles)
        before = figure.add_subplot(grid[0, 1])
        _draw_example(before, figure.add_subplot(grid[1, 1], sharex=before), example, styles, pi)
        panel = figure.add_subplot(grid[:, 2])
        _draw_curves(panel, select(curves.rows, metric="pi_soft_nc"), shares, shown, styles)
        handles = [
            _handle(styles[name], _legend_label(methods[name], name, example)) for name in shown
        ]
        if handles:
            handles.append(
                Line2D([], [], linestyle="", marker="o", color="white", markeredgecolor="black",
                       markersize=POINT_SIZE, label="original Soft-NC (α = 1)")
            )  # fmt: skip
        sample = "" if example is None else f" · sample of panel (b): {example.sample_id}"
        figure.suptitle(where + sample, fontsize="medium")
        figure.legend(
            handles=handles,
            loc="outside lower center",
            ncols=legend_columns([str(handle.get_label()) for handle in handles] or [""]),
            frameon=False,
            handlelength=3.5,
        )
    return figure


def _draw_shares(
    panel: Axes, shares: pd.DataFrame, methods: Mapping[str, str], styles: Mapping[str, LineStyle]
) -> None:
    """Draw a mark for each sample, and the mean, one method per row."""
    rows = range(len(methods))[::-1]
    for row, method in zip(rows, methods, strict=True):
        found = shares.loc[shares["method"] == method, "share"]
        style = styles[method]
        if found.empty:
            panel.text(0.5, row, "no value", ha="center", va="center", style="italic")
            continue
        panel.plot(found, [row] * len(found), color=style.colour, marker="|", linestyle="",
                   markersize=9, alpha=0.6)  # fmt: skip
        _draw_point(panel, found.mean(), row, style)
    panel.set_yticks(rows, list(methods.values()))
    panel.set_ylim(-0.6, len(methods) - 0.4)
    panel.set_xlim(0, 1)
    panel.set_xlabel("Mean of the scores = expected retaining share E[R] / m")
    panel.set_title(f"(a) Scores as they are · {_sample_text(shares)}", fontsize="medium")
    seaborn.despine(ax=panel)


def _draw_example(
    before: Axes,
    after: Axes,
    example: Calibrated | None,
    styles: Mapping[str, LineStyle],
    pi: float,
) -> None:
    """Draw one sample's scores from highest to lowest, before and after calibration."""
    before.set_title("(b) One sample's scores, sorted", fontsize="medium")
    before.set_ylabel("score s")
    after.set_ylabel("s to the power of α")
    after.set_xlabel("Share of tokens with a higher score")
    for panel in (before, after):
        panel.set_xlim(0, 1)
        panel.set_ylim(0, 1.02)
        seaborn.despine(ax=panel)
    before.tick_params(labelbottom=False)
    if example is None:
        before.text(0.5, 0.5, "no sample has scores of all these methods", ha="center")
        return
    for panel, scores in ((before, example.before), (after, example.after)):
        for method, values in scores.items():
            style = styles[method]
            places = (np.arange(values.size) + 0.5) / values.size
            panel.plot(places, np.sort(values)[::-1], color=style.colour, linestyle=style.dash)
    for method, values in example.before.items():
        before.axhline(values.mean(), color=styles[method].colour, linewidth=0.8, alpha=0.7)
    after.axhline(pi, color="black", linewidth=0.8)
    after.text(0.99, pi + 0.02, f"all means: π = {pi:g}", ha="right", fontsize="small")


def _draw_curves(
    panel: Axes,
    curves: pd.DataFrame,
    shares: pd.DataFrame,
    shown: Sequence[str],
    styles: Mapping[str, LineStyle],
) -> None:
    """Draw the π-Soft-NC curves, and the original metric at each method's own mean share."""
    for method in shown:
        curve, style = select(curves, method=method).sort_values("position"), styles[method]
        panel.plot(curve["position"], curve["value"], color=style.colour, linestyle=style.dash)
        original = shares[shares["method"] == method]
        _draw_point(panel, original["share"].mean(), original["soft_nc"].mean(), style)
    panel.set_xlim(0, 1)
    panel.set_ylim(bottom=0)
    panel.set_xlabel("Retaining probability π, or E[R] / m")
    panel.set_ylabel("π-Soft-NC ↑")
    panel.set_title("(c) π-Soft-NC, and the original Soft-NC", fontsize="medium")
    seaborn.despine(ax=panel)


def _draw_point(panel: Axes, x: float, y: float, style: LineStyle) -> None:
    edge = style.colour if style.marker == "x" else "black"  # a cross is nothing but edge
    panel.plot([x], [y], color=style.colour, marker=style.marker, markersize=POINT_SIZE,
               markeredgecolor=edge, zorder=3)  # fmt: skip


def _handle(style: LineStyle, label: str) -> Line2D:
    line = Line2D([], [], color=style.colour, marker=style.marker, label=label)
    line.set(linestyle=style.dash)
    return line


def _legend_label(label: str, method: str, example: Calibrated | None) -> str:
    """Name a method, and what happens to its scores in panel (b)."""
    if example is None:
        return label
    return f"{label}: mean {example.before[method].mean():.2f}, α = {example.alpha[method]:.2g}"


def _sample_text(shares: pd.DataFrame) -> str:
    """Return `n = 98`, or a range over the methods that have a value where they differ."""
    counts = shares["method"].value_counts()
    if counts.empty:
        return "n = 0"
    fewest, most = counts.min(), counts.max()
    return f"n = {most}" if fewest == most else f"n = {fewest}\N{EN DASH}{most}"
