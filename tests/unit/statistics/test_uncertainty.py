"""Ranks, comparisons, variance, coverage and noise of constructed samples, from their files."""

import numpy as np
import pytest
from pandas.testing import assert_frame_equal
from scipy.stats import rankdata

from helpers import explained_rows
from helpers.estimated_results import estimated
from helpers.result_rows import sample_rows
from helpers.sign_flips import step_down
from pisoft.seeds import keyed_generator
from pisoft.statistics.results import select

NC = "auc_pi_soft_nc"


def rows_of(values, dataset="sst2", metric=NC):
    return sample_rows(values, metric, dataset, protocol="dynamic")


def samples_of(values, dataset="sst2"):
    """Rows of one metric with the columns common to all files."""
    zeros = {m: [None if v is None else 0.0 for v in column] for m, column in values.items()}
    return [
        *rows_of(values, dataset),
        *rows_of(zeros, dataset, "monte_carlo_nc"),
        *rows_of(zeros, dataset, "numerical"),
    ]


NAN = pytest.approx(np.nan, nan_ok=True)


def compared(results):
    return select(results.comparisons, metric=NC, dataset="sst2").set_index(["method", "other"])


def by_method(results, metric=NC, dataset="sst2"):
    return select(results.statistics, metric=metric, dataset=dataset).set_index("method")


@pytest.mark.parametrize("metric", ["auc_pi_soft_nc", "median_auc_pi_soft_nc"])
def test_resampled_ranks_are_stable_if_clear_and_shared_if_tied(metric):
    noise = np.random.default_rng(11).normal(0, 0.01, 30)
    order = {"low": 4, "high": 1.5, "equal": 1.5, "middle": 3}
    values = {name: list(noise - rank) for name, rank in order.items()}
    results = estimated(samples_of(values))
    rows = by_method(results, metric)
    assert rows["rank"].to_dict() == order
    assert (rows["best"] == "high").all()
    ranks = select(results.ranks, metric=metric, dataset="sst2")
    parts = {part: rows.set_index("method") for part, rows in ranks.groupby("part")}
    for column in ("value", "low", "high"):
        assert parts["rank"][column].to_dict() == order
    assert parts["mean_rank"]["value"].to_dict() == order
    best = {name: float(rank < 2) for name, rank in order.items()}
    assert parts["best_share"]["value"].to_dict() == best


def test_ranks_use_all_samples_and_their_intervals_use_resamples():
    values = np.random.default_rng(3).normal(np.arange(12) / 9, 1, (8, 12))
    results = estimated(samples_of(dict(zip("abcdefghijkl", values.T.tolist(), strict=True))))
    drawn = keyed_generator(1, "bootstrap", "sst2").integers(8, size=(200, 8))
    order, resampled = (rankdata(-of.mean(axis=-2), axis=-1) for of in (values, values[drawn]))
    assert by_method(results)["rank"].tolist() == order.tolist() != resampled[0].tolist()
    ends = np.quantile(resampled, [0.025, 0.975], axis=0, method="inverted_cdf")
    rows = select(results.ranks, metric=NC, dataset="sst2", part="rank")
    assert rows[["value", "low", "high"]].T.to_numpy().tolist() == [[*order], *ends.tolist()]


def test_ranks_of_a_single_sample_have_no_interval_and_no_share():
    two = estimated(samples_of({"a": [1.0, 1.5], "b": [2.0, 1.2]}))
    assert select(two.ranks, metric=NC, part="rank")["low"].notna().all()
    ranks = select(estimated(samples_of({"a": [1.0], "b": [2.0]})).ranks, metric=NC, dataset="sst2")
    rank_rows = select(ranks, part="rank").set_index("method")
    assert rank_rows["value"].to_dict() == {"a": 2, "b": 1}
    assert rank_rows[["low", "high"]].isna().all(axis=None)
    assert select(ranks, part=["mean_rank", "best_share"])["value"].isna().all()


def ranking_rows(values, samples):
    """Rows of `ranking_samples`; `values` = {method: the first one by the first metric}."""
    rows = []
    for part, metric in enumerate(("deletion_auc", "not_flipped", "rise"), start=1):
        methods = {
            m: [(value + n / 100) / part for n in range(samples)] for m, value in values.items()
        }
        rows += sample_rows(methods, metric, reason=None)
    return rows


