"""Orders of controls, the oracle's scale and gains over twins, against counts made by hand."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau

import rooms
from pisoft.config.slices import DiagnosisSlice, ResamplingSlice
from pisoft.contracts import read_rows, write_rows
from pisoft.statistics.controls import control_values
from pisoft.statistics.metric_validation import PAIRS, RESAMPLES, diagnosis
from pisoft.statistics.normalised_scores import oracle_scale
from pisoft.statistics.reading import Files
from pisoft.statistics.soft_files import Cell
from summarising import GRID, STATISTICS, soft_rows, write_soft
from typesetting import needs_latex, typeset

LADDER = ("oracle", "oracle-noise-0.5", "oracle-noise-2")
SETTINGS = DiagnosisSlice(ladder=LADDER, middle=LADDER[1], seed=1)
NAMES = (*LADDER, "random", "anti-oracle", "position", "uniform", "first-token")


def values_of(n=40, seed=1, apart=2):
    """Controls that are better by steps, with noise that makes samples disagree."""
    generator = np.random.default_rng(seed)
    steps = np.linspace(apart, 0, len(NAMES))
    noisy = steps + generator.normal(size=(n, len(NAMES)))
    return pd.DataFrame(np.round(noisy, 1), columns=list(NAMES))


def by_statistic(values, **changes):
    rows = list(diagnosis(values, SETTINGS.model_copy(update=changes), ("cell",)))
    return {(row["statistic"], row["method"]): row for row in rows}


def test_shares_are_counts_with_ties_as_a_half():
    values = values_of()
    found = by_statistic(values)
    named = {**values, "noisy": values["oracle-noise-0.5"]}
    for better, worse in PAIRS:
        pairs = list(zip(named[better], named[worse], strict=True))
        wins = sum(a > b for a, b in pairs) + sum(a == b for a, b in pairs) / 2
        row = found[f"{better}_over_{worse}", None]
        assert row["value"] == wins / 40
        assert (row["n"], row["n_failed"]) == (40, 0)
        p, z = wins / 40, 1.959963984540054
        middle = (p + z**2 / 80) / (1 + z**2 / 40)  # Wilson, 1927
        half = z / (1 + z**2 / 40) * np.sqrt(p * (1 - p) / 40 + z**2 / (4 * 40**2))
        assert (row["low"], row["high"]) == pytest.approx((middle - half, middle + half))


def test_the_ladder_is_kendalls_tau_of_every_sample():
    values = values_of() + np.arange(len(NAMES)) * 1e-6  # no ties, where τ-a and τ-b are the same
    expected = [kendalltau([2, 1, 0], row).statistic for row in values[list(LADDER)].to_numpy()]
    assert by_statistic(values)["ladder", None]["value"] == pytest.approx(np.mean(expected))


def test_means_in_order_and_samples_needed():
    values = values_of(n=30, apart=6)
    found = by_statistic(values)
    generator = np.random.default_rng(7)
    chain = values[["oracle", "oracle-noise-0.5", "random", "anti-oracle"]].to_numpy()

    def share(n):
        drawn = chain[generator.integers(30, size=(20_000, n))].mean(axis=1)
        return (np.diff(drawn, axis=1) < 0).all(axis=1).mean()

    error = 4.5 * np.sqrt(0.25 / RESAMPLES)
    assert found["means_in_order", None]["value"] == pytest.approx(share(30), abs=error)
    needed = int(found["samples_needed", None]["value"])
    assert needed > 1
    assert share(needed) > 0.95 - error
    assert share(needed - 1) < 0.95 + error


def test_exact_orders_need_one_sample_and_the_reverse_is_never_reached():
    exact = pd.DataFrame([np.arange(len(NAMES), 0, -1)] * 5, columns=list(NAMES))
    found = by_statistic(exact)
    assert found["samples_needed", None]["value"] == 1
    assert found["ladder", None]["value"] == 1
    assert found["oracle_over_random", None]["value"] == 1
    reverse = by_statistic(-exact)
    assert np.isnan(reverse["samples_needed", None]["value"])
    assert reverse["ladder", None]["value"] == -1
    assert reverse["oracle_over_random", None]["value"] == 0
    assert found["mean", "oracle"]["value"] == len(NAMES)


def test_samples_that_failed_for_a_control_are_counted_and_left_out():
    values = values_of(n=6)
    values.loc[2, "random"] = np.nan
    row = by_statistic(values)["oracle_over_noisy", None]
    assert (row["n"], row["n_failed"]) == (5, 1)


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_samples_have_no_interval_and_none_no_value(n):
    found = by_statistic(values_of(n=n))
    assert np.isnan(found["mean", "oracle"]["low"])
    assert np.isnan(found["means_in_order", None]["value"]) == (n == 0)
    assert found["ladder", None]["n"] == n


def scaled(values, end="oracle"):
    """The oracle's scale of one cell, by method."""
    rows = oracle_scale({("dynamic", "llama", "m", end): values}, 1, "sst2", 200)
    return rows.set_index("method")


