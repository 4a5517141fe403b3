"""Sentences about results and verdicts on the paper's findings follow from the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from helpers.result_rows import CELL, comparison_rows, frame, result_row, results
from paper_findings import FAILS, HOLDS, NOT_RUN, OPEN, paper_findings
from pisoft.config.jobs.displays import LabelSettings
from pisoft.pages.findings import NC, NS, Numbers, Order, answer, headline, rounding, validity

METHODS = {
    "grad_ellm_selected": "Grad_Ellm",
    **{
        name: name.title()
        for name in ("saliency", "deeplift", "input_x_gradient", "attention", "random")
    },
}
ALL_LAYERS = "grad_ellm"
APART, NOT_APART = 0.01, 0.05  # the latter is the level itself
PROTOCOLS = ["dynamic", "fixed"]
CLAIMS = (
    "original", "highest", "dominant", "late", "dense", "gradients", "fixed_dominant", "attention"
)  # fmt: skip


def numbers_of(
    p_value: float = APART,
    order: Sequence[str] = tuple(METHODS),
    untested: str = "",
    *,
    rho_ns: float = 0.8,
    rho_nc: float = 0.7,
    lower: float = -0.1,
    upper: float = 0.1,
    slope: float = 0.2,
    gains: Sequence[float] = (0.1, 0.1),
) -> Numbers:
    """Return the results of methods whose values fall from the first to the last.

    Args:
        p_value: of each pair of methods.
        order: methods, the best first; the original metrics prefer the last, which keeps most.
        untested: a method without a p-value.
        rho_ns, rho_nc: of the original metrics with the mean score.
        lower, upper, slope: the advantage over both halves, and the second minus the first.
        gains: over permuted scores, by NS and NC; none if the baseline was not run.
    """
    falling = {name: 0.9 - place / 10 for place, name in enumerate(order)}
    rising = {name: 1 - value for name, value in falling.items()}
    metrics = {NS: falling, NC: falling}
    metrics |= dict.fromkeys(("soft_ns", "soft_nc", "expected_retained"), rising)
    statistics, comparisons = [], []
    for metric, values in metrics.items():
        comparisons += comparison_rows(metric, order, [order] if p_value == NOT_APART else [])
        for rank, (method, value) in enumerate(values.items(), 1):
            keys = {"metric": metric, "dataset": "average", "method": method, "rank": rank}
            keys |= {"low": value - 0.1, "high": value + 0.1, "best": order[0]}
            keys["p_adjusted"] = p_value if rank > 1 else None
            statistics.append(result_row("statistics", value, **keys))
    for row in (*statistics, *comparisons):
        if untested in (row["method"], row["other"] or row["best"]):
            row["p_adjusted"] = None
    density = [
        {"metric": metric, "other": "mean_score", "part": "all", "value": rho}
        | {"low": rho - 0.1, "high": rho + 0.1}
        for metric, rho in ((NS, -0.2), (NC, -0.2), ("soft_ns", rho_ns), ("soft_nc", rho_nc))
    ]
    advantage = [
        {"metric": metric, "method": "saliency", "part": part, "value": value}
        for metric in ("pi_soft_ns", "pi_soft_nc")
        for part, value in (("lower", lower), ("upper", upper), ("upper_minus_lower", slope))
    ]
    baseline = [
        {"metric": metric, "method": "saliency", "part": "gain", "value": gain}
        for metric, gain in zip((NS, NC), gains, strict=False)
    ]
    ranks = [{"metric": NS, "method": method, "part": "without", "rank": 1.0} for method in order]
    rows = {
        "statistics": [{**row, "protocol": name} for name in PROTOCOLS for row in statistics],
        "comparisons": [{**row, "protocol": name} for name in PROTOCOLS for row in comparisons],
        "density_correlations": density,
        "advantage": advantage,
        "permutation_baseline": baseline,
        "ranks": ranks,
    }
    averages = {**CELL, "dataset": "average", "p_adjusted": p_value}
    frames = {
        question: results(question, [{**averages, **row} for row in given])
        for question, given in rows.items()
    }
    methods = METHODS | {ALL_LAYERS: "Grad"}
    labels = LabelSettings(models={"llama": "Llama"}, datasets={}, methods=methods)
    return Numbers(frames, labels)


def verdicts(*given: Any, **changes: Any) -> dict[str, str]:
    """Return the verdict of each claim; see :func:`numbers_of`."""
    findings = list(paper_findings(numbers_of(*given, **changes), PROTOCOLS))
    assert all(one.claim.endswith(".") and one.why.endswith(".") for one in findings)
    return dict(zip(CLAIMS, (one.verdict for one in findings), strict=True))


def test_significant_differences_confirm_or_contradict() -> None:
    assert verdicts() == {
        "original": HOLDS, "highest": HOLDS, "dominant": FAILS, "late": HOLDS, "dense": HOLDS,
        "gradients": FAILS, "fixed_dominant": FAILS, "attention": HOLDS,
    }  # fmt: skip


def test_without_significant_differences_all_is_inconclusive() -> None:
    assert set(verdicts(NOT_APART).values()) == {OPEN}


def led_by(*names: str) -> list[str]:
    return [*names, *(name for name in METHODS if name not in names)]


GRADIENTS = ("deeplift", "input_x_gradient", "saliency")
REST = led_by(*GRADIENTS)[3:]
THIRD = led_by(*GRADIENTS[:2], REST[0], GRADIENTS[2])


@pytest.mark.parametrize(
    ("claim", "verdict", "given"),
    [
        ("highest", FAILS, {"order": led_by("saliency")}),
        ("highest", OPEN, {"order": led_by("saliency"), "p_value": NOT_APART}),
        ("highest", OPEN, {"order": led_by("saliency"), "untested": "saliency"}),
        ("highest", OPEN, {"untested": "saliency"}),
        ("dominant", OPEN, {"untested": "saliency"}),
        # The paper's claims are not about Grad-ELLM over all layers.
        ("highest", NOT_RUN, {"order": [ALL_LAYERS, *list(METHODS)[1:]]}),
        ("highest", NOT_RUN, {"order": ["saliency", ALL_LAYERS]}),
        # All three gradient methods are best, and every other method is worse.
        ("gradients", HOLDS, {"order": led_by(*GRADIENTS)}),
        ("gradients", OPEN, {"order": led_by(*GRADIENTS), "p_value": NOT_APART}),
        ("gradients", OPEN, {"order": [*GRADIENTS[1:], *REST]}),  # one of the three was not run
        ("gradients", FAILS, {"order": THIRD}),
        ("gradients", OPEN, {"order": THIRD, "p_value": NOT_APART}),
        ("gradients", NOT_RUN, {"order": REST}),
        ("attention", FAILS, {"order": led_by("attention")}),  # every method is below it
        ("attention", OPEN, {"order": led_by("attention"), "p_value": NOT_APART}),
        ("attention", NOT_RUN, {"order": GRADIENTS}),
        ("attention", NOT_RUN, {"order": ["attention", "saliency"]}),  # several were not run
        ("late", FAILS, {"lower": 0.1}),
        ("late", FAILS, {"slope": -0.2}),
        ("late", OPEN, {"lower": -0.3, "upper": -0.1}),  # ahead nowhere
        ("original", FAILS, {"rho_nc": -0.7}),  # the claim concerns both metrics
        ("original", FAILS, {"rho_ns": -0.8, "rho_nc": -0.7}),
        # Dense scores need the permutation baseline of both metrics.
        ("dense", OPEN, {"gains": (0.1, -0.1)}),
        ("dense", NOT_RUN, {"gains": ()}),
    ],
)
def test_the_verdict_on_a_claim_follows_from_the_tests(
    claim: str, verdict: str, given: dict[str, Any]
) -> None:
    assert verdicts(**given)[claim] == verdict


def test_no_method_dominates_if_another_is_equivalent_to_the_best() -> None:
    numbers = numbers_of(NOT_APART)
    rows = numbers.rows["statistics"]
    rows.loc[rows["method"] == "saliency", "p_equivalence"] = 0.01
    rows["detectable"] = 0.0625
    dominant = list(paper_findings(numbers, ["dynamic"]))[2]
    assert dominant.verdict == HOLDS
    assert "equivalent to it: Saliency; a difference of 0.062 would be found" in dominant.why


def test_an_insignificant_lower_half_confirms_nothing() -> None:
    numbers = numbers_of()
    rows = numbers.rows["advantage"]
    rows.loc[rows["part"] != "upper", "p_adjusted"] = 0.4
    late = list(paper_findings(numbers, ["dynamic"]))[3]
    assert late.verdict == OPEN
    assert "larger over π > 0.5 for 0 and smaller for 0" in late.why


def test_without_random_scores_no_comparison_with_them_is_made() -> None:
    numbers = numbers_of()
    numbers.rows["advantage"] = numbers.rows["advantage"][:0]
    assert list(paper_findings(numbers, ["dynamic"]))[3].verdict == NOT_RUN


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


def test_several_rankings_are_summarised_by_counts() -> None:
    leaders = ("saliency", "random", "saliency", "random", "attention")
    models = {f"model{k}": numbers_of(order=led_by(name)) for k, name in enumerate(leaders)}
    rows = {
        question: pd.concat([one.rows[question].assign(model=name) for name, one in models.items()])
        for question in ("statistics", "comparisons")
    }
    assert headline(Numbers(rows, models["model0"].labels)) == (
        "Saliency, Random each lead 8 of 20 rankings (by model, routing and metric); the lead over "
        "every other method is significant in 16 of them."
    )


def test_a_single_method_is_compared_with_no_other() -> None:
    one = numbers_of(order=["saliency"])
    assert headline(one).endswith("is significant in none of them.")


def test_no_common_detectable_difference_if_one_method_has_none() -> None:
    order = order_of({"a": np.nan, "b": 0.2, "c": 1}, [1, 2, 3])
    assert "detectable with 80 % power: 0.040" in order.rivals[0]
    order.rows.loc["c", "detectable"] = np.nan
    assert order.rivals == ["no significant difference from the best: 2 of 2 other methods"]


@pytest.mark.parametrize(
    ("needed", "end"),
    [
        ([7, None, 12], "2 of 3 rankings; it takes at most 12 samples."),
        ([None, None], "none of 2 rankings."),
    ],
)
def test_metric_validation_counts_the_correct_rankings(needed: list[Any], end: str) -> None:
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
    assert validity(frame(rows)).endswith(f"random scores above inverted evidence in {end}")


@pytest.mark.parametrize(
    ("share", "bound"),
    [
        (1e-9, "less than 0.1"),
        (0.0014, "at most 0.2"),  # not 0.1: it is 0.14
        (0.003, "at most 0.3"),
    ],
)
def test_the_stated_bound_covers_the_share_of_numerical_noise(share: float, bound: str) -> None:
    rows = [
        result_row("statistics", value, metric=NC, method="m", part=part, dataset="films")
        for part, value in (("total", 1), ("numerical", share))
    ]
    assert rounding(frame(rows)).endswith(f"{bound} % of the variance of any method's AUC.")
