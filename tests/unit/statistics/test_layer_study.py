"""The layer study: split, selection without leakage, scripts."""

import itertools
import math
import random
import statistics

import pandas as pd
import pytest
import scipy.stats

from helpers.result_rows import study_rows
from helpers.script_runs import summarise
from helpers.soft_files import soft_rows, write_soft
from pisoft.attribution import load_method
from pisoft.config.cells import Cell
from pisoft.config.jobs.summaries import LayerStudyJob
from pisoft.config.layer_study import study_depths
from pisoft.config.models import HubModel
from pisoft.config.studies import LayerStudy
from pisoft.errors import BenchmarkError
from pisoft.statistics.layer_study import depth_statistics, part_of, study_samples, summaries
from pisoft.statistics.metrics import AUC_METRICS
from pisoft.statistics.reading import Files, load_rows
from pisoft.statistics.results import select, summary_table
from pisoft.store.parquet import read_rows, write_rows

NS, NC = AUC_METRICS


DISAGREEING = {
    1: {"development": [0.9, 0.7], "rest": [0.1, 0.2, 0.3]},
    2: {"development": [0.5, 0.5], "rest": [0.6, 0.7, 0.5]},
    4: {"development": [0.1, 0.1], "rest": [0.8, 0.9, 1.0]},
}


def numbers_of(rows, metric=NS, weights="loosened"):
    """Numbers of one line of the table: {part: number}, or {(part, depth): number}."""
    numbers = select(depth_statistics(pd.DataFrame(rows)), metric=metric, method=weights)
    return {
        (n["part"], n["position"]) if n["part"] in ("development", "rest") else n["part"]: n
        for n in numbers.to_dict("records")
    }


def test_the_split_depends_on_seed_dataset_and_sample():
    first, again, seed, dataset = (
        [part_of(*key, f"s{k}", 0.25) for k in range(4000)]
        for key in ((1, "sst2"), (1, "sst2"), (2, "sst2"), (1, "imdb"))
    )
    assert first == again
    assert first not in (seed, dataset)
    assert set(first) == {"development", "rest"}
    spread = math.sqrt(0.25 * 0.75 / 4000)
    assert first.count("development") / 4000 == pytest.approx(0.25, abs=4 * spread)


def test_the_split_keeps_clusters_together():
    job = LayerStudyJob.model_validate(STUDY)
    of = {"model": job.methods[0].model, "method": job.methods[0].name, "metric": NS}
    samples = pd.DataFrame([{**of, "dataset": "imdb", "sample_id": f"s{k}"} for k in range(40)])
    parts = study_samples(job, samples, {f"s{k}": f"c{k // 2}" for k in range(40)})["part"]
    assert parts[::2].tolist() == parts[1::2].tolist()
    assert parts.nunique() == 2


def test_one_depth_is_selected_if_metrics_or_protocols_disagree():
    """Depth 1 leads by .3 for NS; depth 2 by .2 for NC and, under fixed routing, for both."""
    rows = []
    for protocol, metric in itertools.product(("dynamic", "fixed"), AUC_METRICS):
        second = 0.2 if (protocol, metric) == ("dynamic", NS) else 0.7
        values = {1: [0.5, 0.5], 2: [second, second]}
        made = study_rows({d: {"development": of, "rest": of} for d, of in values.items()})
        rows += [{**row, "protocol": protocol} for row in made if row["metric"] == metric]
    numbers = select(depth_statistics(pd.DataFrame(rows)), part=["selected", "leaky"])
    assert len(numbers) == 8
    assert set(numbers["position"]) == {2}


@pytest.mark.parametrize("order", [(1, 2, 4), (4, 2, 1)])
def test_ties_select_the_smaller_depth(order):
    equal = {"development": [0.1, 0.2, 0.7], "rest": [0.4, 0.3]}
    worse = {"development": [0.1, 0.1, 0.1], "rest": [0.9, 0.9]}
    numbers = numbers_of(study_rows({depth: worse if depth == 1 else equal for depth in order}))
    assert numbers["selected"]["position"] == 2


