"""The reason for calibration, shown on results (paper, fig:illustration_evaluation_protocol).

(a) Mean scores, and thus the shares of tokens that the original metrics keep, differ between
methods. (b) On one sample, a power α per method brings scores to the same mean π. (c) The original
metric evaluates each method at a different share, shown beside its π-Soft curve.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pisoft.faithfulness.calibration import clip_scores
from pisoft.figures.panels import LINE_HEIGHT, heading, legend_below, n_text, title_above
from pisoft.figures.style import LineStyle, abreast, line_styles, theme, width
from pisoft.statistics.metrics import CONTROL
from pisoft.statistics.results import select
from pisoft.statistics.scores import StepScores, read_scores
from pisoft.store.parquet import OK, read_table
from pisoft.views.view import Results, View, display

TARGET = 0.3  # of the panels that show one retaining probability; the nearest on the grid is used
POINT_SIZE = 5
NARROW_CHARACTERS = 30  # of a line at a panel of a narrow page
Looks = Mapping[str, LineStyle]  # by method


@dataclass(frozen=True)
class Calibrated:
    """One explained step, calibrated to π for a few methods."""

    sample_id: str
    step: int  # index of the generated token
    before: Mapping[str, np.ndarray]  # by method, scores of the perturbable tokens, (m,)
    after: Mapping[str, np.ndarray]  # the same to the power of α
    alpha: Mapping[str, float]


def retaining_shares(samples: pd.DataFrame) -> pd.DataFrame:
    """Return `method`, `share` (E[R] / m, which the original metrics keep) and `soft_nc`.

    By sample, from `soft_samples` rows of one protocol, model and dataset.
    """
    ok = samples[samples["status"] == OK]
    wide = ok.pivot(index=["method", "sample_id"], columns="metric", values="value")
    wide = wide.reindex(columns=["mean_score", "soft_nc"]).astype(float)  # none may be ok
    return wide.rename(columns={"mean_score": "share"}).reset_index("method")


def shown_methods(shares: pd.DataFrame, methods: Iterable[str]) -> list[str]:
    """Return random scores and the methods of lowest, middle and highest mean share, in order."""
    means = shares.groupby("method")["share"].mean()
    by_mean = sorted((method for method in methods if method in means), key=means.__getitem__)
    compared = [method for method in by_mean if method != CONTROL]
    chosen = {*compared[:1], *compared[len(compared) // 2 :][:1], *compared[-1:], CONTROL}
    return [method for method in by_mean if method in chosen]


def read_alphas(path: Path, pi: float) -> dict[tuple[str, int], float]:
    """Return α by sample and step from the ok rows of a `soft` file at one π."""
    rows = read_table(path, "soft").filter((pc.field("status") == OK) & (pc.field("pi") == pi))
    keys = zip(rows["sample_id"].to_pylist(), rows["step"].to_pylist(), strict=True)
    return dict(zip(keys, rows["alpha"].to_pylist(), strict=True))


def calibrated(
    steps: Iterable[StepScores], alphas: Mapping[str, Mapping[tuple[str, int], float]], floor: float
) -> Calibrated | None:
    """Return the first step with an α of all methods, if any; `floor` clips scores first."""
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
    reads=("soft_samples", "curves", "prompts", "attributions", "soft"),
)
def plot(view: View) -> Figure:
    """Draw the figure of one protocol and model, on the model's first dataset."""
    files, settings = view.files, view.settings
    first, prompts = next(iter(settings.datasets_on(view.cell["model"]))), files["prompts"][0]
    cell = {**view.cell, "dataset": first}
    samples, curves = files.rows("soft_samples", **cell), view.results("curves", dataset=first)
    shares = retaining_shares(samples)
    drawn = shown_methods(shares, curves.methods)
    pi = min(curves.rows["position"], key=lambda pi: abs(pi - TARGET), default=TARGET)
    soft, scores = (
        [path for path in files[kind] if path.stem == first and path.parts[-2] in drawn]
        for kind in ("soft", "attributions")
    )
    alphas = {path.parts[-2]: read_alphas(path, pi) for path in soft}
    steps = read_scores(prompts, scores, settings)
    example = calibrated(steps, alphas, settings.score_floor)
    return plot_protocol(replace(view, cell=cell), shares, example, curves, pi)


