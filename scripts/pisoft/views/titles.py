"""Findings as titles of figures: without a full stop, empty if results allow no statement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from pisoft.statistics.metrics import CONTROL, DECIMALS, METRICS
from pisoft.statistics.off_distribution import CLEAN
from pisoft.statistics.results import select
from pisoft.views.labels import sanity_checks

CHANCE = 0.5  # share of samples in which two controls are in order
MOSTLY = 0.5  # share of orders from which on another method counts as the best
UNCHANGED = 0.9  # ρ from which on scores count as unchanged
MOST_NAMES = 3  # of methods in a title


def share_text(count: int, total: int, noun: str) -> str:
    """Return a share as `2 of 3 rankings`, `both rankings` or `the only ranking`."""
    if not total:
        return f"no {noun}, because none could be tested"
    if count == total:
        return {1: f"the only {noun}", 2: f"both {noun}s"}.get(total, f"all {total} {noun}s")
    return f"{count or 'none'} of {count_text(total, noun)}"


def count_text(count: int, noun: str) -> str:
    """Return `no ranking`, `1 ranking` or `2 rankings`."""
    return f"{count or 'no'} {noun}{'s' if count > 1 else ''}"


def by_metric(findings: Mapping[str, str]) -> str:
    """Join findings by metric: `A by both metrics`, or `A by π-Soft-NS, B by π-Soft-NC`."""
    if len(findings) == 2 and len({*findings.values()}) == 1:
        return f"{next(iter(findings.values()))} by both metrics"
    return ", ".join(f"{text} by {METRICS[metric].name}" for metric, text in findings.items())


def best_depths(rows: pd.DataFrame, weightings: Mapping[str, str]) -> str:
    """Say at which depths the AUC is highest in one part of `depths`, by metric and weighting."""
    findings = {}
    for metric, metric_rows in rows.dropna(subset="value").groupby("metric", sort=False):
        depths = {
            weightings[name]: _best_depths(line)
            for name, line in metric_rows.groupby("method", sort=False)
            if len(line) > 1
        }
        if len(depths) == len(weightings) and len({*depths.values()}) == 1:
            findings[metric] = next(iter(depths.values()))
        elif depths:
            findings[metric] = " and ".join(f"{label} {text}" for label, text in depths.items())
    return f"Highest AUC: {by_metric(findings)}" if findings else ""


def _best_depths(line: pd.DataFrame) -> str:
    best = sorted(line.loc[_is_highest(line["value"]), "position"])
    if len(best) == len(line):
        return "at every depth alike"
    if best == [1]:
        return "with the last layer"
    return f"with the last {' or '.join(f'{depth:g}' for depth in best)} layers"


def controls_in_order(rows: pd.DataFrame, pairs: Iterable[str]) -> str:
    """Say from `metric_validation` at how many π the intervals of all pairs lie above chance."""
    parts, findings = [*pairs], {}
    for metric, metric_rows in select(rows, part=parts).groupby("metric", sort=False):
        lows = metric_rows.pivot(index="position", columns="part", values="low")
        lows = lows.reindex(columns=parts).dropna()
        if len(lows):
            in_order = (lows > CHANCE).all(axis="columns").sum()
            findings[f"auc_{metric}"] = f"at {share_text(in_order, len(lows), 'value')} of π"
    if not findings:
        return ""
    return f"Better than chance on all pairs of controls: {by_metric(findings)}"


def entropy_differences(rows: pd.DataFrame, operators: Mapping[str, str]) -> str:
    """Say from `off_distribution` how often intervals of ablated and clean entropy are disjoint."""
    entropy = select(rows, metric="entropy")
    clean = select(entropy, part=CLEAN).set_index("dataset")[["low", "high"]]
    points = select(entropy, part="").join(clean.add_suffix("_clean"), on="dataset")
    points = points.dropna(subset=["low", "low_clean"])
    apart = (points["low"] > points["high_clean"]) | (points["high"] < points["low_clean"])
    shares = {
        operators[name]: share_text(is_apart.sum(), len(is_apart), "point")
        for name, is_apart in apart.groupby(points["operator"], sort=False)
    }
    if not shares:
        return ""
    listed = ", ".join(f"{label} at {share}" for label, share in shares.items())
    if len(shares) == len(operators) and len({*shares.values()}) == 1:
        each = " with each operator" if len(operators) > 1 else ""
        listed = f"at {next(iter(shares.values()))}{each}"
    return f"Ablation changes the entropy (disjoint intervals): {listed}"


def unchanged_scores(rows: pd.DataFrame) -> str:
    """Say from `sanity_checks` how many methods' scores hardly change under the strongest checks.

    `rows` are of one dataset. Random scores, which use neither model nor text, are excluded.
    """
    strongest = {keys["part"]: (label, keys) for label, keys in sanity_checks(rows).items()}
    checks: dict[str, list[str]] = {}  # by what they find
    for label, keys in strongest.values():
        similarities = select(rows, **keys).set_index("method")["value"].dropna()
        values = similarities.drop(CONTROL, errors="ignore")
        if len(values):
            share = share_text((values >= UNCHANGED).sum(), len(values), "method")
            checks.setdefault(share, []).append(label.lower())
    listed = ", ".join(f"{share} ({', '.join(labels)})" for share, labels in checks.items())
    return f"Scores hardly change (mean ρ ≥ {UNCHANGED}) for {listed}" if listed else ""


def changed_leaders(rows: pd.DataFrame) -> str:
    """Say from `sensitivity` with how many changed choices another method is best on a dataset."""
    best = select(rows, other="best_changes").dropna(subset="value")
    findings = {
        metric: share_text((changes >= MOSTLY).sum(), len(changes), "variant")
        for metric, changes in best.groupby("metric", sort=False)["value"]
    }
    if findings and not (best["value"] >= MOSTLY).any():
        return "No variant of the metric makes another method best"
    return f"Another method is best with {by_metric(findings)}" if findings else ""


def best_recovery(rows: pd.DataFrame, tasks: Mapping[str, str], labels: Mapping[str, str]) -> str:
    """Say from averages of `context_use` which methods recover most evidence, by generator."""
    rows = rows.dropna(subset="value")
    best = {
        tasks[task]: ", ".join(labels[name] for name in line["method"][_is_highest(line["value"])])
        for task, line in rows.groupby("other", sort=False)
        if len(line) > 1
    }
    listed = [f"{names} ({task.lower()})" for task, names in best.items()]
    if len({*best.values()}) == 1:
        listed = [*best.values()][:1]
    return f"Most evidence recovered: {', '.join(listed)}" if best else ""


def _is_highest(values: pd.Series) -> pd.Series:
    rounded = values.round(DECIMALS)
    return rounded == rounded.max()


def shared_top_tokens(
    top: Mapping[str, np.ndarray], evidence: np.ndarray | None, labels: Mapping[str, str]
) -> str:
    """Say which methods find most evidence or, without any, how far they agree on top tokens.

    `top` (by method) and `evidence` mark such tokens, (m,) each.
    """
    if len(top) < 2:
        return ""
    if evidence is not None:
        hits = {labels[name]: (top[name] & evidence).sum() for name in top}
        return _most_evidence(hits, evidence)
    votes = np.sum([*top.values()], axis=0)
    if votes.max() == len(top):
        shared = count_text((votes == len(top)).sum(), "token")
        verb = "is a top token" if shared == "1 token" else "are top tokens"
        return f"{shared} {verb} of {share_text(len(top), len(top), 'method')}"
    if votes.max() == 1:
        return "No two methods share a top token"
    most = f"{votes.max()} of {len(top)} methods"
    return f"No token is a top token of more than {most}" if votes.any() else ""


def _most_evidence(hits: Mapping[str, int], evidence: np.ndarray) -> str:
    most, total = max(hits.values()), count_text(evidence.sum(), "token")
    if not most:
        return "No method has evidence among its top tokens"
    best = [label for label, count in hits.items() if count == most]
    share = f"{most} of {total}"
    if len(best) == len(hits):
        methods = share_text(len(hits), len(hits), "method")
        return f"Evidence among the top tokens of {methods}: {share}"
    methods = ", ".join(best) if len(best) <= MOST_NAMES else f"{len(best)} methods"
    return f"Most evidence among the top tokens: {methods} ({share})"
