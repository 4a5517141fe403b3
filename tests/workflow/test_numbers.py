"""Every number of every table, recomputed independently from the stored results."""

from __future__ import annotations

import csv
import itertools
import math
import shutil
import statistics
from collections import defaultdict

import numpy as np
import pytest
from scipy.stats import kendalltau, rankdata, spearmanr
from sklearn.metrics import average_precision_score

from helpers.finished_run import packed_data, unpacked
from helpers.planned_run import SHORT
from helpers.shared_runs import GRID, SAMPLES
from helpers.sign_flips import step_down
from pisoft.seeds import keyed_generator
from pisoft.store.parquet import read_rows, write_rows

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

METHODS = ("random", "attention", "saliency")
SELECTED = "grad_ellm_selected"  # from the layer study; only on its dataset
DATASETS = ("toy-sentiment", "demo-why")


def lines_of(project, name, room="tables"):
    """Return a display's CSV lines without :data:`SELECTED`, which has its own tests."""
    return [line for line in all_lines_of(project, name, room) if line.get("method") != SELECTED]


def all_lines_of(project, name, room="tables"):
    with (project.folder / f"results/tiny/{room}/{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def numbers_of(project, name, column="value"):
    """Return a column of a table's CSV by (metric, dataset, method); NaN where it is empty."""
    return {
        (line["metric"], line["dataset"], line["method"]): float(line[column] or "nan")
        for line in lines_of(project, name)
    }


def area(points, grid=GRID):
    return sum(
        (b - a) * (points[a] + points[b]) / 2 for a, b in itertools.pairwise(grid) if b in points
    )


def samples_of(project, method, dataset):
    """Return metrics by sample from the stored draws, without samples that have no ok step."""
    path = project.folder / f"results/tiny/data/soft/dynamic/toy/{method}/{dataset}.parquet"
    by_step = defaultdict(dict)
    for row in read_rows(path, "soft"):
        by_step[row["sample_id"], row["step"]][row["pi"]] = row
    by_sample = defaultdict(list)
    for (sample, _), rows in by_step.items():
        if all(row["status"] == "ok" and row["h0"] >= 1e-4 for row in rows.values()):
            by_sample[sample].append(step_metrics(rows))
    return {
        sample: {name: statistics.mean(step[name] for step in steps) for name in steps[0]}
        for sample, steps in by_sample.items()
    }


def step_metrics(rows):
    h0 = rows[None]["h0"]
    mean = {
        (kind, pi): statistics.fmean(row[f"{kind}_distances"])
        for pi, row in rows.items()
        for kind in ("ns", "nc")
    }
    ns = {
        pi: statistics.fmean(max(0.0, h0 - distance) / h0 for distance in row["ns_distances"])
        for pi, row in rows.items()
    }
    nc = {pi: mean["nc", pi] / h0 for pi in rows}
    return {
        "auc_pi_soft_ns": area(ns),
        "auc_pi_soft_nc": area(nc),
        "auc_low_pi_soft_ns": area(ns, GRID[:2]),
        "auc_low_pi_soft_nc": area(nc, GRID[:2]),
        "soft_ns": ns[None],
        "soft_nc": nc[None],
        "expected_retained": rows[None]["achieved"] * rows[None]["perturbable"],
        "top_ns": area({pi: h0 - mean["ns", pi] for pi in GRID}),
        "top_nc": area({pi: mean["nc", pi] for pi in GRID}),
        "unclamped": area({pi: (h0 - mean["ns", pi]) / h0 for pi in GRID}),
        "h0": h0,
        **{("pi_soft_ns", pi): ns[pi] for pi in GRID},
        **{("pi_soft_nc", pi): nc[pi] for pi in GRID},
    }


def flips_of(project, method, dataset):
    path = project.folder / f"results/tiny/data/ranking/toy/{method}/{dataset}.parquet"
    return {
        (f"{row['curve']}_auc", row["sample_id"]): statistics.fmean(row["flips"])
        for row in read_rows(path, "ranking")
        if row["status"] == "ok"
    }


def statistic(metric, samples):
    values = list(samples.values())
    if not values:
        return math.nan
    if metric.startswith("ratio_"):
        top = statistics.fmean(v[f"top_{metric[-2:]}"] for v in values)
        return top / statistics.fmean(v["h0"] for v in values)
    if metric.startswith("median_"):
        return statistics.median(v[metric.removeprefix("median_")] for v in values)
    return statistics.fmean(v[metric] for v in values)


@pytest.fixture
def finished(studied_once):
    return studied_once


@pytest.mark.parametrize("table", ["pi_soft_auc", "original_soft"])
def test_soft_tables_match_the_draws(finished, table):
    values = numbers_of(finished, f"{table}/dynamic/toy")
    by_cell = {(m, d): samples_of(finished, m, d) for m in METHODS for d in DATASETS}
    assert len(values) == len({key[0] for key in values}) * 3 * 3
    for (metric, dataset, method), value in values.items():
        if dataset == "average":
            parts = [statistic(metric, by_cell[method, d]) for d in DATASETS]
            assert value == pytest.approx(statistics.fmean(parts), rel=1e-9), (metric, method)
        else:
            expected = statistic(metric, by_cell[method, dataset])
            assert value == pytest.approx(expected, rel=1e-9), (metric, dataset, method)


def test_decisions_use_clipped_differences(finished):
    """So few records decide no comparison, so all of them count."""
    lines = lines_of(finished, "decisions/dynamic/toy")
    sequence, test = ([line for line in lines if line["part"] == part] for part in ("", "by_test"))
    assert len(sequence) == len(test) >= 2 * 2 * 3
    for line, tested in zip(sequence, test, strict=True):
        one, other = (
            samples_of(finished, line[key], line["dataset"]) for key in ("method", "other")
        )
        clip = 0.25 if line["metric"].endswith("nc") else 1
        gaps = [one[name][line["metric"]] - other[name][line["metric"]] for name in one]
        clipped = statistics.fmean(min(max(gap, -clip), clip) for gap in gaps)
        assert float(line["value"]) == pytest.approx(clipped, abs=1e-9)
        assert float(line["low"]) <= clipped <= float(line["high"])
        assert (line["text"], int(line["n"])) == ("open", len(gaps))
        assert float(tested["value"]) == pytest.approx(statistics.fmean(gaps), abs=1e-9)


def test_sign_flip_p_values_are_exact_for_few_samples(finished):
    p_values = numbers_of(finished, "pi_soft_auc/dynamic/toy", "p_sign_flip_adjusted")
    for metric, dataset in itertools.product(("auc_pi_soft_ns", "auc_pi_soft_nc"), DATASETS):
        samples = {
            m: {s: values[metric] for s, values in samples_of(finished, m, dataset).items()}
            for m in METHODS
        }
        if dataset == "toy-sentiment":
            samples[SELECTED] = selected_samples(finished, metric)
        corrected = {}
        pairs = list(itertools.combinations(samples, 2))
        for with_control in (True, False):
            family = [pair for pair in pairs if ("random" in pair) == with_control]
            parts = [difference_parts(samples[one], samples[other]) for one, other in family]
            adjusted = step_down(np.stack(parts, axis=1))
            corrected |= {frozenset(pair): p for pair, p in zip(family, adjusted, strict=True)}
        best = max(samples, key=lambda m: statistics.fmean(samples[m].values()))
        for method in METHODS:
            p_value = p_values[metric, dataset, method]
            if method == best:
                assert math.isnan(p_value)
            else:
                assert p_value == pytest.approx(corrected[frozenset({method, best})])


def difference_parts(one, other):
    """Return each sample's part of the difference of two methods' means over common samples."""
    common = one.keys() & other.keys()
    places = sorted(one.keys() | other.keys())
    return np.array([(one[s] - other[s]) / len(common) if s in common else 0.0 for s in places])


def selected_samples(project, metric):
    """Return the other samples' values at the depth that is best on development samples."""
    path = project.folder / "results/tiny/data/summary/layer_study.parquet"
    rows = [row for row in read_rows(path, "layer_study") if row["metric"] == metric]
    by_depth = {
        depth: statistics.fmean(
            row["value"] for row in rows if (row["part"], row["depth"]) == ("development", depth)
        )
        for depth in (1, 2)
    }
    best = max(by_depth, key=lambda depth: (by_depth[depth], -depth))
    rest = {row["sample_id"] for row in rows if row["part"] == "rest"}
    depth_samples = samples_of(project, f"grad_ellm-loosened-{best:02d}", "toy-sentiment")
    return {sample: values[metric] for sample, values in depth_samples.items() if sample in rest}


def test_the_main_table_lists_the_selected_depth(finished):
    lines = {
        (line["metric"], line["dataset"]): line
        for line in all_lines_of(finished, "pi_soft_auc/dynamic/toy")
        if line["method"] == SELECTED
    }
    for metric in ("auc_pi_soft_ns", "auc_pi_soft_nc"):
        values = selected_samples(finished, metric).values()
        line = lines[metric, "toy-sentiment"]
        assert float(line["value"]) == pytest.approx(statistics.fmean(values), rel=1e-9)
        assert int(line["n"]) == len(values)
        assert lines[metric, "average"]["value"] == "", "it has no value on the other dataset"


def test_intervals_contain_the_value_and_standard_errors_match(finished):
    for metric, dataset, method in itertools.product(("auc_pi_soft_nc",), DATASETS, METHODS):
        key = (metric, dataset, method)
        low, value, high, error = (
            numbers_of(finished, "pi_soft_auc/dynamic/toy", column)[key]
            for column in ("low", "value", "high", "standard_error")
        )
        values = [v[metric] for v in samples_of(finished, method, dataset).values()]
        assert low < value < high
        expected = statistics.stdev(values) / math.sqrt(len(values))
        assert error == pytest.approx(expected, rel=0.05)


def test_insertion_and_deletion_match_the_flips(finished):
    for (metric, _, method), value in numbers_of(finished, "insertion_deletion/toy").items():
        flips = flips_of(finished, method, "toy-sentiment")
        assert value == pytest.approx(
            statistics.fmean(v for (name, _), v in flips.items() if name == metric)
        )


def ranked(project, method, dataset):
    path = project.folder / f"results/tiny/data/ranking/toy/{method}/{dataset}.parquet"
    return [row for row in read_rows(path, "ranking") if row["status"] == "ok"]


def test_counterfactuals_match_the_flips(finished):
    numbers = numbers_of(finished, "counterfactuals/toy")
    for method in METHODS:
        rows = [row for row in ranked(finished, method, DATASETS[0]) if "count" in row["curve"]]
        changed = [
            round((row["flips"].index(True) + 1) * row["perturbable"] / len(row["flips"]))
            / row["perturbable"]
            if any(row["flips"])
            else 1
            for row in rows
        ]
        assert numbers["tokens_changed", DATASETS[0], method] == pytest.approx(np.mean(changed))
        never = statistics.fmean(not any(row["flips"]) for row in rows)
        assert numbers["not_flipped", DATASETS[0], method] == pytest.approx(never)


def test_answer_deletion_matches_the_log_probabilities(finished):
    results, dataset = finished.folder / "results/tiny/data", DATASETS[1]
    prompts = read_rows(results / f"prompts/toy/{dataset}.parquet", "prompts")
    content = {row["sample_id"]: np.flatnonzero(row["content_mask"]) for row in prompts}
    numbers = numbers_of(finished, "answer_deletion/toy")
    for method in METHODS:
        scores, steps = defaultdict(float), defaultdict(int)
        path = results / f"attributions/toy/{method}/{dataset}.parquet"
        for row in read_rows(path, "attributions"):
            raw = np.array(row["raw_scores"], dtype=float)[content[row["sample_id"]]]
            scores[row["sample_id"]] = scores[row["sample_id"]] + raw
            steps[row["sample_id"]] += 1
        areas = defaultdict(list)
        for row in ranked(finished, method, dataset):
            if row["curve"] != "answer_deletion":
                continue
            y, sample = row["log_probabilities"], row["sample_id"]
            ordered = np.sort(scores[sample])[::-1]
            k = [round(j * len(ordered) / (len(y) - 1)) for j in range(len(y))]
            left = [ordered[n:].sum() / ordered.sum() for n in k]
            if ordered.sum() <= 0:
                left = np.linspace(1, 0, len(y))
            areas["answer_deletion"].append(mean_height((y[0] - np.array(y)) / steps[sample]))
            if y[-1] < y[0]:
                r = [max(0, min(y[: j + 1]) - y[-1]) / (y[0] - y[-1]) for j in range(len(y))]
                mas = [min(1, a + abs(a - d)) for a, d in zip(r, left, strict=True)]
                areas["rise"].append(mean_height(r))
                areas["mas"].append(mean_height(mas))
        for metric, values in areas.items():
            assert numbers[metric, dataset, method] == pytest.approx(np.mean(values)), metric
    assert len(areas) == 3


def mean_height(curve):
    return (sum(curve) - curve[0] / 2 - curve[-1] / 2) / (len(curve) - 1)


def test_variance_components_match_the_draws(finished):
    parts = defaultdict(dict)
    for line in lines_of(finished, "variance_components/dynamic/toy"):
        cell = line["metric"], line["method"], line["dataset"]
        parts[cell][line["part"]] = float(line["value"])
    assert len(parts) == 2 * len(METHODS) * len(DATASETS)
    for (metric, method, dataset), values in parts.items():
        samples = samples_of(finished, method, dataset).values()
        name = {"auc_pi_soft_ns": "unclamped"}.get(metric, metric)
        total = statistics.variance(sample[name] for sample in samples)
        assert values.pop("total") == pytest.approx(total)
        assert sum(values.values()) == pytest.approx(total)
        expected = monte_carlo(finished, metric[-2:], method, dataset)
        assert values["monte_carlo"] == pytest.approx(expected, rel=1e-6)


def monte_carlo(project, kind, method, dataset):
    """Return the mean over samples of the variance of the area's mean over draws."""
    path = project.folder / f"results/tiny/data/soft/dynamic/toy/{method}/{dataset}.parquet"
    rows = defaultdict(dict)
    for row in read_rows(path, "soft"):
        if row["pi"]:
            rows[row["sample_id"], row["step"]][row["pi"]] = row
    step_variances = defaultdict(list)
    for (sample, _), step in rows.items():
        areas = [
            area({pi: row[f"{kind}_distances"][k] / row["h0"] for pi, row in step.items()})
            for k in range(2)
        ]
        step_variances[sample].append(statistics.variance(areas) / 2)
    return statistics.fmean(sum(v) / len(v) ** 2 for v in step_variances.values())


def test_ranks_match_with_and_without_each_dataset(finished):
    values = numbers_of(finished, "pi_soft_auc/dynamic/toy")
    other = dict(zip(DATASETS, reversed(DATASETS), strict=True))
    checked = 0
    for line in lines_of(finished, "ranks/dynamic/toy"):
        if line["part"] in ("rank", "without"):
            dataset = other.get(line["other"], "average")
            method_values = [-values[line["metric"], dataset, m] for m in METHODS]
            expected = rankdata(method_values)[METHODS.index(line["method"])]
            assert float(line["value" if line["part"] == "rank" else "rank"]) == expected, line
            checked += 1
    assert checked == 2 * len(METHODS) * (1 + 1 + len(DATASETS))


def test_the_layer_study_matches_the_draws(finished):
    path = finished.folder / "results/tiny/data/summary/layer_study.parquet"
    parts = {row["sample_id"]: row["part"] for row in read_rows(path, "layer_study")}
    counts = {part: list(parts.values()).count(part) for part in ("development", "rest")}
    lines = lines_of(finished, "layer_study/dynamic/toy")
    assert len(lines) == 2 * (2 + 2 + 3)
    for line in lines:
        part = "rest" if line["part"] in ("selected", "fixed") else line["part"]
        chosen = [name for name, sample_part in parts.items() if part in (sample_part, "leaky")]
        assert int(line["n"]) == len(chosen)
        if min(counts.values()) < 2:
            assert not line.get("value"), "a part is too small for a standard error"
            continue
        depth = f"grad_ellm-loosened-{float(line['position']):02.0f}"
        samples = samples_of(finished, depth, "toy-sentiment")
        values = [samples[name][line["metric"]] for name in chosen]
        assert float(line["value"]) == pytest.approx(statistics.fmean(values))
        error = statistics.stdev(values) / math.sqrt(len(values))
        assert float(line["standard_error"]) == pytest.approx(error)


def test_method_agreement_matches_the_scores(finished):
    results = finished.folder / "results/tiny"
    for line in lines_of(finished, "method_agreement/toy", "figures"):
        if line["dataset"] not in DATASETS:
            continue
        prompts = read_rows(results / f"data/prompts/toy/{line['dataset']}.parquet", "prompts")
        content = {row["sample_id"]: np.array(row["content_mask"]) for row in prompts}
        first, second = (
            {
                (row["sample_id"], row["step"]): np.array(row["raw_scores"])[
                    content[row["sample_id"]]
                ]
                for row in read_rows(
                    results / f"data/attributions/toy/{method}/{line['dataset']}.parquet",
                    "attributions",
                )
            }
            for method in (line["method"], line["other"])
        )
        by_sample = defaultdict(list)
        for (sample, step), scores in first.items():
            by_sample[sample].append(agreement(line["metric"], scores, second[sample, step]))
        expected = statistics.fmean(statistics.fmean(steps) for steps in by_sample.values())
        assert float(line["value"]) == pytest.approx(expected), line


def agreement(name, first, second):
    if name == "kendall_tau":
        return kendalltau(first, second).statistic
    k = max(1, (len(first) + 5) // 10)
    top = [set(np.argsort(-scores, kind="stable")[:k]) for scores in (first, second)]
    return len(top[0] & top[1]) / k


def test_metric_agreement_matches_the_tables(finished):
    values = numbers_of(finished, "pi_soft_auc/dynamic/toy")
    values |= numbers_of(finished, "original_soft/dynamic/toy")
    values |= numbers_of(finished, "datamodel_scores/dynamic/toy")
    ranking = numbers_of(finished, "insertion_deletion/toy")
    ranked = {key: v for key, v in ranking.items() if key[1] == DATASETS[0]}  # the only one ranked
    ranking |= {(metric, "average", method): v for (metric, _, method), v in ranked.items()}
    values |= ranking
    changed = numbers_of(finished, "counterfactuals/toy")
    values |= changed | {
        (metric, "average", method): v for (metric, _, method), v in changed.items()
    }
    lower = ("insertion_auc", "infidelity", "tokens_changed")
    values |= {key: -v for key, v in values.items() if key[0] in lower}
    checked = 0
    for line in lines_of(finished, "metric_agreement/toy", "figures"):
        orders = [
            [values.get((line[column], line["dataset"], m), math.nan) for m in METHODS]
            for column in ("metric", "other")
        ]
        if not line["value"]:
            continue
        expected = kendalltau(*np.round(orders, 12)).statistic
        assert float(line["value"]) == pytest.approx(expected), line
        checked += 1
    assert checked > 20


def test_the_advantage_matches_the_draws(finished):
    samples = {(m, d): samples_of(finished, m, d) for m in METHODS for d in DATASETS}
    parts_of, corrected = defaultdict(list), defaultdict(list)
    for line in lines_of(finished, "advantage/dynamic/toy"):
        shown = DATASETS if line["dataset"] == "average" else (line["dataset"],)
        parts = []
        for dataset in shown:
            control, scored = samples["random", dataset], samples[line["method"], dataset]
            values = [
                advantage(line, {pi: scored[s][line["metric"], pi] - control[s][line["metric"], pi]
                                 for pi in GRID})
                for s in scored
            ]  # fmt: skip
            parts.append(np.array(values) / len(values) / len(shown))
        assert int(line["n"]) == sum(map(len, parts))
        assert float(line["value"]) == pytest.approx(sum(map(sum, parts)), abs=1e-9), line
        if line["part"] != "at" and line["dataset"] in DATASETS:
            family = (line["metric"], line["dataset"])
            parts_of[family].append(parts[0])
            corrected[family].append(float(line["p_sign_flip_adjusted"]))
    for family, parts in parts_of.items():
        assert corrected[family] == pytest.approx(step_down(np.stack(parts, axis=1)))
    assert len(parts_of) == 2 * len(DATASETS)


def advantage(line, curve):
    """Return a number from one sample's differences at .2, .25 and .8, interpolated at .5."""
    if line["part"] == "at":
        return curve[float(line["position"])]
    middle = curve[0.25] + (curve[0.8] - curve[0.25]) * 0.25 / 0.55
    lower = (0.05 * (curve[0.2] + curve[0.25]) + 0.25 * (curve[0.25] + middle)) / 2 / 0.3
    upper = (middle + curve[0.8]) / 2
    return {"lower": lower, "upper": upper, "upper_minus_lower": upper - lower}[line["part"]]


def test_sensitivity_matches_the_draws(finished):
    samples = {(m, d): samples_of(finished, m, d).values() for m in METHODS for d in DATASETS}

    def order(shown, metric, mean=statistics.fmean):
        dataset_means = [[mean([s[metric] for s in samples[m, d]]) for m in METHODS] for d in shown]
        return np.mean(dataset_means, axis=0)

    checked = 0
    for line in lines_of(finished, "sensitivity/dynamic/toy"):
        shown = DATASETS if line["dataset"] == "average" else (line["dataset"],)
        metric = line["metric"]
        others = {
            "low_pi": (metric.replace("auc_", "auc_low_"), statistics.fmean),
            "median": (metric, statistics.median),
        }
        if line["other"] or line["part"] not in others:
            continue
        run, other = order(shown, metric), order(shown, *others[line["part"]])
        assert float(line["value"]) == pytest.approx(kendalltau(run, other).statistic), line
        assert int(line["n"]) == sum(min(len(samples[m, d]) for m in METHODS) for d in shown)
        assert float(line["low"]) <= float(line["high"])
        checked += 1
    assert checked == 2 * 2 * (len(DATASETS) + 1)


def test_density_matches_the_scores(finished):
    results = finished.folder / "results/tiny"
    by_sample = defaultdict(lambda: defaultdict(list))
    for method, dataset in itertools.product(METHODS, DATASETS):
        prompts = read_rows(results / f"data/prompts/toy/{dataset}.parquet", "prompts")
        content = {row["sample_id"]: np.array(row["content_mask"]) for row in prompts}
        path = results / f"data/attributions/toy/{method}/{dataset}.parquet"
        for row in read_rows(path, "attributions"):
            raw = np.array(row["raw_scores"])[content[row["sample_id"]]]
            scores = (raw - raw.min()) / (raw.max() - raw.min())
            pairs = np.abs(scores[:, None] - scores)
            by_sample["mean_score", method, dataset][row["sample_id"]].append(scores.mean())
            gini = pairs.mean() / (2 * scores.mean())
            by_sample["gini", method, dataset][row["sample_id"]].append(gini)
    checked = 0
    for line in lines_of(finished, "density/dynamic/toy"):
        is_density, dataset = line["other"] == "", line["dataset"]
        measure = line["metric"] if is_density else line["other"]
        if dataset not in DATASETS:
            continue
        density = {
            m: {s: statistics.fmean(v) for s, v in by_sample[measure, m, dataset].items()}
            for m in METHODS
        }
        if is_density:
            expected = statistics.fmean(density[line["method"]].values())
        elif line["part"] == "without random":
            assert line["value"] == "", "two methods are too few"
            continue
        else:
            areas = {m: samples_of(finished, m, dataset) for m in METHODS}
            expected = statistics.fmean(
                spearmanr(
                    [density[m][s] for m in METHODS], [areas[m][s][line["metric"]] for m in METHODS]
                ).statistic
                for s in areas["random"]
            )
        assert float(line["value"]) == pytest.approx(expected), line
        checked += 1
    assert checked == 2 * len(DATASETS) * (len(METHODS) + 4), "densities, and four metrics"


def test_evidence_recovery_matches_the_scores(finished):
    results = finished.folder / "results/tiny"
    samples = defaultdict(lambda: defaultdict(list))
    for method, dataset in itertools.product(METHODS, DATASETS):
        prompts = read_rows(results / f"data/prompts/toy/{dataset}.parquet", "prompts")
        by_sample = {row["sample_id"]: row for row in prompts}
        path = results / f"data/attributions/toy/{method}/{dataset}.parquet"
        for row in read_rows(path, "attributions"):
            prompt = by_sample[row["sample_id"]]
            places = [place for place, bit in enumerate(prompt["content_mask"]) if bit]
            marked = {place for place in places if prompt["evidence_mask"][place]}
            raw = {place: row["raw_scores"][place] for place in places}
            assert len(set(raw.values())) == len(raw), "no ties to break"
            low, high = min(raw.values()), max(raw.values())
            scores = {place: (value - low) / (high - low) for place, value in raw.items()}
            order = sorted(places, key=scores.get, reverse=True)
            numbers = {
                "top_1_in_evidence": order[0] in marked,
                "recovery_at_k": len(marked & set(order[: len(marked)])) / len(marked),
                "mass_on_evidence": sum(scores[p] for p in marked) / sum(scores.values()),
                "evidence_auprc": average_precision_score(
                    [p in marked for p in raw], [*raw.values()]
                ),
                "evidence_by_chance": len(marked) / len(places),
                "auprc_by_chance": statistics.fmean(
                    (1 + (i - 1) * (len(marked) - 1) / (len(places) - 1)) / i
                    for i in range(1, len(places) + 1)
                ),
            }
            for metric, value in numbers.items():
                samples[metric, dataset, method][row["sample_id"]].append(value)
    for (metric, dataset, method), value in numbers_of(finished, "evidence_recovery/toy").items():
        shown = DATASETS if dataset == "average" else (dataset,)
        means = [
            statistics.fmean(map(statistics.fmean, samples[metric, d, method].values()))
            for d in shown
        ]
        assert value == pytest.approx(statistics.fmean(means), rel=1e-9), (metric, dataset, method)
    assert len(samples) == 6 * len(METHODS) * len(DATASETS)


def scores_of(project, method, dataset):
    """Return min-max scores of the content tokens by sample and step."""
    results = project.folder / "results/tiny"
    prompts = read_rows(results / f"data/prompts/toy/{dataset}.parquet", "prompts")
    content = {row["sample_id"]: np.array(row["content_mask"]) for row in prompts}
    path = results / f"data/attributions/toy/{method}/{dataset}.parquet"
    scores = {}
    for row in read_rows(path, "attributions"):
        raw = np.array(row["raw_scores"])[content[row["sample_id"]]]
        scores[row["sample_id"], row["step"]] = (raw - raw.min()) / (raw.max() - raw.min())
    return scores


def draws_of_random_scores(project, dataset):
    """Return masks and changes of the log-probability by sample and step."""
    path = project.folder / f"results/tiny/data/soft/dynamic/toy/random/{dataset}.parquet"
    scores, draws = scores_of(project, "random", dataset), defaultdict(list)
    for row in read_rows(path, "soft"):
        key = (row["sample_id"], row["step"])
        chances = scores[key]
        where = "original" if row["pi"] is None else GRID.index(row["pi"])
        if row["pi"] is not None:
            chances = np.clip(chances, 1e-6, 1 - 1e-6) ** row["alpha"]
        for draw in range(2):
            drawn = keyed_generator(1, "mask", *key, where, draw).random((chances.size, 1))[:, 0]
            draws[key].append((drawn < chances, row["ns_log_probability_changes"][draw]))
            draws[key].append((drawn >= chances, row["nc_log_probability_changes"][draw]))
    return {
        key: [np.array(part) for part in zip(*rows, strict=True)] for key, rows in draws.items()
    }


def test_datamodel_scores_match_the_stored_draws(finished):
    numbers = numbers_of(finished, "datamodel_scores/dynamic/toy")
    checked = 0
    for method, dataset in itertools.product(METHODS, DATASETS):
        scores, draws = (
            scores_of(finished, method, dataset),
            draws_of_random_scores(finished, dataset),
        )
        by_sample = defaultdict(list)
        for (sample, step), (masks, changes) in draws.items():
            mass, counts = np.round(masks @ scores[sample, step], 9), masks.sum(axis=1)
            removed = scores[sample, step].sum() - mass
            a, b, c = (
                spearmanr(*pair).statistic
                for pair in ((mass, changes), (mass, counts), (changes, counts))
            )
            fit = np.linalg.lstsq(removed[:, None], -changes)[1]
            by_sample[sample].append(
                (
                    (a - b * c) / math.sqrt((1 - b * b) * (1 - c * c)),
                    a,
                    np.corrcoef(mass, changes)[0, 1],
                    fit[0] / (changes**2).sum(),
                )
            )
        means = np.mean([np.mean(steps, axis=0) for steps in by_sample.values()], axis=0)
        names = ("lds_given_count", "lds", "faithfulness_correlation", "infidelity")
        for metric, value in zip(names, means, strict=True):
            assert numbers[metric, dataset, method] == pytest.approx(value, abs=1e-6), metric
            checked += 1
    assert checked == 4 * len(METHODS) * len(DATASETS)


def test_accuracy_and_timings_match_the_rows(finished):
    results = finished.folder / "results/tiny"
    accuracy = {
        (line["metric"], line["dataset"]): line["value"] for line in lines_of(finished, "accuracy")
    }
    answers = read_rows(results / "data/generations/toy/toy-sentiment.parquet", "generations")
    share = statistics.fmean(row["correct"] for row in answers)
    assert float(accuracy["accuracy", "toy-sentiment"]) == pytest.approx(share)
    assert accuracy["accuracy", "demo-why"] == ""
    times = [line for line in lines_of(finished, "timings") if line["metric"].startswith("seconds")]
    for line in times:
        path = results / f"data/attribution_times/toy/{line['method']}/{line['dataset']}.parquet"
        seconds = defaultdict(float)
        for row in read_rows(path, "attribution_times"):
            seconds[row["sample_id"]] += row["seconds"]
        mean = statistics.fmean(seconds.values())
        assert float(line["value"]) == pytest.approx(mean)


# Failures --------------------------------------------------------------------------------------


def test_tables_and_pages_report_failures(finished, tmp_path):
    """A cell without an ok row, methods with identical scores, NaN, and a dataset of one sample."""
    project = type(finished)(tmp_path / "broken")
    shutil.copytree(finished.folder, project.folder, symlinks=True)
    soft = project.folder / "results/tiny/data/soft/dynamic/toy"
    rows = read_rows(soft / "saliency/demo-why.parquet", "soft")
    nothing = [name for name in rows[0] if name.startswith(("ns_", "nc_"))]
    nothing += ["alpha", "achieved", "feasible", "floored", "ceiled", "h0", "identity"]
    failed = {**dict.fromkeys(nothing), "status": "nonfinite_attribution"}
    first = rows[0]["sample_id"]
    for method in METHODS:
        path = soft / f"{method}/demo-why.parquet"
        kept = None if method == "saliency" else first
        rows = [r if r["sample_id"] == kept else {**r, **failed} for r in read_rows(path, "soft")]
        write_rows(path, "soft", rows, {})
    shutil.copyfile(soft / "random/toy-sentiment.parquet", soft / "attention/toy-sentiment.parquet")
    scores = project.folder / "results/tiny/data/attributions/toy/saliency/demo-why.parquet"
    rows = read_rows(scores, "attributions")
    lost = {"raw_scores": None, "status": "nonfinite_attribution"}
    kept = [r if r["sample_id"] == first else {**r, **lost} for r in rows]
    write_rows(scores, "attributions", kept, {})
    rules = project.snakemake("--list-rules").stdout.split()
    display = [rule for rule in rules if rule.startswith(SHORT)]
    made = sorted((project.folder / "results/tiny/data/summary").rglob("*.parquet"))
    targets = [str(path.relative_to(project.folder)) for path in made]
    pages = ("tables/pi_soft_auc/dynamic/toy", "index", "explorer")  # one job writes all tables
    targets += [f"results/tiny/{name}.html" for name in pages]
    recomputed = ("--rerun-triggers", "mtime", "--allowed-rules", *display)
    project.snakemake("--cores", "2", *recomputed, "--", *targets)
    values = numbers_of(project, "pi_soft_auc/dynamic/toy")
    assert math.isnan(values["auc_pi_soft_ns", "demo-why", "saliency"])
    assert math.isnan(values["auc_pi_soft_ns", "average", "saliency"])
    low = numbers_of(project, "pi_soft_auc/dynamic/toy", "low")
    for key in itertools.product(("auc_pi_soft_ns", "auc_pi_soft_nc"), ("demo-why",), METHODS[:2]):
        assert math.isfinite(values[key])
        assert math.isnan(low[key]), "a single sample has no interval"
    p_values = numbers_of(project, "pi_soft_auc/dynamic/toy", "p_adjusted")
    equal = [p_values["auc_pi_soft_nc", "toy-sentiment", m] for m in ("random", "attention")]
    assert 1.0 in equal or len(set(equal)) == 1
    page = (project.folder / "results/tiny/tables/pi_soft_auc/dynamic/toy.html").read_text()
    assert f"{SAMPLES} nonfinite_attribution" in page
    front = (project.folder / "results/tiny/index.html").read_text()
    assert f"{SAMPLES} nonfinite_attribution" in front
    explorer = (project.folder / "results/tiny/explorer.html").read_text(encoding="utf-8")
    assert "nonfinite_attribution" in str(unpacked(packed_data(explorer)))
