"""Confidence sequences by betting."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from pisoft.statistics.sequential import (
    MEANS,
    confidence_sequence,
    decide,
    holm_levels,
    log_capitals,
)

RUNS, RECORDS = 300, 150


@pytest.mark.parametrize("pool", [None, 5])
def test_capitals_follow_the_definition(pool: int | None) -> None:
    values, grid = [0.9, 0.2, 1.0, 0.7], [0.0, 0.05, 0.3, 0.5, 0.75, 1.0]
    stacked = np.array([one.copy() for one in log_capitals(np.c_[values], np.array(grid), pool)])
    for mean, computed in zip(grid, stacked[:, :, 0].transpose(2, 0, 1), strict=True):
        capital = [1.0, 1.0]
        for t, value in enumerate(values):
            past = values[:t]
            guesses = [(0.5 + sum(values[:i])) / (i + 1) for i in range(t + 1)]
            spread = sum((x - guess) ** 2 for x, guess in zip(past, guesses[1:], strict=True))
            left = mean if pool is None else (pool * mean - sum(past)) / (pool - t)
            gap = guesses[t] - left
            bet = gap / ((0.25 + spread) / (t + 1) + gap**2)
            inside = min(max(left, 0), 1)
            up, down = min(max(bet, 0), 0.5 / (inside or 1e-9)), 0.5 / (1 - inside or 1e-9)
            capital[0] *= 1 + up * (value - inside) if left >= 0 else np.inf
            capital[1] *= 1 - min(max(-bet, 0), down) * (value - inside) if left <= 1 else np.inf
            np.testing.assert_allclose(np.exp(computed[t]), capital)


def test_bounds_invert_the_capitals() -> None:
    values = np.random.default_rng(1).beta(6, 2, (60, 2))
    low, high = confidence_sequence(values, 0.1)
    reached = np.zeros((2, 2, len(MEANS)), dtype=bool)
    for at, capitals in enumerate(log_capitals(values)):
        reached |= np.exp(capitals) / 2 >= 10
        for pair in range(2):
            left = MEANS[~reached[:, pair].any(axis=0)]
            step = MEANS[1]
            assert low[at, pair] == pytest.approx(max(left[0] - step, 0))
            assert high[at, pair] == pytest.approx(min(left[-1] + step, 1))
    assert low[-1].min() > 0.5


def test_a_pair_without_common_records_stays_open() -> None:
    differences = np.c_[np.full(6, 0.3), np.full(6, np.nan)]
    first, second = decide(differences, 1.0).to_dict("records")
    assert first["value"] == pytest.approx(0.3)
    assert (second["text"], second["n"], second["available"]) == ("open", 0, 0)
    assert np.isnan(second["value"])


def differences_of(kind: str) -> np.ndarray:
    """Return differences of three methods from one with the same mean, (T, RUNS, 3)."""
    rng = np.random.default_rng([1, len(kind)])
    shape = (RECORDS, RUNS, 4)
    if kind == "exchangeable":
        values = rng.normal(size=shape) * 0.3
    elif kind == "skewed":  # differs by method, so that differences are skewed
        values = rng.beta(0.2, 1.8, shape) - 0.1
        values *= [1, 0.05, 0.2, 0.5]
    else:  # labels alternate, and differences depend on the label
        values = rng.uniform(-0.2, 0.2, shape)
        values += np.where(np.arange(RECORDS) % 2, 0.4, -0.4)[:, None, None] * [0.1, 0.2, 0.5, 1]
    return values[:, :, 1:] - values[:, :, :1]


def share_rejected(values: np.ndarray, alpha: float, mean: float, pool: int | None) -> float:
    """Return the share of runs in which a capital against the mean ever reaches 2 / α."""
    runs = values.reshape(len(values), -1)
    capitals = log_capitals(runs, np.array([mean]), pool)
    reached = np.any([one >= np.log(2 / alpha) for one in capitals], axis=(0, 1))
    return reached.reshape(RUNS, -1).any(axis=1).mean()


@pytest.mark.parametrize("kind", ["exchangeable", "skewed", "taking turns"])
@pytest.mark.parametrize("pool", [None, RECORDS])
def test_equal_methods_are_rarely_decided_at_any_stopping_time(kind: str, pool: int | None) -> None:
    differences = differences_of(kind)
    if pool:
        differences = differences - differences.mean(axis=0)  # of all records of the pool
    values = differences.clip(-1, 1) / 2 + 0.5
    assert share_rejected(values, alpha=0.2 / 3, mean=0.5, pool=pool) <= 0.2


def test_the_sequence_covers_the_mean_simultaneously() -> None:
    values = np.random.default_rng(2).beta(0.5, 4.5, (RECORDS, RUNS))  # skewed, of mean 0.1
    assert share_rejected(values, alpha=0.2, mean=0.1, pool=None) <= 0.2
    finite = (values[:, :5], 0.2, RECORDS), (values[:, :5], 0.2)
    (low, high), infinite = (confidence_sequence(*one) for one in finite)
    assert ((low <= values[:, :5].mean(axis=0)) & (high >= values[:, :5].mean(axis=0))).all()
    assert (high - low)[-1].max() < 0.2 * np.subtract(*infinite[::-1])[-1].min()


def test_a_comparison_stops_where_it_is_decided() -> None:
    rng = np.random.default_rng(3)
    better = rng.uniform(0.1, 0.5, 200)
    holes = np.where(np.arange(400) % 2, np.repeat(better, 2), np.nan)[:400]
    columns = [np.r_[better, better], -np.r_[better, better], holes, rng.uniform(-0.1, 0.1, 400)]
    few = np.r_[better[:3], np.full(397, np.nan)]
    got = decide(np.c_[(*columns, few, np.full(400, np.nan))].T.T, clip=1, margin=0.2)
    assert got["text"].tolist() == ["higher", "lower", "higher", "equal", "open", "open"]
    assert got["n"][0] == got["n"][1] == got["n"][2] < 60
    assert got.available.tolist() == [400, 400, 200, 400, 3, 0]
    assert got["n"][4:].tolist() == [3, 0]
    assert got.low[0] >= 0 >= got.high[1]
    assert got.low[3] >= -0.2
    assert got.high[3] <= 0.2
    # Neither one record fewer nor a stricter family decides.
    before = decide(columns[0][: got["n"][0] - 1, None], clip=1, pairs=6)
    assert before["text"].tolist() == ["open"]
    assert decide(columns[0][:, None], clip=1, pairs=600)["n"][0] > got["n"][0]


def test_decisions_follow_holms_procedure_after_every_record() -> None:
    rng = np.random.default_rng(4)
    differences = rng.normal([0.3, 0.12, 0.1, 0.1, -0.2, 0, 0.02], 0.3, (300, 7))
    got = decide(differences, clip=1, alpha=0.1)
    values = differences.clip(-1, 1) / 2 + 0.5
    capitals = [one[:, :, 0].max(axis=0) for one in log_capitals(values, np.array([0.5]))]
    p_values = np.minimum(1, 2 * np.exp(-np.maximum.accumulate(capitals)))
    rejected = np.array([multipletests(one, alpha=0.1, method="holm")[0] for one in p_values])
    first = np.where(rejected.any(axis=0), rejected.argmax(axis=0) + 1, 300)
    assert got["n"].tolist() == first.tolist()
    assert ((got["text"] != "open") == rejected[-1]).all()
    assert len(set(first)) > 4
    alone = decide(differences[:, 3:4], clip=1, alpha=0.1, pairs=7)
    assert alone["n"][0] > got["n"][3]  # which later decisions made easier


def test_the_last_open_pair_gets_all_of_alpha() -> None:
    clear = np.full((RECORDS, 2), 0.95)
    null = differences_of("exchangeable")[:, :80, 0].clip(-1, 1) / 2 + 0.5
    last = [holm_levels(np.c_[clear, one], 0.2, 3)[1][2] for one in null.T]
    alone = [holm_levels(one[:, None], 0.2, 1)[1][0] for one in null.T]
    wrong = np.array(last) < RECORDS
    assert 0 < wrong.mean() <= 0.2
    assert wrong.tolist() == (np.array(alone) < RECORDS).tolist()


def test_differences_are_clipped() -> None:
    outlier = np.r_[1e6, np.full(99, -0.5)][:, None]
    assert decide(outlier, clip=1)["text"].tolist() == ["lower"]
