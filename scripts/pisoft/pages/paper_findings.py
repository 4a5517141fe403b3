"""Which of the paper's findings a run's tests confirm, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pandas as pd
from scipy.stats import spearmanr

from pisoft.pages.findings import against
from pisoft.statistics.metrics import AVERAGE, CONTROL, METRICS
from pisoft.statistics.standing import LEVEL, standing
from pisoft.tables.layout import interval_text, p_text
from pisoft.units import signed

HOLDS, FAILS, OPEN = "holds", "does not hold", "inconclusive at this sample size"
NS, NC = "auc_pi_soft_ns", "auc_pi_soft_nc"
PAPERS = "grad_ellm"
INPUT_GRADIENTS = ("input_x_gradient", "saliency", "deeplift")
HALVES = ("lower", "upper")  # of the grid of π, cut at 0.5


@dataclass(frozen=True)
class Finding:
    """A sentence of the paper, whether it holds here, and why."""

    claim: str
    verdict: str
    why: str


@dataclass(frozen=True)
class Numbers:
    """Rows of one model's summary files, the means over datasets, and labels of methods.

    What the model answered is of each dataset.
    """

    statistics: pd.DataFrame
    comparisons: pd.DataFrame
    density_correlations: pd.DataFrame
    advantage: pd.DataFrame
    accuracy: pd.DataFrame
    methods: Mapping[str, str]

    def of(self, rows: pd.DataFrame, protocol: str, metric: str) -> pd.DataFrame:
        """Return the rows of a protocol and metric that are means over datasets."""
        own = (rows["protocol"] == protocol) & (rows["metric"] == metric)
        return rows[own & (rows["dataset"] == AVERAGE)]

    def ranked(self, protocol: str, metric: str) -> pd.DataFrame:
        """Return the statistics of methods with a value, by method, the best first."""
        rows = self.of(self.statistics, protocol, metric).dropna(subset="value")
        return rows.set_index("method").sort_values("rank", kind="stable")

    def against(self, protocol: str, metric: str, other: str) -> tuple[list[str], ...]:
        """Return the methods better than another, not significantly different, and worse."""
        pairs = self.of(self.comparisons, protocol, metric)
        return against(pairs, self.ranked(protocol, metric), other)

    def listed(self, methods: list[str]) -> str:
        """Return labels."""
        return ", ".join(self.methods[name] for name in methods) or "none"

    def value(self, row: pd.Series) -> str:
        """Return a method's value with its interval."""
        ends = interval_text(row["low"], row["high"], 3)
        return f"{self.methods[str(row.name)]} {row['value']:.3f} {ends}"


def paper_findings(numbers: Numbers, protocols: list[str]) -> Iterator[Finding]:
    """Yield the paper's findings (sec. 5, app. on distributions, app. on fixed routing)."""
    if "dynamic" in protocols:
        yield _retained(numbers)
        yield _best_by_nc(numbers)
        yield _no_dominant(numbers, "dynamic", NS)
        yield _late_advantage(numbers)
        yield _density(numbers)
    if "fixed" in protocols:
        yield _gradients(numbers)
        yield _no_dominant(numbers, "fixed", NC)
        yield _beyond_attention(numbers)


def _retained(numbers: Numbers) -> Finding:
    kept = numbers.ranked("dynamic", "soft_ns").index
    retained = numbers.of(numbers.statistics, "dynamic", "expected_retained")
    retained = retained.set_index("method")["value"].reindex(kept)
    told, significant = [], []
    for metric, label in {"soft_ns": "Soft-NS", "soft_nc": "Soft-NC", NS: "π-Soft-NS"}.items():
        values = numbers.ranked("dynamic", metric)["value"].reindex(kept)
        rho, p_value = spearmanr(retained, values)
        told.append(f"{label} ρ = {signed(f'{rho:.2f}')} ({_p(p_value)})")
        significant.append(rho > 0 and p_value < LEVEL)
    original = significant[:2]
    return Finding(
        "The original Soft-NS and Soft-NC rank methods by how many tokens they keep.",
        HOLDS if all(original) else OPEN,
        f"Spearman's ρ over the {len(kept)} methods, of the expected number of kept tokens with "
        f"{', '.join(told)}; this test is over methods, not samples.",
    )


