"""Per-sample metrics and curves, recomputed in plain Python from the written rows."""

import itertools
import math
import random
import statistics
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import rooms
from pisoft.columns import SCHEMAS
from pisoft.contracts import read_provenance, read_rows, write_table
from pisoft.errors import BenchmarkError
from pisoft.statistics.soft import NOISE_METRICS, SAMPLE_METRICS, summarise
from pisoft.statistics.soft_files import Cell
from summarising import GRID, MINIMUM_H0, PER_DRAW, STATISTICS, soft_row, soft_rows, write_soft


def summarised(folder, rows):
    """Summarise one cell; return the values by (sample, metric), the statuses, and the curves."""
    samples, curves, _ = summarise([write_soft(folder, rows)], **STATISTICS)
    long = samples.to_pylist()
    values = {(row["sample_id"], row["metric"]): row["value"] for row in long}
    statuses = {row["sample_id"]: row["status"] for row in long}
    return values, statuses, curves.to_pylist()


def recomputed_curve(rows, sample, kind):
    """Mean over ok steps of NS or NC by π, straight from the definition."""
    curve = {}
    for pi in (None, *GRID):
        steps = []
        for row in rows:
            if row["sample_id"] == sample and row["pi"] == pi and row["status"] == "ok":
                draws = [float(np.float32(x)) for x in row[f"{kind}_distances"]]
                mean = sum(draws) / len(draws)
                ns = max(0.0, (row["h0"] - mean) / row["h0"])
                steps.append(ns if kind == "ns" else mean / row["h0"])
        curve[pi] = sum(steps) / len(steps)
    return curve


def area(points):
    return sum((x2 - x1) * (y1 + y2) / 2 for (x1, y1), (x2, y2) in itertools.pairwise(points))


def test_sample_metrics_equal_the_definitions(tmp_path):
    rows = soft_rows({"a": 3, "b": 1, "c": 2})
    values, statuses, _ = summarised(tmp_path, rows)
    assert set(statuses.values()) == {"ok"}
    assert set(values) == {(sample, metric) for sample in "abc" for metric in SAMPLE_METRICS}
    for sample in "abc":
        original = [r for r in rows if r["sample_id"] == sample and r["pi"] is None]
        for kind in ("ns", "nc"):
            curve = recomputed_curve(rows, sample, kind)
            points = [(pi, curve[pi]) for pi in GRID]
            full = [(0.0, 0.0), *points, (1.0, 1.0)]
            assert values[sample, f"soft_{kind}"] == pytest.approx(curve[None], abs=1e-12)
            assert values[sample, f"auc_pi_soft_{kind}"] == pytest.approx(area(points), abs=1e-12)
            assert values[sample, f"auc_full_pi_soft_{kind}"] == pytest.approx(area(full))
        unclamped = [1 - statistics.fmean(r["ns_distances"]) / 0.5 for r in original]
        assert values[sample, "soft_ns_unclamped"] == pytest.approx(statistics.fmean(unclamped))
        curve = [
            (pi, statistics.fmean(1 - statistics.fmean(r["ns_distances"]) / 0.5 for r in at))
            for pi in GRID
            if (at := [r for r in rows if r["sample_id"] == sample and r["pi"] == pi])
        ]
        assert values[sample, "auc_pi_soft_ns_unclamped"] == pytest.approx(area(curve), abs=1e-7)
        noise = statistics.fmean(r["identity"] for r in original)
        assert values[sample, "identity"] == pytest.approx(noise)
        retained = statistics.fmean(r["achieved"] * 7 for r in original)
        assert values[sample, "expected_retained"] == pytest.approx(retained)
        assert values[sample, "h0"] == pytest.approx(0.5)


def test_curves_are_means_over_samples_with_student_s_intervals(tmp_path):
    rows = soft_rows({"a": 3, "b": 1, "c": 2})
    _, _, curves = summarised(tmp_path, rows)
    assert [(row["metric"], row["position"]) for row in curves] == [
        (metric, pi) for metric in ("pi_soft_ns", "pi_soft_nc") for pi in GRID
    ]
    for row in curves:
        kind = row["metric"].removeprefix("pi_soft_")
        values = [recomputed_curve(rows, sample, kind)[row["position"]] for sample in "abc"]
        mean, error = statistics.fmean(values), statistics.stdev(values) / math.sqrt(3)
        assert [row["value"], row["standard_error"]] == pytest.approx([mean, error])
        half_width = 4.302653 * error  # t of 2 degrees of freedom, from a printed table
        assert [row["low"], row["high"]] == pytest.approx([mean - half_width, mean + half_width])
        assert (row["n"], row["n_failed"]) == (3, 0)