def plot_protocol(
    view: View, shares: pd.DataFrame, example: Calibrated | None, curves: Results, pi: float
) -> Figure:
    """Draw the three panels; without an example, panel (b) stays empty and says so."""
    methods, drawn = curves.methods, shown_methods(shares, curves.methods)
    looks = line_styles(methods)
    rows: tuple[float, ...] = max(2.1, LINE_HEIGHT * len(methods)), 2.1  # inches
    means = shares.groupby("method")["share"].mean().dropna()
    percent = f"{100 * means.min():.0f} to {100 * means.max():.0f} %"
    message = "" if means.empty else f"Uncalibrated, methods keep {percent} of the tokens"
    with theme():
        mosaic: list[Any] = [["a", "c"], ["before", "after"]]
        if abreast(2) == 1:
            mosaic, rows = [["a"], ["before"], ["after"], ["c"]], (rows[0], *[rows[1]] * 3)
        figure = Figure(figsize=(width(), sum(rows) + 1.7), layout="constrained")
        panels = figure.subplot_mosaic(mosaic, height_ratios=rows)
        left, before, after, right = (panels[name] for name in ("a", "before", "after", "c"))
        _draw_shares(left, shares, methods, looks)
        _draw_example(before, after, example, looks, pi)
        _draw_curves(right, curves.rows, shares, {name: looks[name] for name in drawn})
        if len(mosaic[0]) == 1:  # all panels are as narrow as the one with names
            for panel in panels.values():
                panel.set_title(fill(panel.get_title(), NARROW_CHARACTERS), fontsize="medium")
                panel.set_xlabel(fill(panel.get_xlabel(), NARROW_CHARACTERS))
        seaborn.despine(figure)
        sample = "none" if example is None else example.sample_id
        title_above(figure, heading(view, f"sample of panel (b): {sample}", message=message))
        legend_below(figure, _handles(example, {name: methods[name] for name in drawn}, looks))
    return figure


def _draw_shares(
    panel: Axes, shares: pd.DataFrame, methods: Mapping[str, str], looks: Looks
) -> None:
    """Draw a mark for each sample, and the mean, one method per row."""
    by_method = dict(iter(shares.groupby("method")["share"]))
    rows = range(len(methods))[::-1]
    for row, name in zip(rows, methods, strict=True):
        if name not in by_method:
            panel.text(0.5, row, "no value", ha="center", va="center", style="italic")
            continue
        ticks: dict[str, Any] = {"marker": "|", "linestyle": "", "markersize": 6, "alpha": 0.6}
        values = by_method[name]
        panel.plot(values, [row] * len(values), color=looks[name].colour, **ticks)
        _draw_point(panel, values.mean(), row, looks[name])
    panel.set_yticks(rows, list(methods.values()))
    panel.set(xlim=(0, 1), ylim=(-0.6, len(methods) - 0.4))
    panel.set_xlabel("Mean score = expected retained share E[R] / m")
    n = n_text(pd.DataFrame({"n": map(len, by_method.values())}))
    panel.set_title(f"(a) Uncalibrated · {n}", fontsize="medium")


def _draw_example(
    before: Axes, after: Axes, example: Calibrated | None, looks: Looks, pi: float
) -> None:
    """Draw one sample's scores from highest to lowest, before and after calibration."""
    before.set_title("(b) One sample's scores, sorted …", fontsize="medium")
    after.set_title("… and raised to the power α: equal means", fontsize="medium")
    for panel, label in ((before, "Score s"), (after, "Score s to the power α")):
        panel.set(ylabel=label, xlim=(0, 1), ylim=(0, 1.02))
        panel.set_xlabel("Share of tokens with a higher score")
    if example is None:
        before.text(0.5, 0.5, "no sample has scores of all these methods", ha="center")
        return
    for panel, scores in ((before, example.before), (after, example.after)):
        for name, values in scores.items():
            shares = (np.arange(values.size) + 0.5) / values.size
            panel.plot(shares, np.sort(values)[::-1], **looks[name].line)
    for name, values in example.before.items():
        before.axhline(values.mean(), color=looks[name].colour, linewidth=0.8, alpha=0.7)
    after.axhline(pi, color="black", linewidth=0.8)
    after.text(0.99, pi + 0.02, f"all means: π = {pi:g}", ha="right", fontsize="small")


def _draw_curves(panel: Axes, curves: pd.DataFrame, shares: pd.DataFrame, looks: Looks) -> None:
    """Draw the π-Soft-NC curves, and the original metric at each method's own mean share."""
    means = shares.groupby("method")[["share", "soft_nc"]].mean()
    for name, look in looks.items():
        curve = select(curves, metric="pi_soft_nc", method=name).sort_values("position")
        panel.plot(curve["position"], curve["value"], **look.line)
        _draw_point(panel, means["share"][name], means["soft_nc"][name], look)
    panel.set(xlim=(0, 1), xlabel="Retaining probability π, or E[R] / m", ylabel="π-Soft-NC ↑")
    panel.set_ylim(bottom=0)
    panel.set_title("(c) π-Soft-NC, and the original Soft-NC", fontsize="medium")


def _draw_point(panel: Axes, x: float, y: float, look: LineStyle) -> None:
    edge = look.colour if look.marker == "x" else "black"  # a cross is nothing but edge
    panel.plot([x], [y], markersize=POINT_SIZE, markeredgecolor=edge, zorder=3, **look.point)


def _handles(example: Calibrated | None, methods: Mapping[str, str], looks: Looks) -> list[Line2D]:
    """Return the legend's entries: methods, with the mean and α of their scores in panel (b)."""
    handles = []
    for name, label in methods.items():
        if example is not None:
            mean, alpha = example.before[name].mean(), example.alpha[name]
            label += f": mean {mean:.2f}, α = {alpha:.2g}"
        handles.append(Line2D([], [], label=label, **looks[name].point | looks[name].line))
    point: dict[str, Any] = {"marker": "o", "color": "white", "markersize": POINT_SIZE}
    label = "original Soft-NC (α = 1)"
    original = Line2D([], [], linestyle="", markeredgecolor="black", label=label, **point)
    return [*handles, original] if handles else []
