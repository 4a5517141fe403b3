"""Rankings under alternative choices: areas, means, τ and resamples, recomputed by hand."""

from __future__ import annotations

import itertools
import statistics

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau, norm, rankdata, t

from helpers import script_runs
from helpers.soft_files import MINIMUM_H0, area, soft_rows, write_soft
from pisoft.config.cells import Cell
from pisoft.seeds import keyed_generator
from pisoft.statistics.alternatives import ALTERNATIVES, HALVES, NEW_DRAWS
from pisoft.statistics.estimates import Estimates
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.results import select
from pisoft.statistics.sensitivity import compare_orders

GRID = (0.1, 0.3, 0.4, 0.9)
STEPS = {"a": 3, "b": 1, "c": 2, "d": 1, "e": 1}
METHODS = ("random", "mine", "saliency", "occlusion", "attention")
SETTINGS = {"minimum_h0": MINIMUM_H0, "clamp": "draw", "seed": 1, "resamples": 200}
METRICS = {"auc_pi_soft_ns": "ns", "auc_pi_soft_nc": "nc"}
TOO_FEW = "fewer than two methods have a value"


def rows_of(seed, steps=STEPS, draws=5, grid=GRID, failed=()):
    """Rows of a cell whose H₀ differs from sample to sample, and is near the distances."""
    status = {(sample, 0): "nonfinite_logits" for sample in failed}
    rows = soft_rows(steps, seed, status, draws, grid)
    for row in rows:
        if row["status"] == "ok":
            row["h0"] = float(keyed_generator(row["sample_id"], row["step"]).uniform(0.3, 0.9))
    return rows


def methods(seed=0, steps=STEPS, **cell):
    return {m: rows_of(seed + place, steps, **cell) for place, m in enumerate(METHODS)}


def sensitivity(folder, *cells, operators=(), **settings):
    """Write cells, (protocol, method, dataset, rows); return τ and facts in a row of each order."""
    files = {"soft": [], "operators": []}
    for kind, given in zip(files, (cells, operators), strict=True):
        for protocol, method, dataset, rows in given:
            cell = Cell(*protocol.split("@"), model="llama", method=method, dataset=dataset)
            files[kind].append(write_soft(folder, rows, cell))
    rows = script_runs.summary_rows("sensitivity", {**SETTINGS, **settings}, files, folder)
    table = pd.DataFrame(rows).astype({"value": float})
    indexed = table.set_index(["protocol", "metric", "dataset", "part"])
    by_fact = dict(iter(indexed.groupby("other")))
    facts = {fact: rows["value"] for fact, rows in by_fact.items() if fact}
    return by_fact[""].assign(**facts, best=by_fact["best_changes"]["text"]).reset_index()


def cells_of(rows, dataset="sst2", protocol="dynamic"):
    return [(protocol, method, dataset, rows[method]) for method in rows]


def one(table, alternative, metric="auc_pi_soft_ns", dataset="sst2", protocol="dynamic"):
    keys = {"part": alternative, "metric": metric, "dataset": dataset, "protocol": protocol}
    (row,) = select(table, **keys).to_dict("records")
    return row


