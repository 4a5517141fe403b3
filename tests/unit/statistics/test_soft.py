"""Per-sample metrics and curves, recomputed in plain Python from the written rows."""

import math
import random
import statistics

import numpy as np
import pytest
from scipy import stats

from helpers.soft_files import (
    CELL,
    GRID,
    MINIMUM_H0,
    PER_DRAW,
    STATISTICS,
    area,
    mean_curve,
    soft_row,
    soft_rows,
    soft_value,
    write_soft,
)
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.masks import measured_pi
from pisoft.statistics.soft import NOISE_METRICS, SAMPLE_METRICS, summarise
from pisoft.statistics.soft_files import completed


def summarised(folder, rows):
    """Summarise one cell; return the values by (sample, metric), the statuses, and the curves."""
    samples, curves, _ = summarise([write_soft(folder, rows)], **STATISTICS)
    long = samples.to_pylist()
    values = {(row["sample_id"], row["metric"]): row["value"] for row in long}
    statuses = {row["sample_id"]: row["status"] for row in long}
    return values, statuses, curves.to_pylist()


def test_sample_metrics_equal_the_definitions(tmp_path):
    rows = soft_rows({"a": 3, "b": 1, "c": 2})
    for number, row in enumerate(rows):
        row["h0"] = 0.3 + 0.1 * (number // 4)  # differs by step
        row["identity"] = 0.001 * (1 + number // 4)
        row["nc_distances"] = row["nc_distances"][:3]  # metrics may differ in draws
    values, statuses, _ = summarised(tmp_path, random.Random(3).sample(rows, len(rows)))
    assert set(statuses.values()) == {"ok"}
    assert set(values) == {(sample, metric) for sample in "abc" for metric in SAMPLE_METRICS}
    step_values = {
        "expected_retained": lambda row: row["achieved"] * 7,
        "mean_score": lambda row: row["achieved"],
        "numerical": lambda row: row["identity"] / row["h0"] * (0.9 - 0.1),
        **{name: lambda row, name=name: row[name] for name in ("h0", "identity")},
    }
    for sample in "abc":
        expected = {name: mean_curve(rows, sample, of)[None] for name, of in step_values.items()}
        for kind, clamp, end in (("ns", True, ""), ("nc", True, ""), ("ns", False, "_unclamped")):
            curve = mean_curve(rows, sample, lambda row, k=kind, c=clamp: soft_value(row, k, c))
            expected[f"soft_{kind}{end}"] = curve.pop(None)
            expected[f"auc_pi_soft_{kind}{end}"] = area(curve.items())
            if clamp:
                expected[f"auc_full_pi_soft_{kind}"] = area([(0, 0), *curve.items(), (1, 1)])
                tops = mean_curve(rows, sample, lambda r, k=kind: soft_value(r, k, False) * r["h0"])
                expected[f"auc_numerator_{kind}"] = area([*tops.items()][1:])
        assert {name: values[sample, name] for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("clamp", "distances", "expected"),
    [
        ("mean", [0.9, 0], 0.1),
        ("mean", [0.9, 0.7], 0),
        ("draw", [0.9, 0.3], 0.2),
        ("none", [0.9, 0.7], -0.6),
    ],
)
def test_soft_ns_is_clamped_as_configured(tmp_path, clamp, distances, expected):
    """One draw exceeds H₀ = 0.5, their mean at first does not."""
    rows = [row | {"ns_distances": distances} for row in soft_rows({"a": 1, "b": 1})]
    samples, *curves = summarise([write_soft(tmp_path, rows)], MINIMUM_H0, clamp)
    values = {row["metric"]: row["value"] for row in samples.to_pylist()}
    assert values["soft_ns"] == pytest.approx(expected)
    assert values["auc_pi_soft_ns"] == pytest.approx(expected * (GRID[-1] - GRID[0]))
    assert values["soft_ns_unclamped"] == pytest.approx(1 - statistics.mean(distances) / 0.5)
    means, samples = ([r for r in c.to_pylist() if r["metric"] == "pi_soft_ns"] for c in curves)
    assert [row["value"] for row in means] == pytest.approx([expected] * len(GRID))
    assert [row["values"] for row in samples] == [pytest.approx([expected] * len(GRID))] * 2


def test_the_low_part_of_the_curve_has_an_area_if_on_the_grid(tmp_path):
    rows = soft_rows({"a": 2})
    assert summarised(tmp_path, rows)[0]["a", "auc_low_pi_soft_nc"] is None
    for row in rows:
        row["pi"] = row["pi"] and {0.1: 0.1, 0.4: 0.3, 0.9: 0.31}[row["pi"]]
    values, _, _ = summarised(tmp_path, rows)
    for kind in ("ns", "nc"):
        curve = mean_curve(rows, "a", lambda row, kind=kind: soft_value(row, kind))
        expected = 0.2 * (curve[0.1] + curve[0.3]) / 2
        assert values["a", f"auc_low_pi_soft_{kind}"] == pytest.approx(expected)


def with_noise(rows, sample, size=0.01):
    """Rows of which one step was also evaluated in float32, which changed each number."""
    generator = random.Random(7)
    for row in rows:
        if (row["sample_id"], row["step"]) == (sample, 0):
            row["h0_noise"] = size
            row["ns_noise"], row["nc_noise"] = (generator.gauss(0, size) for _ in range(2))
    return rows


def test_noise_of_16_bit_precision_equals_its_definition(tmp_path):
    rows = with_noise(with_noise(soft_rows({"a": 2, "b": 1, "c": 1}), "a"), "c", size=0.02)
    values, _, _ = summarised(tmp_path, rows)
    assert {metric for _, metric in values} == {*SAMPLE_METRICS, *NOISE_METRICS}
    assert all(values["b", metric] is None for metric in NOISE_METRICS)
    step = [row for row in rows if row["sample_id"] == "a" and row["step"] == 0]
    sizes = [abs(row[f"{kind}_noise"]) for row in step for kind in ("ns", "nc")]
    assert values["a", "noise_distance"] == pytest.approx(statistics.mean(sizes))
    assert values["a", "noise_h0"] == pytest.approx(0.01)

    def area_without(share, kind):
        points = []
        for row in step[1:]:
            first = float(np.float32(row[f"{kind}_distances"][0])) - share * row[f"{kind}_noise"]
            changed = {"h0": row["h0"] - share * row["h0_noise"], f"{kind}_distances": [first]}
            points.append((row["pi"], soft_value(changed, kind)))
        return area(points)

    for kind in ("ns", "nc"):
        noise = area_without(0, kind) - area_without(1, kind)
        assert values["a", f"noise_auc_{kind}"] == pytest.approx(noise, abs=1e-7)
    noises = ([values[sample, f"noise_auc_{kind}"] for sample in "ac"] for kind in ("ns", "nc"))
    root_mean_square = max(np.hypot(*kind_noise) for kind_noise in noises) / 2**0.5
    for sample in "abc":  # noise of some samples represents the whole cell
        assert values[sample, "numerical"] == pytest.approx(root_mean_square)


@pytest.mark.parametrize(
    ("below", "enough", "noise"),
    [(np.nextafter(MINIMUM_H0, 0), MINIMUM_H0, 0), (0.019, 0.021, -0.02)],
)
def test_h0_below_the_minimum_or_16_bit_noise_is_degenerate(tmp_path, below, enough, noise):
    rows = soft_rows({"a": 1, "b": 1, "c": 1})
    for row in rows:
        row["h0"] = {"a": 0.5, "b": below, "c": enough}[row["sample_id"]]
    _, statuses, _ = summarised(tmp_path, with_noise(rows, "a", noise) if noise else rows)
    assert statuses == {"a": "ok", "b": "degenerate_baseline", "c": "ok"}


def test_monte_carlo_variance_equals_that_of_the_draws_areas(tmp_path):
    rows = soft_rows({"a": 3})
    values, _, _ = summarised(tmp_path, rows)
    for kind in ("ns", "nc"):
        step_variances = []
        for step in (0, 5, 10):
            chosen = [row for row in rows if row["step"] == step and row["pi"]]
            draws = zip(*(row[f"{kind}_distances"] for row in chosen), strict=True)
            areas = [area(zip(GRID, distances, strict=True)) for distances in draws]
            step_variances.append(statistics.variance(areas) / 0.5**2 / 4)  # h0 0.5, 4 draws
        expected = sum(step_variances) / 3**2
        assert values["a", f"monte_carlo_{kind}"] == pytest.approx(expected, rel=1e-5)


def test_failed_steps_are_excluded_and_a_single_sample_has_no_interval(tmp_path):
    status = {("b", 0): "degenerate_baseline", ("b", 5): "nonfinite_attribution"}
    rows = soft_rows({"a": 2, "b": 2}, status=status)
    rows[2] = soft_row("a", 0, rows[2]["pi"], random.Random(), "nonfinite_logits")
    values, statuses, curves = summarised(tmp_path, rows)
    assert statuses == {"a": "ok", "b": "degenerate_baseline"}, "the first status of b"
    assert all(values["b", metric] is None for metric in SAMPLE_METRICS)
    second = [row for row in rows if row["step"] == 5]
    expected = mean_curve(second, "a", lambda row: soft_value(row, "nc"))
    assert values["a", "soft_nc"] == pytest.approx(expected.pop(None))
    nc_curve = {row["position"]: row["value"] for row in curves if row["metric"] == "pi_soft_nc"}
    assert nc_curve == pytest.approx(expected)
    columns = ("low", "high", "standard_error", "n", "n_failed")
    assert {tuple(row[name] for name in columns) for row in curves} == {(*[None] * 3, 1, 1)}


def test_a_cell_without_ok_rows_has_no_mean_on_the_common_grid(tmp_path):
    failed = dict.fromkeys((("a", 0), ("b", 0)), "nonfinite_attribution")
    rows_of = {
        "empty": [soft_row("a", 0, None, random.Random(), "empty_record")],
        "failed": soft_rows({"a": 1, "b": 1}, status=failed),
        "ok": soft_rows({"a": 1}),
    }
    paths = [write_soft(tmp_path, rows_of[name], CELL._replace(method=name)) for name in rows_of]
    samples, curves, _ = (table.to_pylist() for table in summarise(paths, **STATISTICS))
    assert {row["value"] for row in samples if row["method"] == "failed"} == {None}
    for method, count in (("empty", 1), ("failed", 2)):
        rows = [row for row in curves if row["method"] == method]
        assert [row["position"] for row in rows] == [*GRID, *GRID]
        numbers = {(row["value"], row["low"], row["n"], row["n_failed"]) for row in rows}
        assert numbers == {(None, None, 0, count)}


@pytest.mark.parametrize("numbers", ["1234567", "0134567", "012345677", "0167"])
def test_missing_and_duplicate_rows_of_a_step_are_errors(tmp_path, numbers):
    """The last ones complete each other across steps."""
    rows = soft_rows({"a": 1, "b": 1})
    with pytest.raises(BenchmarkError, match=r"sst2\.parquet.*retaining probability.*delete"):
        summarised(tmp_path, [rows[int(number)] for number in numbers])


@pytest.mark.parametrize(
    ("distances", "problem"),
    [
        (None, "has no 'nc_distances'"),
        ([], "has no 'nc_distances'"),
        ([0.1], "has 1 values in 'nc_distances', another 4"),
        ([0.1, math.nan, 0.1, 0.1], "'nc_distances' are no distances"),
        ([0.1, -0.1, 0.1, 0.1], "'nc_distances' are no distances"),
    ],
)
def test_an_ok_row_without_usable_distances_is_an_error(tmp_path, distances, problem):
    rows = soft_rows({"a": 1})
    rows[1]["nc_distances"] = distances
    with pytest.raises(BenchmarkError, match=rf"sst2\.parquet: an ok row.*{problem}"):
        summarised(tmp_path, rows)


def test_cells_on_different_grids_are_an_error(tmp_path):
    other = CELL._replace(method="random")
    changed = [row | {"pi": row["pi"] and row["pi"] / 2} for row in soft_rows({"a": 1})]
    paths = [write_soft(tmp_path, soft_rows({"a": 1})), write_soft(tmp_path, changed, other)]
    with pytest.raises(BenchmarkError, match="evaluated at"):
        summarise(paths, **STATISTICS)


def test_areas_of_sparse_curves_average_to_that_of_the_mean_curve(tmp_path):
    rows = soft_rows(steps := {"a": 2, "b": 1, "c": 1, "d": 2, "e": 1})
    keys = list(dict.fromkeys((row["sample_id"], row["step"]) for row in rows))
    for row in rows:
        place = keys.index((row["sample_id"], row["step"]))
        if row["pi"] and GRID.index(row["pi"]) not in measured_pi(len(GRID), 2, 3, (place, 0)):
            row |= dict.fromkeys(PER_DRAW)
    values, _, curves = summarised(tmp_path, rows)
    means, counts = [], []
    for pi in GRID:
        measured = [row for row in rows if row["pi"] == pi and row["nc_distances"] is not None]
        weights = [1 / steps[row["sample_id"]] for row in measured]  # a sample counts once
        means.append(np.average([soft_value(row, "nc") for row in measured], weights=weights))
        counts.append(len({row["sample_id"] for row in measured}))
    assert [row["n"] for row in curves if row["metric"] == "pi_soft_nc"] == counts
    curve = [row["value"] for row in curves if row["metric"] == "pi_soft_nc"]
    assert curve == pytest.approx(means)
    areas = [values[sample, "auc_pi_soft_nc"] for sample in "abcde"]
    assert statistics.fmean(areas) == pytest.approx(area(list(zip(GRID, means, strict=True))))


def test_curve_points_have_intervals_of_the_samples_measured_there(tmp_path):
    """Student's t over those samples; no interval for a single one, no point without any."""
    measured = {"a": 0.1, "b": 0.1, "c": 0.4, "d": 0.1}
    rows = soft_rows(dict.fromkeys(measured, 1))
    for row in rows:
        if row["pi"] and row["pi"] != measured[row["sample_id"]]:
            row |= dict.fromkeys(PER_DRAW)
    values = [soft_value(row, "nc") for row in rows if row["pi"] == 0.1 and row["nc_distances"]]
    _, _, curves = summarised(tmp_path, rows)
    first, second, third = (row for row in curves if row["metric"] == "pi_soft_nc")
    expected = [np.mean(values), error := stats.sem(values)]
    expected += stats.t(2, expected[0], error).interval(0.95)
    columns = ("value", "standard_error", "low", "high")
    assert [first[name] for name in columns] == pytest.approx(expected)
    assert (second["n"], second["low"], second["high"]) == (1, None, None)
    assert (third["n"], third["value"], third["low"]) == (0, None, None)


def test_completed_curves_keep_means_and_errors_of_measured_values():
    """Of 12 samples, every one at two of four π."""
    curves = np.random.default_rng(5).normal(size=(12, 4))
    measured = np.isin((np.arange(12)[:, None] + np.arange(4)) % 4, (0, 1))
    given = np.where(measured, curves, np.nan)
    for at, pi_values in enumerate(completed(given, np.linspace(0.2, 0.8, 4)).T):
        values = curves[measured[:, at], at]
        assert pi_values.mean() == pytest.approx(values.mean())
        assert pi_values.std() / np.sqrt(12) == pytest.approx(stats.sem(values))