def test_ns_is_clamped_after_averaging_over_draws(tmp_path):
    rows = soft_rows({"a": 1})
    for row in rows:
        row["ns_distances"] = [0.9, 0.0]  # mean .45 < h0, although one draw exceeds h0
    values, _, _ = summarised(tmp_path, rows)
    assert values["a", "soft_ns"] == pytest.approx(0.1)
    for row in rows:
        row["ns_distances"] = [0.9, 0.7]
    values, _, _ = summarised(tmp_path, rows)
    assert values["a", "soft_ns"] == 0
    assert values["a", "soft_ns_unclamped"] == pytest.approx(-0.6)


def test_each_draw_may_be_clamped_before_averaging(tmp_path):
    rows = soft_rows({"a": 1})
    for row in rows:
        row["ns_distances"] = [0.9, 0.3]
    samples, *_ = summarise([write_soft(tmp_path, rows)], MINIMUM_H0, clamp="draw")
    found = {row["metric"]: row["value"] for row in samples.to_pylist()}
    assert found["soft_ns"] == pytest.approx(0.2)
    assert found["soft_ns_unclamped"] == pytest.approx(-0.2)
    assert found["auc_pi_soft_ns"] == pytest.approx(0.2 * (GRID[-1] - GRID[0]))


def test_without_the_clamp_soft_ns_may_be_negative(tmp_path):
    rows = soft_rows({"a": 1, "b": 1})
    for row in rows:
        row["ns_distances"] = [0.9, 0.7]
    path = write_soft(tmp_path, rows)
    samples, curves, _ = summarise([path], MINIMUM_H0, clamp="none")
    found = {row["metric"]: row["value"] for row in samples.to_pylist()}
    assert found["soft_ns"] == found["soft_ns_unclamped"] == pytest.approx(-0.6)
    assert found["auc_pi_soft_ns"] == found["auc_pi_soft_ns_unclamped"] == pytest.approx(-0.48)
    means = [row["value"] for row in curves.to_pylist() if row["metric"] == "pi_soft_ns"]
    assert means == pytest.approx([-0.6] * len(GRID))


def test_row_order_does_not_matter_and_the_metrics_may_differ_in_draws(tmp_path):
    rows = soft_rows({"a": 2, "b": 2})
    for row in rows:
        row["nc_distances"] = row["nc_distances"][:3]
    expected, _, _ = summarised(tmp_path, rows)
    first, *rest = rows
    random.Random(3).shuffle(rest)
    found, _, _ = summarised(tmp_path, [first, *rest])
    assert found == pytest.approx(expected)
    assert found["a", "soft_nc"] == pytest.approx(recomputed_curve(rows, "a", "nc")[None])


def test_the_low_part_of_the_curve_has_an_area_of_its_own(tmp_path):
    rows = soft_rows({"a": 2})
    for row in rows:
        row["pi"] = row["pi"] and {0.1: 0.1, 0.4: 0.3, 0.9: 0.31}[row["pi"]]
    values, _, _ = summarised(tmp_path, rows)
    for kind in ("ns", "nc"):
        at = [[row for row in rows if row["pi"] == pi] for pi in (0.1, 0.3)]
        points = [statistics.mean(ratio(row, kind, clamp=True) for row in rows) for rows in at]
        assert values["a", f"auc_low_pi_soft_{kind}"] == pytest.approx(0.2 * sum(points) / 2)


def ratio(row, kind, clamp=False):
    mean = statistics.mean(float(np.float32(x)) for x in row[f"{kind}_distances"])
    value = (row["h0"] - mean if kind == "ns" else mean) / row["h0"]
    return max(0.0, value) if clamp and kind == "ns" else value


def test_a_grid_without_a_low_part_has_no_area_there(tmp_path):
    values, statuses, _ = summarised(tmp_path, soft_rows({"a": 1}))
    assert statuses == {"a": "ok"}
    assert values["a", "auc_low_pi_soft_nc"] is None
    assert values["a", "auc_pi_soft_nc"] is not None


