"""What a run's tests say of the paper's findings, for numbers whose answer is known."""

from __future__ import annotations

import itertools

import pandas as pd
import pytest

from pisoft.pages.paper_findings import FAILS, HOLDS, NC, NS, OPEN, Numbers, paper_findings

METHODS = {
    name: name.title()
    for name in ("grad_ellm", "saliency", "deeplift", "input_x_gradient", "attention", "random")
}
APART, NOT_APART = 0.01, 0.4
CLAIMS = (
    "original", "highest", "dominant", "late", "dense", "gradients", "fixed_dominant", "attention"
)  # fmt: skip


def verdicts(p_value: float = APART, order: list[str] | None = None, **changes):
    """Return the verdict of each claim, of methods whose values fall from the first to the last.

    Args:
        p_value: of each pair of methods.
        order: methods, the best first; the original metrics prefer the last, which keeps most.
        changes: columns of `density_correlations` and `advantage`.
    """
    order = order or list(METHODS)
    values = {name: 0.9 - place / 10 for place, name in enumerate(order)}
    rising = {name: 1 - value for name, value in values.items()}
    metrics = {NS: values, NC: values, "soft_ns": rising, "soft_nc": rising}
    metrics["expected_retained"] = rising
    statistics = pd.DataFrame(
        {
            "protocol": protocol, "metric": metric, "dataset": "average", "method": method,
            "value": value, "low": value - 0.1, "high": value + 0.1, "n": 9, "n_failed": 0,
            "rank": order.index(method) + 1, "best": order[0],
            "p_value": None if method == order[0] else p_value,
        }
        for protocol, (metric, found) in itertools.product(("dynamic", "fixed"), metrics.items())
        for method, value in found.items()
    )  # fmt: skip
    comparisons = pd.DataFrame(
        {
            "protocol": protocol, "metric": metric, "dataset": "average", "method": first,
            "other": second, "difference": values[first] - values[second], "p_adjusted": p_value,
        }
        for protocol, metric in itertools.product(("dynamic", "fixed"), (NS, NC))
        for first, second in itertools.combinations(METHODS, 2)
    )  # fmt: skip
    density = pd.DataFrame(
        {
            "protocol": "dynamic", "metric": metric, "dataset": "average", "with_random": True,
            "measure": "mean_score", "value": changes.get("rho", 0.1), "low": 0.0, "high": 0.2,
            "p_adjusted": p_value,
        }
        for metric in (NS, NC)
    )  # fmt: skip
    advantage = pd.DataFrame(
        {
            "protocol": "dynamic", "metric": "pi_soft_ns", "dataset": "average",
            "method": "saliency", "part": part, "value": value, "p_adjusted": p_value,
        }
        for part, value in (("lower", changes.get("lower", -0.1)), ("upper", 0.1))
    )  # fmt: skip
    numbers = Numbers(statistics, comparisons, density, advantage, pd.DataFrame(), METHODS)
    found = list(paper_findings(numbers, ["dynamic", "fixed"]))
    assert all(one.claim.endswith(".") and one.why.endswith(".") for one in found)
    return dict(zip(CLAIMS, (one.verdict for one in found), strict=True))


def test_what_every_test_tells_apart_is_said_to_hold_or_not() -> None:
    assert verdicts() == {
        "original": HOLDS, "highest": HOLDS, "dominant": FAILS, "late": HOLDS, "dense": FAILS,
        "gradients": HOLDS, "fixed_dominant": FAILS, "attention": HOLDS,
    }  # fmt: skip


def test_what_no_test_tells_apart_cannot_be_told() -> None:
    told = verdicts(NOT_APART)
    assert told.pop("original") == HOLDS, "a test over methods"
    assert set(told.values()) == {OPEN}


@pytest.mark.parametrize("p_value", [APART, NOT_APART])
def test_another_best_method_contradicts_only_if_it_is_told_apart(p_value: float) -> None:
    told = verdicts(p_value, order=["saliency", "grad_ellm", *list(METHODS)[2:]])
    assert told["highest"] == (FAILS if p_value == APART else OPEN)


def test_gradients_below_random_scores_contradict() -> None:
    told = verdicts(order=["grad_ellm", "random", *list(METHODS)[1:-1]])
    assert told["gradients"] == FAILS


def test_no_method_above_attention_leaves_it_open() -> None:
    told = verdicts(order=["attention", *(name for name in METHODS if name != "attention")])
    assert told["attention"] == OPEN


def test_an_early_advantage_contradicts_a_late_one() -> None:
    assert verdicts(lower=0.1)["late"] == FAILS


def test_dense_scores_that_lose_confirm() -> None:
    assert verdicts(rho=-0.3)["dense"] == HOLDS