def test_the_oracles_scale_is_a_ratio_of_mean_differences_on_common_samples():
    generator = np.random.default_rng(3)
    random, oracle = generator.normal(0, 0.1, 50), generator.normal(1, 0.1, 50)
    values = pd.DataFrame({
        "random": random, "oracle": oracle, "half": (random + oracle) / 2, "same": random,
        "mine": oracle + generator.normal(0, 0.2, 50),
    })  # fmt: skip
    values.loc[:2, "mine"] = np.nan
    found = scaled(values)
    for method, share in (("half", 0.5), ("same", 0.0)):
        numbers = found.loc[method, ["value", "low", "high"]].tolist()
        assert numbers == pytest.approx([share] * 3, abs=1e-12), "each sample has the same share"
    mine, common = found.loc["mine"], values.dropna()
    differences = common.sub(common["random"], axis="index").mean()
    assert mine["value"] == pytest.approx(differences["mine"] / differences["oracle"])
    assert mine["low"] < mine["value"] < mine["high"]
    assert mine[["n", "n_failed"]].tolist() == [47, 3]


def test_the_best_of_random_masks_is_another_end_and_changes_no_number_of_the_oracles():
    generator = np.random.default_rng(3)
    names = ["random", "oracle", "search", "mine"]
    values = pd.DataFrame(generator.normal([0, 1, 2, 1], 0.1, (50, 4)), columns=names)
    found, mean = scaled(values, "search"), values.mean()
    assert set(found.index) == {"oracle", "mine"}
    for method, value in found["value"].items():
        share = (mean[method] - mean["random"]) / (mean["search"] - mean["random"])
        assert value == pytest.approx(share)
    without = scaled(values.drop(columns="search"))
    pd.testing.assert_frame_equal(without, scaled(values).drop(index="search"))


@pytest.mark.filterwarnings("error")
def test_without_an_oracle_that_is_better_there_is_no_scale():
    generator = np.random.default_rng(3)
    values = pd.DataFrame(generator.normal(size=(8, 3)), columns=["random", "oracle", "mine"])
    for changed in (values, values.assign(oracle=values["random"]), values[:1], values[:0]):
        row = scaled(changed).loc["mine"]
        assert row[["value", "low", "high"]].isna().all()
        assert row["n"] == len(changed)


def written(folder, *methods):
    """Write the summaries of cells of random draws, and return their files."""
    kinds = ("soft_samples", "soft_curves", "soft_sample_curves")
    files = {kind: folder / f"{kind}.parquet" for kind in kinds}
    steps = {"a": 1, "b": 2, "c": 1}
    soft = [
        write_soft(folder, soft_rows(steps, seed=place), Cell("dynamic", "llama", name, "sst2"))
        for place, name in enumerate(methods)
    ]
    rooms.summarise("soft", STATISTICS, {"soft": soft}, files)
    return files