def test_rise_is_lower_better_and_a_single_method_has_ranks():
    results = estimated(ranking_rows({"a": 0.1, "b": 0.9}, 8), "ranking_samples")
    rows, pair = results.statistics, select(results.comparisons, metric="rise", dataset="sst2")
    assert (rows["protocol"] == "").all()
    assert select(rows, metric="rise", method="b")["p_value"].notna().all()
    assert pair["value"].tolist() == [pytest.approx(-0.8 / 3)]
    assert set(select(rows, metric="rise")["best"]) == {"a"}
    assert set(select(rows, metric="deletion_auc")["best"]) == {"b"}
    assert set(rows.loc[rows["rank"].isna(), "metric"]) == {"not_flipped"}
    rows = estimated(ranking_rows({"a": 0.25}, 4), "ranking_samples").statistics
    values = select(rows, dataset="sst2")["value"].tolist()
    assert values == pytest.approx([0.265, 0.265 / 2, 0.265 / 3])
    assert set(rows["method"]) == {"a"}


def test_comparisons_with_the_control_are_a_separate_family():
    generator = np.random.default_rng(16)
    values = {f"m{k}": generator.normal(k / 5, 1, 10) for k in range(4)}
    values["random"] = generator.normal(0, 1, 10)
    rows = compared(estimated(samples_of({m: column.tolist() for m, column in values.items()})))
    control = rows.index.get_level_values("other") == "random"
    assert control.tolist().count(True) == 4
    for family in (rows[control], rows[~control]):
        parts = [(values[method] - values[other]) / 10 for method, other in family.index]
        assert family["value"].tolist() == pytest.approx([part.sum() for part in parts])
        flipped = family["p_sign_flip_adjusted"]
        assert flipped.tolist() == pytest.approx(step_down(np.stack(parts, axis=1)))


def test_only_common_samples_are_compared():
    a, b = [1.0, 2.0, None, 4.0, None], [0.5, None, 3.0, 1.0, None]
    rows = compared(estimated(samples_of({"a": a, "b": b, "c": [None, None, 1.0, None, 1.0]})))
    assert rows.loc[("a", "b"), ["value", "n", "p_smallest"]].tolist() == [1.75, 2, 0.5]
    assert ("a", "c") not in rows.index, "no common sample"
    results = estimated(samples_of({"a": [1.0, None], "b": [None, 2.0]}))
    assert results.comparisons.empty
    assert results.statistics["p_value"].isna().all()


def test_ratios_of_means_are_compared_with_their_denominators():
    top = {"a": [0.1, 0.4, None, 0.3], "b": [0.2, 0.5, 0.1, 0.1]}
    bottom = {method: [0.2, 0.9, 0.7, 0.5] for method in top}
    metric = "ratio_auc_pi_soft_nc"
    results = estimated(rows_of(top, metric="auc_numerator_nc") + rows_of(bottom, metric="h0"))
    numbers = by_method(results, metric).loc["a", ["value", "n", "n_failed"]].tolist()
    assert numbers == pytest.approx([0.8 / 1.6, 3, 1])
    pair = select(results.comparisons, metric=metric, dataset="sst2").iloc[0]
    assert pair["value"] == pytest.approx((-0.1 - 0.1 + 0.2) / 1.6)


def test_fewer_changed_tokens_agree_with_larger_areas():
    level = {"a": 1.0, "b": 2.0, "c": 3.0}
    changed = {name: [4 - value, 4.1 - value] for name, value in level.items()}
    rows = {
        "soft_samples": samples_of({name: [value, value] for name, value in level.items()}),
        "ranking_samples": sample_rows(changed, "tokens_changed", reason=None),
    }
    taus = select(estimated(rows).ranks, part="kendall_tau")
    by_dataset = taus.set_index("dataset")[["metric", "other", "value", "n"]].to_dict("index")
    row = {"metric": "tokens_changed", "other": NC, "value": 1, "n": 2}
    assert by_dataset == {"sst2": row, "average": row}


def test_with_few_pi_per_step_samples_have_no_medians():
    rows = samples_of({"a": [1.0, 2.0], "b": [0.5, 1.0]})
    every, some = (
        set(estimated(rows, pi_per_step=number).statistics["metric"]) for number in (None, 2)
    )
    assert every - some == {"median_auc_pi_soft_nc"}


@pytest.mark.parametrize("lacking", [{}, {"some": [None]}])
def test_excluding_a_dataset_changes_ranks_of_common_methods(lacking):
    rows = samples_of({"a": [1.0], "b": [2.0], "some": [9.0]})
    rows += samples_of({"a": [4.0], "b": [2.0], **lacking}, "imdb")
    ranks = select(estimated(rows).ranks, metric=NC, part="without")
    assert ranks["other"].tolist() == ["", "", "sst2", "sst2", "imdb", "imdb"]
    assert ranks["method"].tolist() == ["a", "b"] * 3
    assert ranks["value"].tolist() == [2.5, 2, 4, 2, 1, 2]
    assert ranks["rank"].tolist() == [1, 2, 1, 2, 2, 1]


