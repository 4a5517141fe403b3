"""Ranks, comparisons, variance, coverage and noise of hand-made samples, from their files."""

import numpy as np
import pytest
from pandas.testing import assert_frame_equal

from helpers.estimated_results import estimated
from helpers.sign_flips import step_down
from pisoft.config.jobs.summaries import UncertaintyJob
from pisoft.statistics.metrics import METRICS
from pisoft.statistics.reading import Files
from pisoft.statistics.results import select, summary_table
from pisoft.statistics.uncertainty import summaries
from pisoft.store.parquet import write_rows


def rows_of(values, dataset="sst2", metric="auc_pi_soft_nc", status="ok"):
    """Rows of `soft_samples`: `values` = {method: values by sample}; None failed."""
    return [
        {
            "protocol": "dynamic", "model": "llama", "method": method, "dataset": dataset,
            "sample_id": f"s{number}", "metric": metric, "value": value,
            "status": "nonfinite_attribution" if value is None else status,
        }
        for method, column in values.items()
        for number, value in enumerate(column)
    ]  # fmt: skip


def samples_of(values, dataset="sst2"):
    """Rows of one metric with what every file holds beside it."""
    nothing = {m: [None if v is None else 0.0 for v in column] for m, column in values.items()}
    beside = ("monte_carlo_nc", "numerical")
    return rows_of(values, dataset) + [
        row for metric in beside for row in rows_of(nothing, dataset, metric)
    ]


NAN = pytest.approx(np.nan, nan_ok=True)


def compared(values):
    """Comparisons on a dataset, by both methods."""
    found = select(estimated(samples_of(values)).comparisons, dataset="sst2")
    return found.set_index(["method", "other"])


def test_a_failed_sample_is_counted_and_a_method_without_samples_has_no_rank():
    found = estimated(samples_of({"one": [0.5, None], "none": [None, None]})).statistics
    found = select(found, metric="auc_pi_soft_nc", dataset="sst2").set_index("method")
    assert found.loc["one", ["value", "n", "n_failed", "rank"]].tolist() == [0.5, 1, 1, 1]
    assert found.loc["none", ["value", "n", "n_failed", "rank"]].tolist() == [NAN, 0, 2, NAN]
    assert found[["low", "high", "standard_error"]].isna().all(axis=None)


@pytest.mark.parametrize("metric", ["auc_pi_soft_nc", "median_auc_pi_soft_nc"])
def test_ranks_of_resamples_of_a_clear_order_are_certain(metric):
    noise = np.random.default_rng(11).normal(0, 0.01, 30)
    values = {"low": noise, "high": noise + 1, "middle": noise + 0.5}
    results = estimated(samples_of({name: list(column) for name, column in values.items()}))
    found = select(results.statistics, metric=metric, dataset="sst2").set_index("method")
    assert found["rank"].to_dict() == {"low": 3, "high": 1, "middle": 2}
    assert (found["best"] == "high").all()
    found = select(results.ranks, metric=metric, dataset="sst2")
    parts = {part: rows.set_index("method") for part, rows in found.groupby("part")}
    for column in ("value", "low", "high"):
        assert parts["rank"][column].to_dict() == {"low": 3, "high": 1, "middle": 2}
    assert parts["mean_rank"]["value"].to_dict() == {"low": 3, "high": 1, "middle": 2}
    assert parts["best_share"]["value"].to_dict() == {"low": 0, "high": 1, "middle": 0}


def test_equal_methods_share_ranks_and_are_never_significantly_different():
    data = np.random.default_rng(12).random(20)
    found = estimated(samples_of({"a": data, "b": data, "c": data - 0.5}))
    table = select(found.statistics, metric="auc_pi_soft_nc", dataset="sst2").set_index("method")
    assert table["rank"].tolist() == [1.5, 1.5, 3]
    shares = select(found.ranks, metric="auc_pi_soft_nc", dataset="sst2", part="best_share")
    assert shares["value"].tolist() == [1, 1, 0]
    assert table.loc["b", "p_value"] == 1
    assert table.loc["c", "p_value"] < 0.05