def test_numerators_share_and_noise_equal_the_definitions(tmp_path):
    rows = soft_rows({"a": 3})
    for number, row in enumerate(rows):
        row["h0"] = 0.3 + 0.1 * (number // 4)  # of each step its own
        row["identity"] = 0.001 * (1 + number // 4)
    values, _, _ = summarised(tmp_path, rows)
    for kind in ("ns", "nc"):
        curve = [
            (pi, statistics.mean(ratio(r, kind) * r["h0"] for r in rows if r["pi"] == pi))
            for pi in GRID
        ]
        assert values["a", f"auc_numerator_{kind}"] == pytest.approx(area(curve))
    original = [row for row in rows if row["pi"] is None]
    shares = [row["achieved"] for row in original]
    assert values["a", "mean_score"] == pytest.approx(statistics.mean(shares))
    noise = [row["identity"] / row["h0"] for row in original]
    assert values["a", "numerical"] == pytest.approx(statistics.mean(noise) * (0.9 - 0.1))


def with_noise(rows, sample, size=0.01):
    """Rows of which one step was evaluated in float32, too, which changed each number."""
    generator = random.Random(7)
    for row in rows:
        if (row["sample_id"], row["step"]) == (sample, 0):
            row["h0_noise"] = size
            row["ns_noise"], row["nc_noise"] = (generator.gauss(0, size) for _ in range(2))
    return rows


def test_noise_of_16_bits_equals_its_definitions(tmp_path):
    rows = with_noise(soft_rows({"a": 2, "b": 1}), "a")
    values, _, _ = summarised(tmp_path, rows)
    assert {metric for _, metric in values} == {*SAMPLE_METRICS, *NOISE_METRICS}
    assert all(values["b", metric] is None for metric in NOISE_METRICS)
    own = [row for row in rows if row["sample_id"] == "a" and row["step"] == 0]
    sizes = [abs(row[f"{kind}_noise"]) for row in own for kind in ("ns", "nc")]
    assert values["a", "noise_distance"] == pytest.approx(statistics.mean(sizes))
    assert values["a", "noise_h0"] == pytest.approx(0.01)
    for kind in ("ns", "nc"):
        areas = []
        for share in (0, 1):  # as it is, and without the noise
            points = []
            for row in own[1:]:
                h0 = row["h0"] - share * row["h0_noise"]
                distance = (
                    float(np.float32(row[f"{kind}_distances"][0])) - share * row[f"{kind}_noise"]
                )
                ratio = max(0, h0 - distance) / h0 if kind == "ns" else distance / h0
                points.append((row["pi"], ratio))
            areas.append(area(points))
        assert values["a", f"noise_auc_{kind}"] == pytest.approx(areas[0] - areas[1])
    largest = max(abs(values["a", f"noise_auc_{kind}"]) for kind in ("ns", "nc"))
    for sample in "ab":  # what is known of one sample stands for all of the cell
        assert values[sample, "numerical"] == pytest.approx(largest)


def test_h0_below_the_noise_of_16_bits_is_no_denominator(tmp_path):
    rows = soft_rows({"a": 1, "b": 1, "c": 1})
    for row in rows:
        row["h0"] = {"a": 0.5, "b": 0.019, "c": 0.021}[row["sample_id"]]
    _, statuses, _ = summarised(tmp_path, with_noise(rows, "a", size=-0.02))
    assert statuses == {"a": "ok", "b": "degenerate_baseline", "c": "ok"}


def test_monte_carlo_variance_is_that_of_the_area_of_each_draw(tmp_path):
    rows = soft_rows({"a": 3})
    values, _, _ = summarised(tmp_path, rows)
    for kind in ("ns", "nc"):
        of_steps = []
        for step in (0, 5, 10):
            chosen = [row for row in rows if row["step"] == step and row["pi"]]
            areas = [
                area(
                    [(row["pi"], float(np.float32(row[f"{kind}_distances"][k]))) for row in chosen]
                )
                for k in range(4)
            ]
            of_steps.append(statistics.variance(areas) / 0.5**2 / 4)  # h0 0.5, 4 draws
        expected = sum(of_steps) / 3**2
        assert values["a", f"monte_carlo_{kind}"] == pytest.approx(expected)


def test_a_row_with_another_number_of_draws_is_an_error(tmp_path):
    rows = soft_rows({"a": 1})
    rows[2]["nc_distances"] = rows[2]["nc_distances"][:1]
    with pytest.raises(BenchmarkError, match=r"sst2\.parquet: an ok row has 1 values.*another 4"):
        summarised(tmp_path, rows)


def test_a_sample_with_some_failed_steps_uses_the_others(tmp_path):
    rows = soft_rows({"a": 3, "b": 1}, status={("a", 5): "nonfinite_logits"})
    values, statuses, curves = summarised(tmp_path, rows)
    assert statuses == {"a": "ok", "b": "ok"}
    assert values["a", "soft_nc"] == pytest.approx(recomputed_curve(rows, "a", "nc")[None])
    assert {(row["n"], row["n_failed"]) for row in curves} == {(2, 0)}


def test_one_failed_row_takes_its_whole_step_out(tmp_path):
    rows = soft_rows({"a": 2})
    rows[2] = soft_row("a", 0, rows[2]["pi"], random.Random(), "nonfinite_logits")
    values, statuses, _ = summarised(tmp_path, rows)
    assert statuses == {"a": "ok"}
    second = [row for row in rows if row["step"] == 5]
    assert values["a", "soft_nc"] == pytest.approx(recomputed_curve(second, "a", "nc")[None])


def test_a_sample_without_any_ok_step_stays_as_null_with_its_first_status(tmp_path):
    status = {("b", 0): "degenerate_baseline", ("b", 5): "nonfinite_attribution"}
    values, statuses, curves = summarised(tmp_path, soft_rows({"a": 1, "b": 2}, status=status))
    assert statuses == {"a": "ok", "b": "degenerate_baseline"}
    assert all(values["b", metric] is None for metric in SAMPLE_METRICS)
    assert {(row["n"], row["n_failed"]) for row in curves} == {(1, 1)}


def test_a_sample_that_failed_before_evaluation_has_a_single_row(tmp_path):
    rows = [*soft_rows({"a": 1}), soft_row("b", 0, None, random.Random(), "prompt_too_long")]
    values, statuses, curves = summarised(tmp_path, rows)
    assert statuses == {"a": "ok", "b": "prompt_too_long"}
    assert values["b", "h0"] is None
    assert curves[0]["n_failed"] == 1


def test_a_baseline_below_the_minimum_is_never_divided_by(tmp_path):
    generator = random.Random(0)
    rows = soft_rows({"a": 1})
    rows += [soft_row("b", 0, pi, generator, h0=MINIMUM_H0 / 2) for pi in (None, *GRID)]
    _, statuses, _ = summarised(tmp_path, rows)
    assert statuses == {"a": "ok", "b": "degenerate_baseline"}


def test_a_single_sample_has_no_interval(tmp_path):
    _, _, curves = summarised(tmp_path, soft_rows({"a": 2}))
    assert {(row["low"], row["high"], row["standard_error"]) for row in curves} == {(None,) * 3}
    assert all(row["value"] is not None for row in curves)


def test_a_cell_whose_rows_all_failed_has_no_mean_and_no_n(tmp_path):
    failed = {("a", 0): "nonfinite_attribution", ("b", 0): "nonfinite_attribution"}
    rows = soft_rows({"a": 1, "b": 1}, status=failed)
    values, _, curves = summarised(tmp_path, rows)
    assert set(values.values()) == {None}
    assert [row["position"] for row in curves] == [*GRID, *GRID]
    assert {(row["value"], row["low"], row["n"]) for row in curves} == {(None, None, 0)}
    assert {row["n_failed"] for row in curves} == {2}


def test_a_cell_without_any_grid_point_takes_the_grid_of_the_others(tmp_path):
    other = Cell("dynamic", "llama", "random", "sst2")
    paths = [
        write_soft(tmp_path, [soft_row("a", 0, None, random.Random(), "empty_record")]),
        write_soft(tmp_path, soft_rows({"a": 1}), other),
    ]
    _, curves, _ = summarise(paths, **STATISTICS)
    found = [row for row in curves.to_pylist() if row["method"] == "attention"]
    assert [row["position"] for row in found] == [*GRID, *GRID]
    assert {(row["value"], row["n"], row["n_failed"]) for row in found} == {(None, 0, 1)}


@pytest.mark.parametrize("lost", [0, 2])
def test_an_ok_step_that_lacks_a_row_is_an_error(tmp_path, lost):
    rows = soft_rows({"a": 2, "b": 1})
    del rows[lost]
    with pytest.raises(BenchmarkError, match=r"sst2\.parquet.*retaining probability.*delete"):
        summarised(tmp_path, rows)


def test_rows_that_complete_each_other_across_steps_are_an_error(tmp_path):
    rows = soft_rows({"a": 1, "b": 1})
    with pytest.raises(BenchmarkError, match="retaining probability"):
        summarised(tmp_path, rows[:2] + rows[6:])


@pytest.mark.parametrize("value", [None, [], [0.1, float("nan")]])
def test_an_ok_row_without_usable_distances_is_an_error(tmp_path, value):
    rows = soft_rows({"a": 1})
    rows[1]["nc_distances"] = value
    with pytest.raises(BenchmarkError, match=r"sst2\.parquet: an ok row"):
        summarised(tmp_path, rows)


def test_cells_on_different_grids_are_an_error(tmp_path):
    other = Cell("dynamic", "llama", "random", "sst2")
    changed = [row | {"pi": row["pi"] and row["pi"] / 2} for row in soft_rows({"a": 1})]
    paths = [
        write_soft(tmp_path, soft_rows({"a": 1})),
        write_soft(tmp_path, changed, other),
    ]
    with pytest.raises(BenchmarkError, match="evaluated at"):
        summarise(paths, **STATISTICS)


def test_a_path_names_its_cell():
    path = Path("results/demo/soft/dynamic/llama-3.1/m/x.parquet")
    assert Cell.of(path) == Cell("dynamic", "llama-3.1", "m", "x")


def test_a_cell_of_paper_size_keeps_draws_and_samples_together(tmp_path):
    """2,000 samples, 20 rows each, 15 draws: the last sample's draws are still its own."""
    samples, grid, draws = 2000, [None, *(round(0.05 * k, 2) for k in range(1, 20))], 15
    count = samples * len(grid)
    distances = np.random.default_rng(0).random(count * draws, dtype=np.float32)
    offsets = np.arange(0, count * draws + 1, draws, dtype=np.int32)
    lists = pa.ListArray.from_arrays(offsets, distances)
    table = pa.table(
        {
            "sample_id": np.repeat([f"s{k}" for k in range(samples)], len(grid)),
            "step": pa.array(np.zeros(count), pa.int32()),
            "pi": grid * samples,
            "perturbable": pa.array(np.full(count, 100), pa.int32()),
            "alpha": np.ones(count),
            "achieved": np.full(count, 0.5),
            "feasible": np.ones(count, dtype=bool),
            "floored": pa.array(np.zeros(count), pa.int32()),
            "ceiled": pa.array(np.zeros(count), pa.int32()),
            "h0": np.full(count, 0.5),
            "identity": np.zeros(count),
            **dict.fromkeys(("h0_noise", "ns_noise", "nc_noise"), pa.nulls(count, pa.float64())),
            **dict.fromkeys(PER_DRAW, lists),
            "status": ["ok"] * count,
        },
        schema=SCHEMAS["soft"],
    )
    path = tmp_path / "soft.parquet"
    write_table(path, "soft", table, {})
    found, *_ = summarise([path], **STATISTICS)
    frame = found.to_pandas()
    last = frame[frame["sample_id"] == f"s{samples - 1}"].set_index("metric")["value"]
    expected = distances[-20 * draws : -19 * draws].astype(float).mean() / 0.5
    assert last["soft_nc"] == pytest.approx(expected)


def test_the_script_summarises_soft_files(tmp_path):
    soft = write_soft(tmp_path, soft_rows({"a": 1, "b": 1}))
    kinds = ("soft_samples", "curves", "soft_sample_curves")
    made = {kind: tmp_path / f"{kind}.parquet" for kind in kinds}
    rooms.summarise("soft", STATISTICS, {"soft": soft}, made)
    assert len(read_rows(made["soft_samples"], "soft_samples")) == 2 * len(SAMPLE_METRICS)
    curves = pd.DataFrame(read_rows(made["curves"], "curves"))
    assert len(curves) == 2 * len(GRID)
    of_samples = pd.DataFrame(read_rows(made["soft_sample_curves"], "soft_sample_curves"))
    for metric, own in of_samples.groupby("metric"):
        means = curves[curves["metric"] == metric].sort_values("position")["value"]
        assert np.mean(own["values"].tolist(), axis=0) == pytest.approx(means)
    assert read_provenance(made["curves"])["settings"] == STATISTICS