def test_variances_add_up_to_the_total():
    generator = np.random.default_rng(18)
    scales = {"auc_pi_soft_ns_unclamped": 1, NC: 1, "monte_carlo_ns": 0.01}
    scales |= {"monte_carlo_nc": 0.02, "numerical": 0.003}
    values = {metric: generator.random(30) * scale for metric, scale in scales.items()}
    rows = [row for metric in values for row in rows_of({"a": values[metric]}, metric=metric)]
    components = estimated(rows).variance_components
    table = components.pivot(index="metric", columns="part", values="value")
    parts = table[["between_samples", "monte_carlo", "numerical"]].sum(axis=1)
    assert parts.to_numpy() == pytest.approx(table["total"].to_numpy())
    total = np.var(values["auc_pi_soft_ns_unclamped"], ddof=1)
    assert table.loc["auc_pi_soft_ns", "total"] == pytest.approx(total)
    assert table.loc[NC, "monte_carlo"] == pytest.approx(np.mean(values["monte_carlo_nc"]))
    assert table.loc[NC, "numerical"] == pytest.approx(np.mean(np.square(values["numerical"])))
    rows = rows_of({"a": [0.5, None]}) + samples_of({"b": [0.1]})
    components = estimated(rows).variance_components
    assert components["value"].isna().all(), "of a single sample"
    assert components["n"].tolist() == [1] * 8


def test_coverage_counts_samples_by_status_and_explains_empty_datasets():
    values = {"a": [1.0, None, None], "b": [1.0, 2.0, 3.0]}
    rows = rows_of(values, metric="identity") + samples_of(values)
    counts = estimated(rows).coverage.set_index(["method", "part"])["value"].to_dict()
    assert counts == {("a", "ok"): 1, ("a", "nonfinite_attribution"): 2, ("b", "ok"): 3}
    row = ranking_rows({"a": 0.5}, 1)[0]
    why = {"dataset": "wikibio", "status": "not_applicable", "reason": "it has no labels"}
    rows = estimated([row, row | why | {"sample_id": None, "value": None}], "ranking_samples")
    texts = rows.coverage.set_index(["protocol", "dataset", "part"])["text"].to_dict()
    assert texts == {("", "sst2", "ok"): "", ("", "wikibio", "not_applicable"): why["reason"]}


def test_noise_is_the_mean_and_maximum_over_samples_with_noise():
    rows = rows_of({"a": [0.01, -0.03, None], "b": [None] * 3}, metric="noise_h0")
    (row,) = estimated(rows + samples_of({"a": [1.0] * 3})).noise.itertuples()
    assert (row.metric, row.dataset, row.method, row.n) == ("noise_h0", "", "", 2)
    assert (row.value, row.high) == pytest.approx((0.02, 0.03))


def test_averages_use_the_datasets_of_each_model():
    """Results of a model do not depend on other models."""
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
            model_rows = select(getattr(together, question), model=model).reset_index(drop=True)
            assert len(model_rows)
            assert_frame_equal(model_rows, getattr(alone, question).reset_index(drop=True))
    columns = ["value", "p_adjusted"]
    on_imdb, average = (by_method(alone, dataset=name)[columns] for name in ("imdb", "average"))
    assert_frame_equal(on_imdb, average, check_exact=True)


def test_comparisons_with_the_best_add_equivalence_and_power():
    generator, levels = np.random.default_rng(22), {"a": 0.5, "b": 0.45}
    rows = samples_of({m: generator.normal(v, 0.1, 60).tolist() for m, v in levels.items()})
    results = estimated(rows, equivalence_margin=0.1)
    pairs, table = compared(results), by_method(results)
    for column in ("p_equivalence", "detectable"):
        assert 0 < table.loc["b", column] == pairs.loc[("a", "b"), column] < 0.1
        assert np.isnan(table.loc["a", column])
    assert estimated(rows).comparisons["p_equivalence"].isna().all()


def test_clusters_are_counted_beside_n_and_widen_intervals():
    values = {name: np.repeat([k, k + 0.3, k - 0.4, k + 0.1], 3) for k, name in enumerate("ab")}
    clusters = [f"c{k // 3}" if k < 9 else None for k in range(12)]  # the others by themselves
    records = [explained_rows.record(f"s{k}", cluster=name) for k, name in enumerate(clusters)]
    alone, clustered = (estimated(samples_of(values), records=given) for given in ([], records))
    for question in ("statistics", "comparisons", "ranks"):
        rows = select(getattr(clustered, question), dataset="sst2")
        assert (rows["n"] == 12).all()
        assert question == "ranks" or (rows["n_clusters"] == 3 + 3).all()
    before, wider = (by_method(results)["standard_error"] for results in (alone, clustered))
    assert (wider > 1.1 * before).all()