def ranking_rows(values, samples):
    """Rows of `ranking_samples`; `values` = {method: its first sample's value}."""
    return [
        {
            "model": "llama", "method": method, "dataset": "sst2", "sample_id": f"s{number}",
            "metric": metric, "value": value + number / 100, "status": "ok", "reason": None,
        }
        for method, value in values.items()
        for number in range(samples)
        for metric in ("deletion_auc", "insertion_auc")
    ]  # fmt: skip


def test_insertion_is_best_where_lowest():
    found = estimated(ranking_rows({"a": 0.1, "b": 0.9}, 8), "ranking_samples").statistics
    assert (found["protocol"] == "").all()
    assert select(found, metric="insertion_auc", method="b")["p_value"].notna().all()
    assert set(select(found, metric="insertion_auc")["best"]) == {"a"}
    assert set(select(found, metric="deletion_auc")["best"]) == {"b"}


def test_a_single_method_has_numbers_of_metrics_without_a_protocol():
    found = estimated(ranking_rows({"a": 0.25}, 4), "ranking_samples").statistics
    assert select(found, dataset="sst2")["value"].tolist() == pytest.approx([0.265] * 2)
    assert set(found["method"]) == {"a"}


def test_pairs_with_the_control_are_a_family_of_their_own():
    generator = np.random.default_rng(16)
    values = {f"m{k}": generator.normal(k / 5, 1, 10) for k in range(4)}
    values["random"] = generator.normal(0, 1, 10)
    found = compared({method: column.tolist() for method, column in values.items()})
    control = found.index.get_level_values("other") == "random"
    assert control.tolist().count(True) == 4
    for family in (found[control], found[~control]):
        parts = [(values[method] - values[other]) / 10 for method, other in family.index]
        assert family["value"].tolist() == pytest.approx([part.sum() for part in parts])
        flipped = family["p_sign_flip_adjusted"]
        assert flipped.tolist() == pytest.approx(step_down(np.stack(parts, axis=1)))


def test_only_common_samples_are_compared():
    found = compared({
        "a": [1.0, 2.0, None, 4.0, None], "b": [0.5, None, 3.0, 1.0, None],
        "c": [None, None, 1.0, None, 1.0],
    })  # fmt: skip
    assert found.loc[("a", "b"), ["value", "n", "p_smallest"]].tolist() == [1.75, 2, 0.5]
    assert ("a", "c") not in found.index, "no common sample"


def test_methods_without_a_common_sample_are_not_compared_at_all():
    found = estimated(samples_of({"a": [1.0, None], "b": [None, 2.0]}))
    assert found.comparisons.empty
    assert found.statistics["p_value"].isna().all()


def test_a_pair_that_lacks_a_dataset_has_no_test_of_the_average():
    rows = samples_of({"a": [1.0, 2.0], "b": [2.0, 4.0]}) + samples_of({"a": [1.0, 2.0]}, "imdb")
    found = estimated(rows)
    assert select(found.comparisons, dataset="average").empty
    table = select(found.statistics, dataset="average", metric="auc_pi_soft_nc").set_index("method")
    assert table["value"].to_dict() == {"a": 1.5, "b": pytest.approx(np.nan, nan_ok=True)}


def test_ratios_of_means_are_compared_by_their_own_denominator():
    top = {"a": [0.1, 0.4, None, 0.3], "b": [0.2, 0.5, 0.1, 0.1]}
    bottom = {method: [0.2, 0.9, 0.7, 0.5] for method in top}
    rows = rows_of(top, metric="auc_numerator_nc") + rows_of(bottom, metric="h0")
    found = estimated(rows)
    row = select(found.statistics, metric="ratio_auc_pi_soft_nc", dataset="sst2", method="a").iloc[
        0
    ]
    assert row[["value", "n", "n_failed"]].tolist() == pytest.approx([0.8 / 1.6, 3, 1])
    pair = select(found.comparisons, metric="ratio_auc_pi_soft_nc", dataset="sst2").iloc[0]
    assert pair["value"] == pytest.approx((-0.1 - 0.1 + 0.2) / 1.6)