def test_a_fixed_depth_outside_the_candidates_is_never_selected():
    rows = study_rows(DISAGREEING, fixed=4, candidates=(1, 2))
    numbers = numbers_of(rows)
    assert numbers["fixed"]["value"] == pytest.approx(0.9)
    assert numbers["leaky"]["position"] == 2
    assert ("rest", 4) not in numbers
    unknown = [row | {"depth": {4: None}.get(row["depth"], row["depth"])} for row in rows]
    fixed = numbers_of(unknown)["fixed"]
    assert pd.isna(fixed["position"])
    assert fixed["value"] == pytest.approx(0.9)


def test_standard_errors_count_a_cluster_once():
    """Twice the same samples, each pair a cluster: errors are those of the samples once."""
    once = {d: {part: of * 2 for part, of in parts.items()} for d, parts in DISAGREEING.items()}
    plain = depth_statistics(pd.DataFrame(study_rows(DISAGREEING)))
    clusters = {
        f"{part}-{place}": f"{part}-{place % size}"
        for part, size in (("development", 2), ("rest", 3))
        for place in range(2 * size)
    }
    table = depth_statistics(pd.DataFrame(study_rows(once)), clusters)
    assert table["n"].tolist() == (2 * plain["n"]).tolist()
    columns = ["value", "standard_error", "low", "high"]
    pd.testing.assert_frame_equal(table[columns], plain[columns])


FAILED = ["development-7", "rest-0"]


def random_rows():
    """Random rows of two weightings; two samples fail at one depth."""
    generator, rows = random.Random(3), []
    for weights in ("loosened", "original"):
        values = {depth: {"development": [0] * 10, "rest": [0] * 30} for depth in (1, 4, 8)}
        if weights == "original":
            values[4]["development"][7] = values[4]["rest"][0] = None
        made = study_rows(values, weights=weights, fixed=8, candidates=(1, 4, 8))
        rows += [
            row | {"value": generator.random()} if row["status"] == "ok" else row for row in made
        ]
    return rows


@pytest.mark.parametrize("metric", AUC_METRICS)
@pytest.mark.parametrize("weights", ["loosened", "original"])
def test_every_number_equals_a_plain_computation(metric, weights):
    rows = random_rows()
    both = {}  # metrics
    for row in select(pd.DataFrame(rows), token_weights=weights).to_dict("records"):
        both.setdefault((row["sample_id"], row["depth"]), {})[row["metric"]] = row["value"]
    lost = FAILED if weights == "original" else []
    whole = list(dict.fromkeys(sample for sample, _ in both if sample not in lost))
    development = [name for name in whole if name.startswith("development")]
    rest = [name for name in whole if name.startswith("rest")]
    numbers = numbers_of(rows, metric, weights)
    assert numbers["selected"]["position"] != numbers["leaky"]["position"]

    def best(part):
        return max((1, 4, 8), key=lambda depth: sum(sum(both[n, depth].values()) for n in part))

    expected = {("development", depth): (depth, development) for depth in (1, 4, 8)}
    expected |= {("rest", depth): (depth, rest) for depth in (1, 4, 8)}
    expected |= {"selected": (best(development), rest), "leaky": (best(whole), whole)}
    expected["fixed"] = (8, rest)
    assert set(numbers) == set(expected)
    for name, (depth, part) in expected.items():
        values = [both[sample, depth][metric] for sample in part]
        mean, error = statistics.fmean(values), scipy.stats.sem(values)
        width = math.nan if name == "leaky" else error * scipy.stats.t.ppf(0.975, len(part) - 1)
        failed = [n for n in lost if part is whole or n.startswith(part[0].partition("-")[0])]
        columns = ("value", "standard_error", "low", "high", "position", "n", "n_failed")
        result = [mean, error, mean - width, mean + width, depth, len(part), len(failed)]
        assert [numbers[name][c] for c in columns] == pytest.approx(result, nan_ok=True)
        assert numbers[name]["text"] == ("2 nonfinite_attribution" if lost else "")


HUB = HubModel(kind="hub", repository="o/large")
DEPTHS = [d for d, _ in study_depths(LayerStudy(depths=(1, 2)), "llama", HUB, {}, load_method)]
SETTINGS = {"development_share": 0.4, "seed": 5, "minimum_h0": 1e-4, "clamp": "mean"}
STUDY = LayerStudyJob(methods=DEPTHS, **SETTINGS)