def _best_by_nc(numbers: Numbers) -> Finding:
    rows = numbers.ranked("dynamic", NC)
    best, tied = standing(rows)
    why = f"Highest is {numbers.value(rows.iloc[0])}"
    if PAPERS in rows.index and PAPERS not in best:
        why += f"; {numbers.value(rows.loc[PAPERS])}, {_p(rows['p_value'][PAPERS])}"
    why += f". Not significantly different: {len(tied)} of {len(rows) - len(best)} other methods."
    verdict = FAILS
    if PAPERS in best and not tied:
        verdict = HOLDS
    elif PAPERS in [*best, *tied]:
        verdict = OPEN
    return Finding("Grad-ELLM has the highest average π-Soft-NC.", verdict, why)


def _no_dominant(numbers: Numbers, protocol: str, metric: str) -> Finding:
    rows = numbers.ranked(protocol, metric)
    _, tied = standing(rows)
    label = METRICS[metric].label.removeprefix("AUC ").removesuffix(" ↑")
    where = " under fixed routing" if protocol == "fixed" else ""
    return Finding(
        f"No method dominates {label}{where}.",
        OPEN if tied else FAILS,
        f"Highest is {numbers.value(rows.iloc[0])}; not significantly different: "
        f"{numbers.listed(tied)}.",
    )


def _late_advantage(numbers: Numbers) -> Finding:
    rows = numbers.of(numbers.advantage, "dynamic", NS.removeprefix("auc_"))
    ahead = rows[(rows["value"] > 0) & (rows["p_adjusted"] < LEVEL)]
    lower, upper = (list(ahead.loc[ahead["part"] == part, "method"]) for part in HALVES)
    return Finding(
        "By π-Soft-NS, methods are ahead of random scores only where π > 0.5.",
        FAILS if lower else HOLDS if upper else OPEN,
        f"Significantly ahead over π ≤ 0.5: {numbers.listed(lower)}; over π ≥ 0.5: "
        f"{numbers.listed(upper)}.",
    )


def _density(numbers: Numbers) -> Finding:
    told, signs = [], []
    for metric in (NS, NC):
        rows = numbers.of(numbers.density_correlations, "dynamic", metric)
        (row,) = rows[(rows["measure"] == "mean_score") & rows["with_random"]].itertuples()
        label = METRICS[metric].label.removesuffix(" ↑")
        ends = interval_text(row.low, row.high, 3)
        told.append(f"{label} ρ = {signed(f'{row.value:.3f}')} {ends}, {_p(row.p_adjusted)}")
        signs.append(0 if not row.p_adjusted < LEVEL else 1 if row.value > 0 else -1)
    return Finding(
        "π-Soft-NS and π-Soft-NC do not merely reward dense scores.",
        FAILS if max(signs) > 0 else HOLDS if max(signs) < 0 else OPEN,
        "Spearman's ρ between a method's mean score and its AUC, within samples: "
        f"{'; '.join(told)}.",
    )


def _gradients(numbers: Numbers) -> Finding:
    better, equal, worse = numbers.against("fixed", NS, CONTROL)
    groups = {"better": better, "not significantly different": equal, "worse": worse}
    gradients = {
        kind: [name for name in INPUT_GRADIENTS if name in methods]
        for kind, methods in groups.items()
    }
    listed = "; ".join(
        f"{kind}: {numbers.listed(methods)}" for kind, methods in gradients.items() if methods
    )
    return Finding(
        "Under fixed routing, Input×Gradient, Saliency and DeepLIFT do well by π-Soft-NS.",
        FAILS
        if gradients["worse"]
        else OPEN
        if gradients["not significantly different"]
        else HOLDS,
        f"Against random scores, {listed}.",
    )


def _beyond_attention(numbers: Numbers) -> Finding:
    better = {
        label: numbers.against("fixed", metric, "attention")[0]
        for metric, label in {NS: "π-Soft-NS", NC: "π-Soft-NC"}.items()
    }
    listed = "; ".join(f"by {label}: {numbers.listed(names)}" for label, names in better.items())
    return Finding(
        "Under fixed routing, several methods beat raw attention.",
        HOLDS if all(len(names) > 1 for names in better.values()) else OPEN,
        f"Significantly better than attention {listed}.",
    )


def _p(p_value: float) -> str:
    return f"p = {p_text(p_value)}".replace("= <", "< ")