def ranked(folder):
    path = folder / "ranking_samples.parquet"
    cell = {"model": "llama", "dataset": "sst2", "status": "ok", "reason": None}
    rows = [
        {**cell, "method": name, "sample_id": sample, "metric": metric, "value": place / 20}
        for place, name in enumerate(NAMES)
        for sample in "ab"
        for metric in ("deletion_auc", "insertion_auc")
    ]
    for metric in ("deletion_auc", "insertion_auc"):
        reason = {"status": "not_applicable", "reason": "open", "sample_id": None, "value": None}
        rows.append({**cell, "dataset": "why", "method": "oracle", "metric": metric, **reason})
    write_rows(path, "ranking_samples", rows, {})
    return path


def test_every_metric_is_diagnosed_with_higher_as_better(tmp_path):
    files = written(tmp_path, *NAMES)
    lists = {kind: [path] for kind, path in files.items()}
    found = list(control_values(Files({**lists, "ranking_samples": [ranked(tmp_path)]})))
    cells = [(cell["protocol"], cell["metric"], cell["pi"]) for cell, _ in found]
    assert len(cells) == len(set(cells))
    assert {pi for _, metric, pi in cells if metric == "pi_soft_ns"} == set(GRID)
    assert (None, "deletion_auc", None) in cells
    assert "why" not in {cell["dataset"] for cell, _ in found}, "a dataset without ranked samples"
    by_metric = {cell["metric"]: values for cell, values in found if cell["pi"] is None}
    assert (by_metric["insertion_auc"] == -by_metric["deletion_auc"]).all(axis=None)


@needs_latex
def test_the_scripts_lead_from_draws_to_tables_and_figures(tmp_path):
    files = written(tmp_path, *NAMES)
    for name, settings in (
        ("metric_validation", SETTINGS), ("normalised_scores", ResamplingSlice(seed=1, resamples=100)),
    ):  # fmt: skip
        made = {name: tmp_path / f"{name}.parquet"}
        rooms.summarise(name, settings, files, made)
        assert read_rows(made[name], name)
        shown = {"models": {"llama": "Llama"}, "datasets": {"sst2": "SST2"},
                 "methods": {method: method.title() for method in NAMES}}  # fmt: skip
        tables = rooms.tabulate(name, shown, made, tmp_path, model="llama")
        typeset(tables["tex"])
    cell = {"protocol": "dynamic", "model": "llama", "dataset": "sst2"}
    files = {"metric_validation": tmp_path / "diagnosis.parquet"}
    rooms.plot("metric_validation", shown, files, tmp_path, **cell)


@needs_latex
@pytest.mark.parametrize("names", [NAMES, ("random", "mine")], ids=["evidence", "no evidence"])
def test_the_best_of_random_masks_has_a_block_that_says_of_how_many(tmp_path, names):
    files = written(tmp_path, *names)
    cell = Cell("dynamic", "llama", "search", "sst2")
    soft = write_soft(tmp_path, soft_rows({"a": 1, "b": 2, "c": 1}, seed=9), cell)
    searched = tmp_path / "search.parquet"
    rooms.summarise("search", STATISTICS, {"soft": soft}, {"soft_samples": searched})
    given = {**files, "soft_samples": [files["soft_samples"], searched]}
    made = {"normalised_scores": tmp_path / "oracle_scale.parquet"}
    rooms.summarise("normalised_scores", ResamplingSlice(seed=1, resamples=100), given, made)
    rows = pd.DataFrame(read_rows(made["normalised_scores"], "normalised_scores"))
    ends = {"search"} | ({"oracle"} if "oracle" in names else set())
    assert set(rows["end"]) == ends
    to_search = rows[rows["end"] == "search"]
    assert set(to_search["method"]) == set(names) - {"random"}
    assert set(to_search["metric"]) == {"auc_pi_soft_ns", "auc_pi_soft_nc"}
    assert (to_search["masks"] == 4).all()
    shown = {"models": {"llama": "Llama"}, "datasets": {"sst2": "SST2"},
             "methods": {method: method.title() for method in (*names, "search")}}  # fmt: skip
    tables = rooms.tabulate("normalised_scores", shown, made, tmp_path, model="llama")
    text = tables["html"].read_text(encoding="utf-8")
    assert "SST2, to the best of random masks" in text
    assert "best of at least 4 masks" in text
    assert ("SST2, to the oracle" in text) == ("oracle" in names)
    typeset(tables["tex"])