def value_at(row, metric, alternative, clamp):
    """One row's π-Soft-NS or π-Soft-NC, in plain Python."""
    draws, h0 = [float(x) for x in row[f"{metric}_distances"]], row["h0"]
    if alternative == "plain_total_variation":
        draws = [float(x) for x in row[f"{metric}_total_variations"]]
    if alternative.startswith("plain"):
        return statistics.fmean(draws) * (-1 if metric == "ns" else 1)
    if alternative == "squared_distance":
        draws, h0 = [x * x for x in draws], h0 * h0
    if alternative == "single_draw":
        draws = draws[:1]
    if alternative == "half_draws":
        draws = draws[: len(draws) // 2]
    clamp = alternative.removeprefix("clamp_") if alternative.startswith("clamp") else clamp
    if metric == "nc":
        value = statistics.fmean(draws) / h0
    elif clamp == "draw":
        value = statistics.fmean(max(0.0, h0 - x) for x in draws) / h0
    else:
        value = 1 - statistics.fmean(draws) / h0
        value = max(0.0, value) if clamp == "mean" else value
    return value * h0 if alternative == "ratio_of_means" else value


def sample_areas(rows, metric, alternative, clamp, grid=GRID):
    """Each sample's area, mean over the steps of which every row is ok; and its H₀."""
    by_sample = {}
    for (sample, _), step in itertools.groupby(rows, key=lambda r: (r["sample_id"], r["step"])):
        by_pi = {r["pi"]: r for r in step}
        if any(r["status"] != "ok" for r in by_pi.values()):
            continue
        points = [(pi, value_at(by_pi[pi], metric, alternative, clamp)) for pi in grid]
        if alternative == "whole_range":
            points = [(0, 0), *points, (1, 1)]
        if alternative == "low_pi":
            points = [(pi, y) for pi, y in points if pi <= 0.3]
        if alternative == "every_second_pi":
            points = points[::2]
        by_sample.setdefault(sample, []).append((area(points), by_pi[grid[0]]["h0"]))
    return {sample: np.mean(steps, axis=0) for sample, steps in by_sample.items()}


def reduced(areas, alternative):
    """A method's number, from its samples' areas; NaN if it has none."""
    if not areas:
        return np.nan
    tops, bottoms = zip(*areas, strict=True)
    if alternative == "median":
        return statistics.median(tops)
    return sum(tops) / (sum(bottoms) if alternative == "ratio_of_means" else len(tops))


def order(rows, metric, alternative, clamp):
    by_method = [sample_areas(rows[method], metric, alternative, clamp) for method in rows]
    return [reduced(list(areas.values()), alternative) for areas in by_method]


@pytest.fixture(scope="module", params=["draw", "mean", "none"])
def summary(request, tmp_path_factory):
    rows = methods()
    rows["mine"] = rows_of(1, failed=("b",))
    folder = tmp_path_factory.mktemp(request.param)
    return rows, request.param, sensitivity(folder, *cells_of(rows), clamp=request.param)


DIRECT = [name for name in ALTERNATIVES if name not in ("half_samples", *NEW_DRAWS)]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("alternative", DIRECT)
def test_alternative_rankings_are_recomputed_from_the_written_draws(summary, metric, alternative):
    rows, clamp, table = summary
    if alternative.startswith("clamp") and (metric.endswith("nc") or alternative[6:] == clamp):
        assert select(table, metric=metric, part=alternative).empty, "it is the run's setting"
        return
    row = one(table, alternative, metric)
    run, other = (order(rows, METRICS[metric], name, clamp) for name in ("run", alternative))
    assert row["value"] == pytest.approx(kendalltau(run, other).statistic)
    before, after = (rankdata([-value for value in values]) for values in (run, other))
    assert row["rank_change"] == pytest.approx(np.abs(before - after).max())
    assert row["best"] == METHODS[int(after.argmin())]
    assert row["best_changes"] == float(before.argmin() != after.argmin())
    assert (row["n"], row["n_failed"], row["n_methods"]) == (4, 1, len(METHODS))
    assert row["low"] <= row["high"]


@pytest.mark.parametrize("alternative", ["squared_distance", "ratio_of_means", "median"])
def test_intervals_come_from_rankings_of_every_resample(summary, alternative):
    rows, clamp, table = summary
    drawn = keyed_generator(1, "bootstrap", "sst2").integers(len(STEPS), size=(200, len(STEPS)))
    areas = {
        name: [sample_areas(method, "nc", name, clamp) for method in rows.values()]
        for name in ("run", alternative)
    }
    taus = []
    for chosen in np.array([*STEPS])[drawn]:
        orders = np.array([
            [reduced([of[sample] for sample in chosen if sample in of], name) for of in methods]
            for name, methods in areas.items()
        ])  # fmt: skip
        compared = np.isfinite(orders).all(axis=0)
        taus.append(kendalltau(*orders[:, compared]).statistic)
    tail = norm.sf(np.sqrt(4 / 3) * t.ppf(0.975, 3))  # of 4 samples
    row = one(table, alternative, "auc_pi_soft_nc")
    assert [row["low"], row["high"]] == pytest.approx(np.nanquantile(taus, [tail, 1 - tail]))


@pytest.mark.parametrize(
    ("run", "orders", "changes"),
    [("221", ["321"], 0), ("321", ["221"], 1), ("321", ["321", "221"], 0.5)],
)
def test_a_different_best_method_must_not_have_shared_first_rank(run, orders, changes):
    order_columns = [("m", "median", half, name) for half in range(len(orders)) for name in "abc"]
    columns = pd.MultiIndex.from_tuples(
        [*(("m", "run", 0, name) for name in "abc"), *order_columns],
        names=["metric", "alternative", "half", "method"],
    )
    counts = dict.fromkeys(("n", "n_failed", "n_clusters", "datasets", "fewest"), 1)
    values = [[*map(float, "".join([run, *orders]))]]
    estimates = Estimates(pd.DataFrame(values, columns=columns), pd.DataFrame(counts, columns))
    rows = compare_orders(estimates, ["median"], {}).set_index("other")
    assert rows.loc["best_changes", "value"] == changes


def test_half_samples_average_over_random_halves(tmp_path):
    rows = methods()
    row = one(sensitivity(tmp_path, *cells_of(rows)), "half_samples")
    run = order(rows, "ns", "run", "draw")
    areas = [sample_areas(method_rows, "ns", "run", "draw") for method_rows in rows.values()]
    changes = []
    for number in range(HALVES):
        generator = keyed_generator(1, "half of the samples", "sst2", number)
        half = [list(STEPS)[place] for place in generator.permutation(len(STEPS))[:2]]
        other = [statistics.fmean(a[sample][0] for sample in half) for a in areas]
        moved = np.abs(rankdata(run) - rankdata(other)).max()
        changes.append([kendalltau(run, other)[0], np.argmax(run) != np.argmax(other), moved])
    columns = ("value", "best_changes", "rank_change")
    assert [row[name] for name in columns] == pytest.approx(np.mean(changes, axis=0))
    assert row["best"] == ""


def test_halves_compare_the_methods_with_values_in_both(tmp_path):
    rows = methods(steps={"a": 1, "b": 1})
    rows["mine"] = rows_of(1, {"a": 1, "b": 1}, failed=("b",))
    table = sensitivity(tmp_path, *cells_of(rows))
    assert one(table, "half_samples")["n_methods"] == len(METHODS) - 1
    assert one(table, "median")["n_methods"] == len(METHODS)


def test_the_average_ranks_by_the_mean_over_datasets(tmp_path):
    by_dataset = {name: methods(10 * place) for place, name in enumerate(("sst2", "imdb"))}
    cells = [cell for name, rows in by_dataset.items() for cell in cells_of(rows, name)]
    row = one(sensitivity(tmp_path, *cells), "every_second_pi", dataset=AVERAGE)
    run, other = (
        np.mean([order(rows, "ns", name, "draw") for rows in by_dataset.values()], axis=0)
        for name in ("run", "every_second_pi")
    )
    assert row["value"] == pytest.approx(kendalltau(run, other).statistic)
    assert row["n"] == 2 * len(STEPS)


def tau(rows, other_rows):
    """τ of two cells' orders by π-Soft-NS, over the methods of the second."""
    rows = {name: rows[name] for name in other_rows}
    return kendalltau(*(order(of, "ns", "run", "draw") for of in (rows, other_rows))).statistic


def test_routings_and_operators_are_compared_over_common_methods(tmp_path):
    names = ("dynamic", "fixed", "dynamic@mean", "dynamic@hide", "fixed@mean")
    rows = {name: methods(20 * place) for place, name in enumerate(names)}
    del rows["dynamic@hide"][METHODS[0]]
    soft, others = (
        [cell for name in chosen for cell in cells_of(rows[name], protocol=name)]
        for chosen in (names[:2], names[2:])
    )
    table = sensitivity(tmp_path, *soft, operators=others)
    assert set(table["protocol"]) == {"dynamic", "fixed"}
    for protocol, part, other in (
        ("dynamic", "other_routing", "fixed"),
        ("dynamic", "operator_mean", "dynamic@mean"),
        ("dynamic", "operator_hide", "dynamic@hide"),
        ("fixed", "other_routing", "dynamic"),
        ("fixed", "operator_mean", "fixed@mean"),
    ):
        row = one(table, part, protocol=protocol)
        assert row["value"] == pytest.approx(tau(rows[protocol], rows[other]))
        assert row["n_methods"] == len(rows[other])
    alone = sensitivity(tmp_path, *soft[: len(METHODS)], operators=others)
    assert set(NEW_DRAWS) & set(alone["part"]) == {"operator_mean", "operator_hide"}


def test_few_draws_and_short_grids_state_what_is_missing(tmp_path):
    table = sensitivity(tmp_path, *cells_of(methods(draws=1, grid=(0.2, 0.7))))
    missing = table[table["text"] != ""]
    assert dict(zip(missing["part"], missing["text"], strict=True)) == {
        "clamp_mean": "a single draw is stored",
        "single_draw": "a single draw is stored",
        "half_draws": "fewer than 4 draws are stored",
        "low_pi": "the grid has fewer than two such π",
        "every_second_pi": "the grid has fewer than two such π",
    }
    assert missing[["value", "low", "best_changes"]].isna().all(axis=None)
    table = sensitivity(tmp_path, *cells_of(methods(draws=3)))
    assert set(table.loc[table["text"] != "", "part"]) == {"half_draws"}


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"mine": rows_of(1)}, TOO_FEW),
        (dict.fromkeys(METHODS[:2], rows_of(1)), "all methods are equal in one of the two orders"),
        (dict.fromkeys(METHODS, rows_of(1, dict.fromkeys(STEPS, 1), failed=tuple(STEPS))), TOO_FEW),
    ],
)
def test_without_a_ranking_every_row_states_the_reason(tmp_path, cells, reason):
    table = sensitivity(tmp_path, *cells_of(cells))
    assert set(table["text"]) == {reason}
    assert table[["value", "low", "high", "best_changes", "rank_change"]].isna().all(axis=None)
    assert (table["n"] + table["n_failed"] == len(STEPS)).all()


