"""Sentences about results follow from their numbers; so do verdicts on the paper's findings."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd
import pytest

from helpers.result_rows import frame, result_row, statistics_row
from paper_findings import FAILS, HOLDS, NOT_RUN, OPEN, paper_findings
from pisoft.config.jobs.displays import LabelSettings
from pisoft.pages.findings import (
    NC,
    NS,
    Numbers,
    Order,
    answer,
    headline,
    rounding,
    validity,
)

METHODS = {
    "grad_ellm_selected": "Grad_Ellm",
    **{
        name: name.title()
        for name in ("saliency", "deeplift", "input_x_gradient", "attention", "random")
    },
}
ALL_LAYERS = "grad_ellm"
APART, NOT_APART = 0.01, 0.05  # the latter is the level itself
CLAIMS = (
    "original", "highest", "dominant", "late", "dense", "gradients", "fixed_dominant", "attention"
)  # fmt: skip


def numbers_of(
    p_value: float,
    order: list[str],
    untested: Collection[str],
    *,
    permuted: bool = True,
    **changes: float,
):
    """Return the results of methods whose values fall from the first to the last.

    Args:
        p_value: of each pair of methods.
        order: methods, the best first; the original metrics prefer the last, which keeps most.
        untested: methods without a p-value.
        permuted: whether the permutation baseline was run.
        changes: `rho` with dense scores of the original metrics, the advantage over the `lower`
            half and the `slope` of both metrics, the `gain` over permuted scores.
    """
    values = {name: 0.9 - place / 10 for place, name in enumerate(order)}
    rising = {name: 1 - value for name, value in values.items()}
    metrics = {NS: values, NC: values, "soft_ns": rising, "soft_nc": rising}
    metrics["expected_retained"] = rising if changes.get("kept", 1) > 0 else values
    statistics, comparisons = [], []
    for protocol, (metric, of_methods) in itertools.product(("dynamic", "fixed"), metrics.items()):
        for place, method in enumerate(order):
            value = of_methods[method]
            tested = place > 0 and not {method, order[0]} & set(untested)
            tests = {"rank": place + 1, "best": order[0], "p_adjusted": p_value if tested else None}
            ends = {"low": value - 0.1, "high": value + 0.1}
            row = statistics_row(metric, "average", method, value, **ends, **tests)
            statistics.append({**row, "protocol": protocol})
        for pair in itertools.combinations(order, 2):
            keys = {"metric": metric, "dataset": "average", "method": pair[0], "other": pair[1]}
            difference, tested = values[pair[0]] - values[pair[1]], not {*pair} & set(untested)
            p_adjusted = p_value if tested else None
            row = result_row("comparisons", difference, **keys, p_adjusted=p_adjusted)
            comparisons.append({**row, "protocol": protocol})
    average = {"dataset": "average", "p_adjusted": p_value}
    dense = {NS: -0.2, NC: -0.2, "soft_ns": 0.8, "soft_nc": changes.get("rho", 0.7)}
    density = [
        {**result_row("statistics", rho, metric=metric, **average),
         "other": "mean_score", "part": "all", "low": rho - 0.1, "high": rho + 0.1}
        for metric, rho in dense.items()
    ]  # fmt: skip
    parts = {"lower": changes.get("lower", -0.1), "upper": 0.1}
    parts["upper_minus_lower"] = changes.get("slope", 0.2)
    advantage = [
        result_row("statistics", value, metric=metric, method="saliency", part=part, **average)
        for metric in ("pi_soft_ns", "pi_soft_nc")
        for part, value in parts.items()
    ]
    gains = {NS: 0.1, NC: changes.get("gain", 0.1)}
    baseline = [
        result_row("statistics", gain, metric=metric, method="saliency", part="gain", **average)
        for metric, gain in gains.items()
    ]
    rows = {
        "statistics": statistics,
        "comparisons": comparisons,
        "density_correlations": density,
        "advantage": advantage,
        "permutation_baseline": baseline if permuted else [],
        "ranks": [
            result_row("ranks", 0.9, metric=NS, method=method, part="without", rank=1.0, **average)
            for method in order
        ],
    }
    labels = LabelSettings(
        models={"llama": "Llama"}, datasets={}, methods=METHODS | {ALL_LAYERS: "Grad"}
    )
    return Numbers({question: frame(given) for question, given in rows.items()}, labels)


def verdicts(
    p_value: float = APART,
    order: list[str] | None = None,
    untested: Collection[str] = (),
    **changes: Any,
):
    """Return the verdict of each claim; see :func:`numbers_of`."""
    numbers = numbers_of(p_value, order or list(METHODS), untested, **changes)
    findings = list(paper_findings(numbers, ["dynamic", "fixed"]))
    assert all(one.claim.endswith(".") and one.why.endswith(".") for one in findings)
    return dict(zip(CLAIMS, (one.verdict for one in findings), strict=True))


def test_significant_differences_confirm_or_contradict() -> None:
    assert verdicts() == {
        "original": HOLDS, "highest": HOLDS, "dominant": FAILS, "late": HOLDS, "dense": HOLDS,
        "gradients": FAILS, "fixed_dominant": FAILS, "attention": HOLDS,
    }  # fmt: skip


def test_without_significant_differences_all_is_inconclusive() -> None:
    assert set(verdicts(NOT_APART).values()) == {OPEN}


@pytest.mark.parametrize("p_value", [APART, NOT_APART])
def test_another_best_method_contradicts_only_if_it_is_significantly_better(p_value: float) -> None:
    judged = verdicts(p_value, order=["saliency", "grad_ellm_selected", *list(METHODS)[2:]])
    assert judged["highest"] == (FAILS if p_value == APART else OPEN)


GRADIENTS = ["deeplift", "input_x_gradient", "saliency"]
REST = [name for name in METHODS if name not in GRADIENTS]


@pytest.mark.parametrize(
    ("order", "p_value", "verdict"),
    [
        ([*GRADIENTS, *REST], APART, HOLDS),
        ([*GRADIENTS, *REST], NOT_APART, OPEN),
        ([*GRADIENTS[1:], *REST], APART, OPEN),  # one of the three was not run
        ([*GRADIENTS[:2], REST[0], GRADIENTS[2], *REST[1:]], APART, FAILS),
        ([*GRADIENTS[:2], REST[0], GRADIENTS[2], *REST[1:]], NOT_APART, OPEN),
        (REST, APART, NOT_RUN),
    ],
)
def test_gradients_are_the_three_best_if_every_other_method_is_worse(order, p_value, verdict):
    assert verdicts(p_value, order)["gradients"] == verdict


def test_grad_ellm_over_all_layers_is_not_what_the_paper_judges():
    for order in ([ALL_LAYERS, *list(METHODS)[1:]], ["saliency", ALL_LAYERS]):
        assert verdicts(order=order)["highest"] == NOT_RUN


def test_no_method_dominates_if_another_is_equivalent_to_the_best():
    numbers = numbers_of(NOT_APART, list(METHODS), ())
    rows = numbers.rows["statistics"]
    rows.loc[rows["method"] == "saliency", ["p_equivalence", "detectable"]] = 0.01, 0.0625
    dominant = list(paper_findings(numbers, ["dynamic"]))[2]
    assert dominant.verdict == HOLDS
    assert "equivalent to it: Saliency; a difference of 0.062 would be found" in dominant.why


def test_no_method_above_attention_leaves_it_open() -> None:
    judged = verdicts(order=["attention", *(name for name in METHODS if name != "attention")])
    assert judged["attention"] == OPEN


@pytest.mark.parametrize("changes", [{"lower": 0.1}, {"slope": -0.2}])
def test_an_early_advantage_contradicts_a_late_one(changes):
    assert verdicts(**changes)["late"] == FAILS


def test_a_lower_half_that_is_not_significant_confirms_nothing():
    numbers = numbers_of(APART, list(METHODS), ())
    rows = numbers.rows["advantage"]
    for part, p_value in {"lower": 0.4, "upper_minus_lower": 0.3}.items():
        rows.loc[rows["part"] == part, "p_adjusted"] = p_value
    late = list(paper_findings(numbers, ["dynamic"]))[3]
    assert late.verdict == OPEN
    assert "larger over π ≥ 0.5 for 0 and smaller for 0" in late.why


def test_original_metrics_that_reward_few_tokens_leave_their_finding_open_or_contradict():
    assert verdicts(rho=-0.7)["original"] == OPEN, "the two metrics disagree"
    numbers = numbers_of(APART, list(METHODS), (), rho=-0.7)
    rows = numbers.rows["density_correlations"]
    rows.loc[rows["metric"] == "soft_ns", "value"] = -0.8
    assert next(paper_findings(numbers, ["dynamic"])).verdict == FAILS


def test_density_needs_the_permutation_baseline_of_both_metrics():
    assert verdicts(gain=-0.1)["dense"] == OPEN
    assert verdicts(permuted=False)["dense"] == NOT_RUN


def test_a_finding_that_hinges_on_a_missing_test_is_inconclusive() -> None:
    judged = verdicts(untested=["saliency"])
    assert judged["highest"] == judged["dominant"] == OPEN
    assert (
        verdicts(
            order=["saliency", *(name for name in METHODS if name != "saliency")],
            untested=["saliency"],
        )["highest"]
        == OPEN
    )


def test_equal_methods_are_all_best_and_untested_ones_are_not_tied():
    numbers = {"rank": [1.5, 1.5, 3, 4, 5], "p_adjusted": [1.0, np.nan, 0.05, 0.049, np.nan]}
    order = Order(pd.DataFrame(numbers, index=[*"abcde"]), pd.DataFrame(), {})
    assert order.best == ["a", "b"]
    assert list(order.groups.values()) == [[], ["c"], ["d"], ["e"]]


# The answer, and what supports it ---------------------------------------------------------------


def order_of(p_values: dict[str, float], ranks: list[float]) -> Order:
    """Return an order of methods whose values fall by 0.1 with each rank; 0.04 is detectable."""
    rows = {"rank": ranks, "p_adjusted": list(p_values.values()), "detectable": 0.04}
    rows["value"] = [1 - rank / 10 for rank in ranks]
    table = pd.DataFrame(rows, index=list(p_values))
    return Order(table, pd.DataFrame(), {name: name.upper() for name in p_values})


CLEAR = order_of({"a": np.nan, "b": 0.01, "c": 0.01}, [1, 2, 3])


@pytest.mark.parametrize(
    ("ns", "nc", "sentence"),
    [
        (
            CLEAR, CLEAR,
            "A leads by both metrics: by π-Soft-NS, 0.100 ahead of B (significant); "
            "by π-Soft-NC, 0.100 ahead of B (significant).",
        ),
        (
            order_of({"a": np.nan, "b": np.nan, "c": np.nan, "d": 0.01}, [1.5, 1.5, 3.5, 3.5]),
            order_of({}, []),
            "By π-Soft-NS, A, B lead, 0.200 ahead of C, D (not tested).",
        ),
        (order_of({"a": np.nan, "b": 1}, [1.5, 1.5]),) * 2
        + ("All 2 methods are level by both metrics.",),
    ],
)  # fmt: skip
def test_the_answer_names_leader_runner_up_and_test(ns: Order, nc: Order, sentence: str) -> None:
    assert answer({NS: ns, NC: nc}) == sentence


def run_of(*leaders: str, p_value: float = APART) -> Numbers:
    """Return results of several models, each with another method in front."""
    each = [numbers_of(p_value, [name, *(n for n in METHODS if n != name)], ()) for name in leaders]
    rows = {
        question: pd.concat(
            [one.rows[question].assign(model=f"model{index}") for index, one in enumerate(each)]
        )
        for question in ("statistics", "comparisons")
    }
    return Numbers(rows, each[0].labels)


@pytest.mark.parametrize(
    ("leaders", "p_value", "sentence"),
    [
        (["saliency", "random", "saliency"], APART, "Saliency leads 8 of 12 {} 8 rankings."),
        (["saliency", "random"], NOT_APART, "Saliency, Random each lead 4 of 8 {} no ranking."),
    ],
)
def test_of_several_rankings_the_answer_counts(
    leaders: list[str], p_value: float, sentence: str
) -> None:
    clear = "the lead over every other method is significant in"
    where = f"rankings (by model, routing and metric); {clear}"
    assert headline(run_of(*leaders, p_value=p_value)) == sentence.format(where)


@pytest.mark.parametrize(
    ("needed", "end"),
    [
        ([7], "ranked in this order in the only ranking, with at most 7 samples."),
        ([None], "ranked in this order in none of 1 ranking."),
        ([7, 12], "ranked in this order in both rankings, with at most 12 samples."),
        ([None, 12], "ranked in this order in 1 of 2 rankings, with at most 12 samples."),
        ([None, None], "ranked in this order in none of 2 rankings."),
    ],
)
def test_metric_validation_counts_the_rankings_that_are_right(needed: list[Any], end: str) -> None:
    rows = [
        result_row("statistics", value, metric=metric, dataset=f"set{index}", **{"n": 20, **keys})
        for index, value in enumerate(needed)
        for metric, keys in (
            (NS, {"part": "samples_needed"}),
            (NS, {"part": "samples_needed", "position": 0.5}),
            (NC, {"part": "samples_needed", "n": 0}),
            (NS, {"part": "ladder"}),
            ("deletion_auc", {"part": "samples_needed"}),
        )
    ]
    assert validity(frame(rows)).endswith(end)


def test_numerical_noise_that_explains_hardly_any_variance_is_less_than_a_share() -> None:
    rows = [
        result_row("statistics", value, metric=NC, method="m", part=part, dataset="films")
        for part, value in (("total", 1), ("numerical", 1e-9))
    ]
    sentence = "less than 0.1 % of the variance of any method's AUC."
    assert rounding(frame(rows)).endswith(sentence)
