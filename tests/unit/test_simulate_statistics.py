"""tools/simulate_statistics.py simulates the package's tests and intervals, and writes a page."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr, stdtrit
from scipy.stats import bootstrap

import pisoft.statistics.estimates as estimates
import simulate_statistics as simulation
from pisoft.config.jobs.summaries import ResamplingJob
from pisoft.statistics.estimates import estimate
from pisoft.statistics.mean_tests import bootstrap_tests
from pisoft.statistics.samples import Samples


def test_simulated_methods_are_as_uneven_and_skewed_as_real_ones():
    generator = np.random.default_rng(1)
    values = simulation.SHAPES["skewed"].draw(generator, 100_000, 14)
    assert values.mean(axis=0) == pytest.approx(np.zeros(14), abs=0.02)
    one, other = np.triu_indices(14, 1)
    pairs = values[:, one] - values[:, other]
    low, high = np.quantile(pairs.std(axis=0), [0.05, 0.95])
    assert 8 < high / low < 14
    exchangeable = simulation.SHAPES["exchangeable"].draw(generator, 100_000, 14)
    assert exchangeable.std(axis=0) == pytest.approx(np.ones(14), rel=0.02)


def test_shares_of_significance_come_from_the_packages_tests():
    few = list(simulation.simulated_tests(simulation.SHAPES["skewed"], 12, 14, 60))
    shares = {row["test"]: row["shares"] for row in few}
    assert set(shares) == set(simulation.TESTS)
    assert shares[simulation.USED][2] > shares["bootstrap-t"][2]
    assert shares[simulation.USED][0] < 0.15 < shares["Student's t, Holm"][0]
    parts = np.random.default_rng(2).normal(0.1, 1, (12, 6)) / 12
    settings = ResamplingJob(seed=3, resamples=100)
    p_values = simulation.TESTS[simulation.USED](parts, np.zeros(6), settings)
    deviations = {"simulated": parts - parts.mean(axis=0)}
    tests = bootstrap_tests(parts, deviations, np.zeros(6), settings)
    assert p_values.tolist() == tests["p_adjusted"].tolist()


def test_coverage_is_measured_on_the_packages_intervals(monkeypatch):
    monkeypatch.setattr(simulation, "SAMPLES", (12,))
    covers = simulation.coverage(100).groupby("population")[list(simulation.INTERVALS)].mean()
    assert covers.shape == (len(simulation.POPULATIONS), 4)
    assert (covers["Hall's t (used)"] > 0.85).all()
    monkeypatch.setattr(estimates, "adjusted_ends", lambda roots, reach: 0 * np.stack([reach] * 2))
    covers = simulation.coverage(100)
    assert not covers["Hall's t (used)"].any()
    assert covers["BCa"].mean() > 0.8


def test_bca_intervals_equal_scipys():
    values = np.random.default_rng(4).gamma(1, size=30)
    frame = pd.DataFrame(
        values, columns=pd.MultiIndex.from_tuples([("m", 0)], names=["metric", "k"])
    )
    samples = Samples.for_means(frame)
    settings = ResamplingJob(seed=1, resamples=20_000)
    made = estimate({"d": samples}, settings)["d"]
    _, (low, high), *_ = simulation.intervals(samples, made, np.random.default_rng(6))
    # SciPy uses normal quantiles; the level here compensates for n - 1.
    reach = np.sqrt(30 / 29) * stdtrit(29, 0.975)
    level = 1 - 2 * ndtr(-reach)
    options = {"confidence_level": level, "n_resamples": 20_000, "method": "BCa"}
    expected = bootstrap((values,), np.mean, **options, rng=np.random.default_rng(5))
    assert [low[0], high[0]] == pytest.approx(list(expected.confidence_interval), abs=0.02)


def test_the_page_keeps_text_outside_the_markers(tmp_path, monkeypatch):
    monkeypatch.setattr(simulation, "SAMPLES", (12,))
    page = tmp_path / "page.md"
    page.write_text(f"before\n{simulation.BEGIN}\nold\n{simulation.END}\nafter\n")
    arguments = simulation.parser().parse_args(["--repetitions", "100", "--page", str(page)])
    arguments.cells = [(12, 3)]
    simulation.main(arguments)
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{simulation.BEGIN}\n\n100 repetitions")
    assert text.endswith(f"{simulation.END}\nafter\n")
    assert "old" not in text
    assert text.count("\n| 12 | 3 |") == len(simulation.SHAPES)
    published = (simulation.Path(__file__).parents[2] / simulation.PAGE).read_text(encoding="utf-8")
    for n, methods in simulation.CELLS:
        assert published.count(f"\n| {n} | {methods} |") == len(simulation.SHAPES), (
            "make simulation"
        )
