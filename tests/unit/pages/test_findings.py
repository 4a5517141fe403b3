"""Sentences about results follow from their numbers; so do verdicts on the paper's findings."""

from __future__ import annotations

import itertools
from collections.abc import Collection

import pytest

from pisoft.config.jobs import LabelSettings
from pisoft.pages.findings import (
    FAILS,
    HOLDS,
    NC,
    NS,
    OPEN,
    Numbers,
    paper_findings,
    reading,
    verdict,
)
from uncertainty import frame, left_out_rows, result_row, statistics_row

METHODS = {
    name: name.title()
    for name in ("grad_ellm", "saliency", "deeplift", "input_x_gradient", "attention", "random")
}
APART, NOT_APART = 0.01, 0.05  # the latter is the level itself
CLAIMS = (
    "original", "highest", "dominant", "late", "dense", "gradients", "fixed_dominant", "attention"
)  # fmt: skip


def numbers_of(p_value: float, order: list[str], untested: Collection[str], **changes: float):
    """Return the results of methods whose values fall from the first to the last.

    Args:
        p_value: of each pair of methods.
        order: methods, the best first; the original metrics prefer the last, which keeps most.
        untested: methods without a p-value.
        changes: `rho` of dense scores, the advantage over the `lower` half, and `kept`, the sign
            of the correlation of the number of kept tokens with the original metrics.
    """
    values = {name: 0.9 - place / 10 for place, name in enumerate(order)}
    rising = {name: 1 - value for name, value in values.items()}
    metrics = {NS: values, NC: values, "soft_ns": rising, "soft_nc": rising}
    metrics["expected_retained"] = rising if changes.get("kept", 1) > 0 else values
    statistics, comparisons = [], []
    for protocol, (metric, found) in itertools.product(("dynamic", "fixed"), metrics.items()):
        for place, method in enumerate(order):
            value = found[method]
            tested = place > 0 and not {method, order[0]} & set(untested)
            tests = {"rank": place + 1, "best": order[0], "p_adjusted": p_value if tested else None}
            ends = {"low": value - 0.1, "high": value + 0.1}
            row = statistics_row(metric, "average", method, value, **ends, **tests)
            statistics.append({**row, "protocol": protocol})
        for pair in itertools.combinations(METHODS, 2):
            keys = {"metric": metric, "dataset": "average", "method": pair[0], "other": pair[1]}
            difference, tested = values[pair[0]] - values[pair[1]], not {*pair} & set(untested)
            p_adjusted = p_value if tested else None
            row = result_row("comparisons", difference, **keys, p_adjusted=p_adjusted)
            comparisons.append({**row, "protocol": protocol})
    average = {"dataset": "average", "p_adjusted": p_value}
    density = [
        {**result_row("statistics", changes.get("rho", 0.1), metric=metric, **average),
         "other": "mean_score", "part": "all", "low": 0.0, "high": 0.2}
        for metric in (NS, NC)
    ]  # fmt: skip
    advantage = [
        result_row(
            "statistics", value, metric="pi_soft_ns", method="saliency", part=part, **average
        )
        for part, value in (("lower", changes.get("lower", -0.1)), ("upper", 0.1))
    ]
    rows = {
        "statistics": statistics,
        "comparisons": comparisons,
        "density_correlations": density,
        "advantage": advantage,
        "ranks": left_out_rows(NS, {"": dict.fromkeys(order, 1.0)}),
    }
    labels = LabelSettings(models={"llama": "Llama"}, datasets={}, methods=METHODS)
    return Numbers({question: frame(given) for question, given in rows.items()}, labels)


def verdicts(
    p_value: float = APART,
    order: list[str] | None = None,
    untested: Collection[str] = (),
    **changes: float,
):
    """Return the verdict of each claim; see :func:`numbers_of`."""
    numbers = numbers_of(p_value, order or list(METHODS), untested, **changes)
    found = list(paper_findings(numbers, ["dynamic", "fixed"]))
    assert all(one.claim.endswith(".") and one.why.endswith(".") for one in found)
    return dict(zip(CLAIMS, (one.verdict for one in found), strict=True))


def test_significant_differences_confirm_or_contradict() -> None:
    assert verdicts() == {
        "original": HOLDS, "highest": HOLDS, "dominant": FAILS, "late": HOLDS, "dense": FAILS,
        "gradients": HOLDS, "fixed_dominant": FAILS, "attention": HOLDS,
    }  # fmt: skip


def test_without_significant_differences_all_is_inconclusive() -> None:
    told = verdicts(NOT_APART)
    assert told.pop("original") == HOLDS, "a test over methods"
    assert set(told.values()) == {OPEN}


@pytest.mark.parametrize("p_value", [APART, NOT_APART])
def test_another_best_method_contradicts_only_if_it_is_significantly_better(p_value: float) -> None:
    told = verdicts(p_value, order=["saliency", "grad_ellm", *list(METHODS)[2:]])
    assert told["highest"] == (FAILS if p_value == APART else OPEN)


def test_original_metrics_that_prefer_few_tokens_leave_it_open() -> None:
    assert verdicts(kept=-1)["original"] == OPEN


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


def sentences(p_value: float, untested: Collection[str]) -> tuple[str, str]:
    numbers = numbers_of(p_value, list(METHODS), untested)
    cell = {"protocol": "dynamic", "model": "llama", "metric": NS}
    return verdict(numbers.order(**cell)), " ".join(reading(numbers, **cell))


def test_methods_without_a_test_are_named_and_not_counted() -> None:
    first, long = sentences(APART, ["saliency"])
    assert first == (
        "Grad_Ellm leads. Every other method that was tested is significantly worse. "
        "Not tested: Saliency. Significantly better than random scores: 4 of 4. "
        "Not tested against random scores: Saliency."
    )
    assert "every other method that was tested is significantly worse; not tested: Sal" in long
    first, long = sentences(NOT_APART, ["saliency", "deeplift"])
    assert "Not significantly different: 3 of 3 other methods. Not tested: Saliency, Dee" in first
    assert "Random (3 of 3 other methods); not tested: Saliency, Deeplift." in long


def test_without_any_test_no_method_is_said_to_be_worse() -> None:
    first, long = sentences(APART, list(METHODS))
    assert first.startswith("Grad_Ellm leads. Not tested: Saliency, Deeplift")
    assert "significantly" not in first + long.split("Against")[0]


def test_a_finding_that_hinges_on_a_missing_test_is_inconclusive() -> None:
    given = verdicts(untested=["saliency"])
    assert given["highest"] == given["dominant"] == given["gradients"] == OPEN
    assert (
        verdicts(
            order=["saliency", *(name for name in METHODS if name != "saliency")],
            untested=["saliency"],
        )["highest"]
        == OPEN
    )