def test_an_operator_with_a_single_method_gives_no_ranking(tmp_path):
    rows = {name: rows_of(place) for place, name in enumerate(METHODS[:2])}
    one_method = cells_of({"mine": rows["mine"]}, protocol="dynamic@mean")
    table = sensitivity(tmp_path, *cells_of(rows), operators=one_method)
    assert one(table, "operator_mean")["text"] == f"{TOO_FEW} with it"


def test_a_single_sample_has_neither_interval_nor_halves(tmp_path):
    table = sensitivity(tmp_path, *cells_of(methods(steps={"a": 2})))
    assert table[["low", "high"]].isna().all(axis=None)
    assert one(table, "half_samples")["text"] == "fewer than two samples have a value"
    assert one(table, "median")["value"] == 1, "the median of one is its mean"


def test_a_dataset_without_values_does_not_change_the_others(tmp_path):
    cells = cells_of(methods())
    empty = {m: rows_of(1, {"a": 1}, failed=("a",)) for m in METHODS}
    alone = sensitivity(tmp_path / "alone", *cells)
    both = sensitivity(tmp_path / "both", *cells, *cells_of(empty, "imdb"))
    frames = (select(rows, dataset="sst2").drop(columns="text") for rows in (alone, both))
    pd.testing.assert_frame_equal(*(rows.reset_index(drop=True) for rows in frames))
    others = both[both["dataset"] != "sst2"]
    assert set(others["dataset"]) == {"imdb", AVERAGE}
    assert set(others["text"]) == {TOO_FEW}