def test_a_dataset_left_out_changes_the_ranks_of_the_methods_that_all_datasets_have():
    rows = samples_of({"a": [1.0], "b": [2.0], "some": [9.0]})
    rows += samples_of({"a": [4.0], "b": [2.0]}, "imdb")
    found = select(estimated(rows).ranks, metric="auc_pi_soft_nc", part="without")
    assert found["other"].tolist() == ["", "", "sst2", "sst2", "imdb", "imdb"]
    assert found["method"].tolist() == ["a", "b"] * 3
    assert found["value"].tolist() == [2.5, 2, 4, 2, 1, 2]
    assert found["rank"].tolist() == [1, 2, 1, 2, 2, 1]


def test_variances_add_up_to_the_total():
    generator = np.random.default_rng(18)
    rows = [
        row
        for metric, scale in (
            ("auc_pi_soft_ns_unclamped", 1), ("auc_pi_soft_nc", 1), ("monte_carlo_ns", 0.01),
            ("monte_carlo_nc", 0.02), ("numerical", 0.003),
        )
        for row in rows_of({"a": generator.random(30) * scale}, metric=metric)
    ]  # fmt: skip
    found = estimated(rows).variance_components.pivot(
        index="metric", columns="part", values="value"
    )
    parts = found[["between_samples", "monte_carlo", "numerical"]].sum(axis=1)
    assert parts.to_numpy() == pytest.approx(found["total"].to_numpy())
    chosen = [row["value"] for row in rows if row["metric"] == "auc_pi_soft_ns_unclamped"]
    assert found.loc["auc_pi_soft_ns", "total"] == pytest.approx(np.var(chosen, ddof=1))
    drawn = [row["value"] for row in rows if row["metric"] == "monte_carlo_nc"]
    assert found.loc["auc_pi_soft_nc", "monte_carlo"] == pytest.approx(np.mean(drawn))


def test_a_single_sample_has_no_variance():
    found = estimated(rows_of({"a": [0.5, None]}) + samples_of({"b": [0.1]})).variance_components
    assert found["value"].isna().all()
    assert found["n"].tolist() == [1] * 8


def test_coverage_counts_samples_by_status_and_says_why_a_dataset_has_none():
    values = {"a": [1.0, None, None], "b": [1.0, 2.0, 3.0]}
    rows = rows_of(values, metric="identity") + samples_of(values)
    counts = estimated(rows).coverage.set_index(["method", "part"])["value"]
    assert counts.to_dict() == {
        ("a", "ok"): 1, ("a", "nonfinite_attribution"): 2, ("b", "ok"): 3,
    }  # fmt: skip
    row = {"model": "llama", "method": "a", "metric": "deletion_auc", "status": "ok"}
    rows = [
        {**row, "dataset": "sst2", "sample_id": "s", "value": 0.5, "reason": None},
        {**row, "dataset": "wikibio", "sample_id": None, "value": None,
         "status": "not_applicable", "reason": "it has no labels"},
    ]  # fmt: skip
    found = estimated(rows, "ranking_samples").coverage
    texts = found.set_index(["protocol", "dataset", "part"])["text"].to_dict()
    assert texts == {
        ("", "sst2", "ok"): "", ("", "wikibio", "not_applicable"): "it has no labels",
    }  # fmt: skip


def test_noise_is_the_mean_and_largest_size_over_the_samples_that_have_one():
    rows = rows_of({"a": [0.01, -0.03, None], "b": [None] * 3}, metric="noise_h0")
    (row,) = estimated(rows + samples_of({"a": [1.0] * 3})).noise.itertuples()
    assert (row.metric, row.dataset, row.method, row.n) == ("noise_h0", "", "", 2)
    assert (row.value, row.high) == pytest.approx((0.02, 0.03))


def test_every_metric_with_a_direction_has_its_arrow():
    for metric in METRICS.values():
        arrow = {"highest": "↑", "lowest": "↓", None: ""}[metric.best]
        assert metric.label.endswith(arrow)
        assert ("↑" in metric.label or "↓" in metric.label) == (metric.best is not None)


