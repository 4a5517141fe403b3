"""Testing the paper's findings in a run (sec. 5; app. on distributions and fixed routing).

A finding holds, or does not hold, only if a test over samples shows it. A difference that is not
significant is inconclusive, and the verdict is open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pisoft.config.studies import SELECTED_METHODS
from pisoft.formatting import signed
from pisoft.pages.findings import (
    BETTER,
    EQUAL,
    NC,
    NS,
    SHORT,
    UNTESTED,
    WORSE,
    Numbers,
    Order,
    begun,
)
from pisoft.statistics.advantage import HALVES
from pisoft.statistics.metrics import AUC_METRICS, LEVEL, METRICS
from pisoft.tables.grid import interval_text, p_text

HOLDS, FAILS, OPEN = "holds", "does not hold", "inconclusive at this sample size"
NOT_RUN = "not tested in this run"
PROPOSED = (SELECTED_METHODS["loosened"], "grad_ellm")  # the paper selects the depth
GRADIENTS = ("input_x_gradient", "saliency", "deeplift")
LOWER, UPPER, SLOPE = HALVES


@dataclass(frozen=True)
class Finding:
    """A sentence of the paper, whether it holds here, and why."""

    claim: str
    verdict: str
    why: str


def paper_findings(numbers: Numbers, protocols: Iterable[str]) -> Iterator[Finding]:
    """Yield the paper's findings.

    `numbers` are one model's: statistics, comparisons, density_correlations, advantage and
    permutation_baseline; `protocols` are the ones run.
    """
    if "dynamic" in protocols:
        yield _retained(numbers)
        yield _best_by_nc(numbers.order(protocol="dynamic", metric=NC))
        yield _no_dominant(numbers.order(protocol="dynamic", metric=NS), SHORT[NS])
        yield _late_advantage(numbers)
        yield _more_than_density(numbers)
    if "fixed" in protocols:
        yield _gradients(numbers.order(protocol="fixed", metric=NS))
        fixed = numbers.order(protocol="fixed", metric=NC)
        yield _no_dominant(fixed, f"{SHORT[NC]} under fixed routing")
        yield _beyond_attention(numbers)


def _retained(numbers: Numbers) -> Finding:
    tests = [_with_density(numbers, metric) for metric in ("soft_ns", "soft_nc", *AUC_METRICS)]
    signs = [sign for sign, _ in tests[:2] if sign is not None]
    verdict = HOLDS if min(signs, default=0) > 0 else FAILS if min(signs, default=0) < 0 else OPEN
    return Finding(
        "The original Soft-NS and Soft-NC rank methods by how many tokens they keep.",
        verdict if len(signs) == 2 else NOT_RUN,
        "Spearman's ρ over methods, within samples, of the share of tokens that a method keeps "
        f"with its value: {'; '.join(text for _, text in tests)}.",
    )


def _with_density(numbers: Numbers, metric: str) -> tuple[int | None, str]:
    """Return the sign of a metric's ρ with the mean score, and a text with the number.

    The sign is 0 if ρ does not differ significantly from 0; None: it was not tested.
    """
    keys = {"protocol": "dynamic", "other": "mean_score", "metric": metric}
    rows = numbers.averages("density_correlations", **keys).sort_values("part")
    label = METRICS[metric].name
    if rows.empty or np.isnan(rows["p_adjusted"].iloc[0]):
        return None, f"{label} {UNTESTED}"
    row = next(rows.itertuples())  # with random scores, if run
    rho = signed(f"{row.value:.2f}")
    text = f"{label} ρ = {rho} {interval_text(row.low, row.high, 2)}, {_p(row.p_adjusted)}"
    return int(np.sign(row.value)) if row.p_adjusted < LEVEL else 0, text


def _best_by_nc(order: Order) -> Finding:
    why = f"Highest is {_value(order, order.best[0])}"
    proposed = next((name for name in PROPOSED if name in order.rows.index), "")
    if proposed and proposed not in order.best:
        why += f"; {_value(order, proposed)}, {_p(order.rows['p_adjusted'][proposed])}"
    clear = proposed in order.best and not order.groups[EQUAL] and not order.groups[UNTESTED]
    verdict = HOLDS if clear else FAILS if proposed in order.groups[WORSE] else OPEN
    if proposed != PROPOSED[0]:
        verdict = NOT_RUN
        why += " (the paper's is at a selected depth, which needs the layer study)"
    return Finding(
        "Grad-ELLM has the highest average π-Soft-NC.",
        verdict,
        ". ".join([why, *map(begun, order.rivals)]) + ".",
    )


def _no_dominant(order: Order, of: str) -> Finding:
    equal, untested = order.groups[EQUAL], order.groups[UNTESTED]
    rivals = order.rows.drop(index=order.best)
    equivalent = list(rivals.index[rivals["p_equivalence"].astype(float) < LEVEL])
    clauses = [
        f"Highest is {', '.join(_value(order, name) for name in order.best)}",
        f"{EQUAL}: {order.listed(equal)}",
    ]
    if equivalent:
        clauses.append(f"significantly equivalent to it: {order.listed(equivalent)}")
    if np.isfinite(detectable := order.detectable(equal)):
        clauses.append(f"a difference of {detectable:.3f} would be found in 80 % of such runs")
    if untested:
        clauses.append(f"{UNTESTED}: {order.listed(untested)}")
    hinges = equal or untested or len(order.best) > 1
    return Finding(
        f"No method dominates {of}.",
        HOLDS if equivalent else OPEN if hinges else FAILS,
        f"{'; '.join(clauses)}.",
    )


def _late_advantage(numbers: Numbers) -> Finding:
    signs, clauses = {}, []
    for metric, label in SHORT.items():
        keys = {"protocol": "dynamic", "metric": metric.removeprefix("auc_")}
        rows = numbers.averages("advantage", **keys)
        tested = np.sign(rows["value"]).where(rows["p_adjusted"] < LEVEL, 0)
        tested = tested.where(rows["p_adjusted"].notna())
        parts = tested.groupby([rows["method"], rows["part"]]).first().unstack()
        signs[metric] = parts = parts.reindex(columns=[*HALVES])
        ahead, larger, smaller = parts[LOWER] > 0, parts[SLOPE] > 0, parts[SLOPE] < 0
        missing = parts[SLOPE].isna().sum()
        clauses.append(
            f"By {label}, {ahead.sum()} of {len(parts)} methods are significantly ahead over "
            f"π ≤ 0.5; the advantage is significantly larger over π > 0.5 for {larger.sum()} and "
            f"smaller for {smaller.sum()}{f' ({UNTESTED}: {missing})' if missing else ''}"
        )
    both = pd.concat(signs)
    fails = (both[LOWER] > 0).any() or (both[SLOPE] < 0).any()
    holds = (both[[UPPER, SLOPE]] > 0).all(axis=None)
    return Finding(
        "Methods are ahead of random scores only where π > 0.5.",
        NOT_RUN if both.empty else FAILS if fails else HOLDS if holds else OPEN,
        f"{'. '.join(clauses)}.",
    )


def _more_than_density(numbers: Numbers) -> Finding:
    clauses, gaining = [], []
    for metric, label in SHORT.items():
        keys = {"protocol": "dynamic", "part": "gain", "metric": metric}
        rows = numbers.averages("permutation_baseline", **keys).dropna(subset="p_adjusted")
        gaining.append(int(((rows["value"] > 0) & (rows["p_adjusted"] < LEVEL)).sum()))
        if len(rows):
            clauses.append(f"by {label}, {gaining[-1]} of {len(rows)} methods")
    if clauses:
        why = f"Significantly better than their permuted scores: {'; '.join(clauses)}"
    else:
        why = "A test needs the permutation baseline, which was not run"
    correlations = "; ".join(_with_density(numbers, metric)[1] for metric in AUC_METRICS)
    return Finding(
        "π-Soft-NS and π-Soft-NC do not merely reward dense scores.",
        NOT_RUN if not clauses else HOLDS if all(gaining) else OPEN,
        f"{why}. Spearman's ρ of the mean score with the AUC, within samples, shows no cause, as "
        f"better methods may also have denser or sparser scores: {correlations}.",
    )


def _gradients(order: Order) -> Finding:
    present = [name for name in GRADIENTS if name in order.rows.index]
    pairs = {
        (name, kind): set(methods) - set(GRADIENTS)
        for name in present
        for kind, methods in order.against(name).items()
    }
    ahead = set().union(*(pairs[name, BETTER] for name in present))
    unclear = set().union(*(pairs[name, kind] for name in present for kind in (EQUAL, UNTESTED)))
    places = ", ".join(f"{order.labels[name]} {order.rows['rank'][name]:g}" for name in present)
    ahead_of = order.listed(name for name in order.rows.index if name in ahead)
    whole = len(present) == len(GRADIENTS)
    return Finding(
        "Under fixed routing, Input×Gradient, Saliency and DeepLIFT are the three best by "
        "π-Soft-NS.",
        NOT_RUN if not present else FAILS if ahead else OPEN if unclear or not whole else HOLDS,
        f"Ranks: {places or 'none was run'}; significantly better than at least one of them: "
        f"{ahead_of}.",
    )


def _beyond_attention(numbers: Numbers) -> Finding:
    orders = {label: numbers.order(protocol="fixed", metric=m) for m, label in SHORT.items()}
    groups = {label: order.against("attention") for label, order in orders.items()}
    better = {label: group[BETTER] for label, group in groups.items()}
    fewest = min(map(len, better.values()))
    most = min(sum(len(g[kind]) for kind in (BETTER, EQUAL, UNTESTED)) for g in groups.values())
    judged = all(
        "attention" in order.rows.index and len(order.rows) > 2 for order in orders.values()
    )
    listed = "; ".join(f"by {key}: {orders[key].listed(names)}" for key, names in better.items())
    return Finding(
        "Under fixed routing, several methods beat raw attention.",
        NOT_RUN if not judged else HOLDS if fewest > 1 else FAILS if most < 2 else OPEN,
        f"Significantly better than attention {listed}.",
    )


def _value(order: Order, method: str) -> str:
    """Return a method's value with its interval."""
    row = order.rows.loc[method]
    interval = interval_text(row["low"], row["high"], 3) or "no interval"
    return f"{order.labels[method]} {row['value']:.3f} {interval}"


def _p(p_value: float) -> str:
    return f"p = {p_text(p_value)}".replace("= <", "< ")
