"""Dependence of method rankings on the correctness of the answer."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from by_answer import FEWEST, by_answer

METHODS = ("one", "two", "three", "four", "five")


def samples(right: dict[str, bool], reversed_by: str) -> pd.DataFrame:
    """Return areas whose order of methods is reversed by `answer`, by `dataset`, or by nothing."""
    rng = np.random.default_rng(3)
    rows = []
    for name, correct in right.items():
        dataset = name.split("/")[0]
        turned = {"answer": correct, "dataset": dataset == "films", "": False}[reversed_by]
        for place, method in enumerate(METHODS):
            value = (-place if turned else place) + rng.normal(scale=0.01)
            rows.append((dataset, name, method, value))
    frame = pd.DataFrame(rows, columns=["dataset", "sample_id", "method", "value"])
    return frame.assign(protocol="dynamic", metric="auc_pi_soft_ns", status="ok")


def answers(films: int, books: int) -> dict[str, bool]:
    """Return 16 answers about films and 16 about books, of which some are right."""
    right = {f"films/{n}": n < films for n in range(16)}
    return right | {f"books/{n}": n < books for n in range(16)}


def frame_of(right: dict[str, bool]) -> pd.DataFrame:
    """Return answers; margins grow along a dataset, and are ten times larger in the second."""
    names = pd.Series([*right])
    dataset = names.str.split("/").str[0]
    scale = dataset.map({"films": 1.0, "books": 10.0})
    margin = (names.str.split("/").str[1].astype(int) + 1) * scale
    return pd.DataFrame(
        {"sample_id": names, "dataset": dataset, "correct": [*right.values()], "margin": margin}
    )


def compared(right: dict[str, bool], reversed_by: str) -> pd.DataFrame:
    rows = [*frame_of(right).to_dict("records"), {"sample_id": "why/1"}]  # the last: open text
    orders = by_answer(samples(right, reversed_by), pd.DataFrame(rows), seed=1)
    return orders[orders["answers"] == "right"]


def test_a_ranking_reversed_by_correct_answers_is_significant() -> None:
    (row,) = compared(answers(6, 10), "answer").to_dict("records")
    assert (row["protocol"], row["metric"]) == ("dynamic", "auc_pi_soft_ns")
    assert (row["n"], row["others"]) == (16, 16)
    assert row["tau"] == pytest.approx(-1)
    assert row["p_value"] < 0.01


def test_a_ranking_that_depends_on_the_dataset_is_not_significant() -> None:
    """Most answers on films are right and few on books: shuffles stay within datasets."""
    (row,) = compared(answers(14, 2), "dataset").to_dict("records")
    assert row["tau"] == pytest.approx(-1)
    assert row["p_value"] > 0.5


def test_equal_rankings_agree() -> None:
    (row,) = compared(answers(6, 10), "").to_dict("records")
    assert row["tau"] == row["low"] == row["high"] == pytest.approx(1)
    assert row["p_value"] > 0.01


@pytest.mark.parametrize("right", [FEWEST - 1, 32 - FEWEST + 1])
def test_too_few_correct_or_wrong_answers_give_no_number(right: int) -> None:
    assert compared(answers(min(right, 16), max(right - 16, 0)), "answer").empty
    whole = answers(FEWEST, 0)
    assert len(compared(whole, "answer")) == 1


def test_confident_answers_are_the_upper_half_of_a_datasets_correct_ones() -> None:
    """Of films 1 to 7, 4 to 7; of books 10 to 90, 50 to 90: each by its dataset's median."""
    right = answers(7, 9)
    confident = {name: one and int(name.split("/")[1]) >= (3 if "films" in name else 4)
                 for name, one in right.items()}  # fmt: skip
    orders = by_answer(samples(confident, "answer"), frame_of(right), seed=1)
    row = orders.set_index("answers").loc["right and confident"]
    assert row[["n", "others"]].tolist() == [4 + 5, 32 - 9]
    assert row["tau"] == pytest.approx(-1)


def test_failed_samples_and_other_metrics_do_not_count() -> None:
    right = answers(6, 10)
    frame = frame_of(right)
    rows = samples(right, "answer")
    others = [rows.assign(status="nonfinite", value=9.0), rows.assign(metric="soft_ns")]
    pd.testing.assert_frame_equal(
        by_answer(pd.concat([rows, *others]), frame, 1), by_answer(rows, frame, 1)
    )