def test_averages_are_over_the_datasets_of_each_model():
    """Whatever other models there are, the results of a model are those of it alone."""
    generator = np.random.default_rng(21)

    def samples(dataset, model):
        values = {name: generator.normal(k, 1, 12) for k, name in enumerate(("a", "b", "random"))}
        return [{**row, "model": model} for row in samples_of(values, dataset)]

    both = [*samples("sst2", "both"), *samples("imdb", "both")]
    one = samples("imdb", "one")
    together = estimated([*both, *one])
    for model, rows in {"both": both, "one": one}.items():
        alone = estimated(rows)
        for question in ("statistics", "comparisons", "ranks"):
            found = select(getattr(together, question), model=model).reset_index(drop=True)
            assert len(found)
            assert_frame_equal(found, getattr(alone, question).reset_index(drop=True))
    averages = select(together.statistics, model="one", metric="auc_pi_soft_nc").set_index("method")
    single, average = (averages[averages["dataset"] == name] for name in ("imdb", "average"))
    assert single["value"].tolist() == average["value"].tolist()
    assert single["p_adjusted"].tolist()[:2] == average["p_adjusted"].tolist()[:2]


def test_equivalence_and_detectable_differences_stand_beside_the_tests_with_the_best():
    generator = np.random.default_rng(22)
    values = {
        "a": generator.normal(0.5, 0.1, 60),
        "b": generator.normal(0.49, 0.1, 60),
        "c": generator.normal(0, 0.1, 60),
    }
    rows = samples_of({name: column.tolist() for name, column in values.items()})
    found = estimated(rows, margin=0.1)
    pairs = select(found.comparisons, metric="auc_pi_soft_nc", dataset="sst2")
    pairs = pairs.set_index(["method", "other"])
    assert pairs.loc[("a", "b"), "p_equivalence"] < 0.05 < pairs.loc[("a", "b"), "p_adjusted"]
    assert pairs.loc[("a", "c"), "p_equivalence"] > 0.9
    assert 0.04 < pairs.loc[("a", "b"), "detectable"] < 0.1
    table = select(found.statistics, metric="auc_pi_soft_nc", dataset="sst2").set_index("method")
    best = table["best"].iloc[0]
    (other,) = {"a", "b"} - {best}
    for column in ("p_equivalence", "detectable"):
        assert table.loc[other, column] == pairs.loc[("a", "b"), column]
        assert np.isnan(table.loc[best, column])
    assert estimated(rows).comparisons["p_equivalence"].isna().all()


def test_clusters_of_samples_stand_beside_n_and_widen_intervals(tmp_path):
    values = {
        name: list(np.repeat([k, k + 0.3, k - 0.4, k + 0.1], 3)) for k, name in enumerate("ab")
    }
    rows = samples_of(values)
    names = sorted({row["sample_id"] for row in rows}, key=lambda name: int(name[1:]))
    records = [
        {"sample_id": name, "fields": {}, "label": None, "answer": None, "evidence": None,
         "counterfactuals": None, "cluster": f"c{k // 3}" if k < 9 else None, "status": "ok"}
        for k, name in enumerate(names)
    ]  # fmt: skip
    write_rows(tmp_path / "soft_samples.parquet", "soft_samples", rows, {})
    write_rows(tmp_path / "datasets.parquet", "datasets", records, {})
    files = Files(samples=[tmp_path / "soft_samples.parquet"])
    settings = UncertaintyJob(datasets=("sst2",), seed=1, resamples=50, equivalence_margin=None)
    alone = summaries(files, settings)
    found = summaries(Files(files, clusters=[tmp_path / "datasets.parquet"]), settings)
    tables = {
        question: select(summary_table(question, found[question]).to_pandas(), dataset="sst2")
        for question in ("statistics", "comparisons", "ranks")
    }
    for rows in tables.values():
        assert (rows["n"] == 12).all()
    for question in ("statistics", "comparisons"):
        assert (tables[question]["n_clusters"] == 3 + 3).all(), (
            "three clusters, three by themselves"
        )
    (single,) = alone["statistics"]
    wider = tables["statistics"].set_index(["metric", "method"])["standard_error"]
    before = single[single["dataset"] == "sst2"].set_index(["metric", "method"])["standard_error"]
    assert (wider > 1.1 * before).all()