def write_study(folder, samples=12):
    """Write the study's soft files: NS = NC = .1 per layer + a little per sample, at every π."""
    paths = []
    for method, dataset in itertools.product(STUDY.methods, ("imdb", "sst2")):
        rows = soft_rows({f"s{k}": 1 for k in range(samples)}, draws=1)
        for row in rows:
            change = 0.5 * height(method.depth, row["sample_id"])  # H₀ is .5
            row |= {"ns_distances": [0.5 - change], "nc_distances": [change]}
        cell = Cell("dynamic", "", "llama", "", method.name, dataset)
        paths.append(write_soft(folder, rows, cell))
    return paths


def height(depth, sample):
    return 0.1 * (depth or 3) + int(sample[1:]) / 100


def summarised(paths, kind="layer_study"):
    return summary_table(kind, summaries(Files({"soft": paths}), STUDY)[kind])


def test_samples_have_depth_part_and_area(tmp_path):
    rows = summarised(write_study(tmp_path)).to_pylist()
    assert len(rows) == 6 * 2 * 12 * 2
    for row in rows:
        area = 0.8 * height(row["depth"], row["sample_id"])
        assert row["value"] == pytest.approx(area, abs=1e-6)  # distances are float32
        assert row["part"] == part_of(5, row["dataset"], row["sample_id"], 0.4)
        assert row["fixed"] == (row["depth"] is None) == (not row["candidate"])
        assert row["metric"] in AUC_METRICS
    variants = {(row["token_weights"], row["depth"]) for row in rows}
    assert variants == {*itertools.product(("loosened", "original"), (1, 2, None))}


def test_a_wrong_assumption_of_all_layers_is_an_error(tmp_path):
    paths = write_study(tmp_path, samples=4)
    for path in paths:
        write_rows(path, "soft", read_rows(path, "soft"), {"layers": 4})

    def depths(count):
        methods = [m.model_copy(update={"depth": count}) if m.all_layers else m for m in DEPTHS]
        return summaries(Files({"soft": paths}), STUDY.model_copy(update={"methods": methods}))

    assert depths(4)
    with pytest.raises(
        BenchmarkError, match=r"has 4 decoder layers.* says 3; correct its `layers`"
    ):
        depths(3)


def test_the_selected_depth_is_evaluated_on_held_out_samples(tmp_path):
    kinds = ("layer_study", "depths", "soft_samples")
    files = {kind: tmp_path / f"{kind}.parquet" for kind in kinds}
    summarise("layer_study", STUDY, {"soft": write_study(tmp_path)}, files)
    depths, rows = (load_rows(files[kind], kind) for kind in kinds[1:])
    selected = select(depths, part="selected")
    assert len(selected.drop_duplicates(["metric", "dataset", "method"])) == 2 * 2 * 2
    assert (selected["position"] == 2).all(), "every sample is best at depth 2"
    assert set(rows["method"]) == {"grad_ellm_selected", "grad_ellm_original_selected"}
    for (dataset, _), samples in rows.groupby(["dataset", "method"]):
        rest = {f"s{k}" for k in range(12) if part_of(5, dataset, f"s{k}", 0.4) == "rest"}
        expected = {name: 0.8 * height(2, name) for name in rest}
        for metric in AUC_METRICS:
            values = select(samples, metric=metric).set_index("sample_id")["value"]
            assert values.to_dict() == pytest.approx(expected, abs=1e-6)
        assert not samples.duplicated(["sample_id", "metric"]).any()
        assert {"monte_carlo_ns", "monte_carlo_nc", "identity"} < set(samples["metric"])


@pytest.mark.parametrize(("samples", "selected"), [(0, set()), (4, {"sst2"})])
def test_selection_needs_two_samples_in_each_part(tmp_path, samples, selected):
    """Only one of 4 IMDb samples is in the development part."""
    paths = write_study(tmp_path, samples)
    for kind in ("soft_samples", "depths"):
        rows = summarised(paths, kind).to_pandas()
        assert set(rows.loc[rows["value"].notna(), "dataset"]) == selected