@needs_latex
def test_gains_over_twins_are_means_of_differences_over_samples(tmp_path):
    names = ("mine", "mine-permuted-1", "mine-permuted-2", "random")
    files = written(tmp_path, *names)
    settings = {
        "permutation_baseline": {names[1]: "mine", names[2]: "mine"},
        "seed": 1,
        "resamples": 100,
    }
    path = tmp_path / "twins.parquet"
    given = {"soft_samples": files["soft_samples"]}
    rooms.summarise("permutation_baseline", settings, given, {"permutation_baseline": path})
    samples = pd.DataFrame(read_rows(files["soft_samples"], "soft_samples"))
    rows = pd.DataFrame(read_rows(path, "permutation_baseline"))
    assert set(rows["method"]) == {"mine"}
    for metric, dataset in itertools.product(rows["metric"].unique(), ("sst2", "average")):
        wide = samples[samples["metric"] == metric].pivot(
            index="sample_id", columns="method", values="value"
        )
        chosen = rows[(rows["metric"] == metric) & (rows["dataset"] == dataset)]
        found = chosen.set_index("part")["value"]
        twin = wide[[*names[1:3]]].mean(axis=1)
        assert found["own"] == pytest.approx(wide["mine"].mean())
        assert found["twin"] == pytest.approx(twin.mean())
        assert found["gain"] == pytest.approx((wide["mine"] - twin).mean())
    gains = rows[rows["part"] == "gain"]
    assert gains["p_adjusted"].between(0.25, 1).all(), "of three samples"
    assert rows.loc[rows["part"] != "gain", "p_value"].isna().all()
    shown = {"models": {"llama": "Llama"}, "datasets": {"sst2": "SST2"}, "methods": {"mine": "M"}}
    made = rooms.tabulate("permutation_baseline", shown, {"permutation_baseline": path}, tmp_path, protocol="dynamic",
                          model="llama")  # fmt: skip
    assert "Gain, SST2" in made["html"].read_text(encoding="utf-8")
    typeset(made["tex"])
    rooms.plot(
        "permutation_baseline",
        shown,
        {"permutation_baseline": path},
        tmp_path,
        protocol="dynamic",
        model="llama",
    )


def test_a_sample_that_one_twin_failed_on_has_no_gain(tmp_path):
    names = ("mine", "mine-permuted-1", "mine-permuted-2")
    steps, failed = {"a": 1, "b": 1, "c": 1}, {("b", 0): "nonfinite_logits"}
    soft = [
        write_soft(
            tmp_path,
            soft_rows(steps, seed=place, status=failed if place == 2 else None),
            Cell("dynamic", "llama", name, "sst2"),
        )
        for place, name in enumerate(names)
    ]
    kinds = ("soft_samples", "soft_curves", "soft_sample_curves")
    files = {kind: tmp_path / f"{kind}.parquet" for kind in kinds}
    rooms.summarise("soft", STATISTICS, {"soft": soft}, files)
    settings = {
        "permutation_baseline": dict.fromkeys(names[1:], "mine"),
        "seed": 1,
        "resamples": 100,
    }
    path = tmp_path / "twins.parquet"
    rooms.summarise(
        "permutation_baseline",
        settings,
        {"soft_samples": files["soft_samples"]},
        {"permutation_baseline": path},
    )
    counts = pd.DataFrame(read_rows(path, "permutation_baseline"))[["n", "n_failed"]]
    assert (counts == [2, 1]).all(axis=None)
