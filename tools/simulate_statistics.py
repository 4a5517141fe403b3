"""Simulate the tests between methods and the intervals: `make simulation` (an hour).

Writes the tables between the markers of docs/explanation/which-test.md: each procedure's false
positive rate, its power, and the coverage of intervals. The tables decide which test and which
interval `pisoft.statistics` uses; the simulation runs its code.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri, stdtrit
from scipy.stats import skew, ttest_1samp

from configuration_reference import markdown_table
from pisoft.config.jobs.summaries import ResamplingJob
from pisoft.statistics.estimates import Estimates, estimate
from pisoft.statistics.mean_tests import bootstrap_tests, holm, sign_flip_tests
from pisoft.statistics.metrics import LEVEL
from pisoft.statistics.samples import Samples
from pisoft.workflow.commandline import run

PAGE = Path("docs/explanation/which-test.md")
BEGIN, END = (f"<!-- written by `make simulation`: {which} -->" for which in ("begin", "end"))
SIZES = (12, 18, 32, 90, 400, 2000)
# Numbers of samples and of methods; both at their largest would take too long.
CELLS = [(n, methods) for methods in (9, 14, 30) for n in SIZES if (n, methods) != (2000, 30)]
RESAMPLES = 399  # per test, also sign flips
FARTHEST = 4.0  # largest shift, in standard errors of a method's mean, times √2
SAMPLES = (12, 18, 32, 90, 400)  # per interval
AT_ONCE = 100  # intervals that share their resamples

# Tests ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """Distribution of equally good methods within a sample: gamma with mean 0.

    Widths and skewness form geometric series from the narrowest method to the widest.

    Attributes:
        width: standard deviation of the narrowest, relative to the widest.
        skewness: of the narrowest and of the widest method.
        sides: whether methods are skewed to both sides; if not, and with equal widths and
            skewness, they are exchangeable.
    """

    width: float
    skewness: tuple[float, float]
    sides: bool

    def widths(self, methods: int) -> np.ndarray:
        """Return the standard deviations of methods."""
        return np.geomspace(self.width, 1, methods)

    def draw(self, generator: np.random.Generator, samples: int, methods: int) -> np.ndarray:
        """Return values of methods with mean 0, (samples, methods)."""
        shape = 4 / np.geomspace(*self.skewness, methods) ** 2
        drawn = (generator.gamma(shape, size=(samples, methods)) - shape) / np.sqrt(shape)
        sides = 1 - 2 * (np.arange(methods) // 2 % 2) if self.sides else 1
        return drawn * self.widths(methods) * sides


# Real differences have standard deviations that span a factor of 8 to 14 (95 % over 5 % quantile),
# and skewness up to ±3, mostly the narrow ones. `skewed` matches them: 13 to 9, and 1.9 to 2.9
# (95 % quantile), for 14 methods and n = 12 to 400.
SHAPES = {
    "exchangeable": Shape(1.0, (1.5, 1.5), sides=False),
    "skewed": Shape(0.05, (10.0, 0.3), sides=True),
}
USED = "bootstrap-t, shrunk (used)"
Test = Callable[[np.ndarray, np.ndarray, ResamplingJob], np.ndarray]


def _bootstrap(
    parts: np.ndarray, families: np.ndarray, settings: ResamplingJob, **shrinkage: float
) -> np.ndarray:
    deviations = {"simulated": parts - parts.mean(axis=0)}
    tests = bootstrap_tests(parts, deviations, families, settings, **shrinkage)
    return tests["p_adjusted"].to_numpy()


def _max_t(parts: np.ndarray, families: np.ndarray, settings: ResamplingJob) -> np.ndarray:
    tests = sign_flip_tests(parts, families, settings.resamples, (settings.seed,))
    return tests["p_sign_flip_adjusted"].to_numpy()


def _student(parts: np.ndarray, families: np.ndarray, settings: ResamplingJob) -> np.ndarray:
    return holm(ttest_1samp(parts, 0).pvalue, families)


TESTS: dict[str, Test] = {
    "Student's t, Holm": _student,
    "max-T by sign flips": _max_t,
    "bootstrap-t": partial(_bootstrap, shrinkage=0.0),
    USED: _bootstrap,
}


def simulated_tests(
    shape: Shape, n: int, methods: int, repetitions: int
) -> Iterator[dict[str, object]]:
    """Yield the error rates of each test, and the share of true differences that it finds.

    All pairs of methods are a family. In the first family all methods are equal; in the second,
    every other method is better, by up to :data:`FARTHEST`.
    """
    one, other = np.triu_indices(methods, 1)
    better = FARTHEST * np.linspace(0, 1, methods + 1)[1:] * shape.widths(methods) * np.sqrt(2 / n)
    better[::-2] = 0
    is_equal, families = better[one] == better[other], np.repeat([0, 1], one.size)
    generator, counts = np.random.default_rng([n, methods]), dict.fromkeys(TESTS, np.zeros(3))
    for repetition in range(repetitions):
        cases = [shape.draw(generator, n, methods) + added for added in (0, better)]
        parts = np.concatenate([values[:, one] - values[:, other] for values in cases], axis=1) / n
        settings = ResamplingJob(seed=repetition, resamples=RESAMPLES)
        for name, test in TESTS.items():
            null, unequal = np.split(test(parts, families, settings) <= LEVEL, 2)
            power = unequal[~is_equal].mean()
            counts[name] = counts[name] + [null.any(), unequal[is_equal].any(), power]
    for name, count in counts.items():
        yield {"n": n, "methods": methods, "test": name, "shares": count / repetitions}


# Intervals --------------------------------------------------------------------------------------

Size = tuple[int, int]
Drawn = tuple[np.ndarray, np.ndarray, float]
Population = Callable[[np.random.Generator, Size], Drawn]


def _gamma(skewness: float) -> Population:
    shape = 4 / skewness**2
    return lambda generator, size: (generator.gamma(shape, 1 / shape, size), np.ones(size), 1.0)


def _log_normal(generator: np.random.Generator, size: Size) -> Drawn:
    return generator.lognormal(0, 1, size), np.ones(size), np.exp(0.5)


def _ratio(generator: np.random.Generator, size: Size) -> Drawn:
    baseline = generator.beta(2, 3, size)
    return baseline * generator.lognormal(0, 0.5, size), baseline, np.exp(0.125)


def _independent(generator: np.random.Generator, size: Size) -> Drawn:
    return generator.gamma(1, size=size), generator.lognormal(0, 0.8, size), np.exp(-0.32)


# Numerators and denominators of samples, and the true ratio of their sums. Values divided by H₀ in
# `make demo` have a median skewness near 1 (original metrics) and 2 (π-Soft-NC with fixed routing,
# up to 3.3) at n = 16, where a gamma distribution of skewness 2 has 1.4, and one of 4 has 2.4.
POPULATIONS: dict[str, Population] = {
    "mean, skewness 0.5": _gamma(0.5),
    "mean, skewness 2": _gamma(2.0),
    "mean, skewness 4": _gamma(4.0),
    "mean, log-normal": _log_normal,
    "ratio of sums": _ratio,
    "ratio of sums, independent": _independent,
}
INTERVALS = ("percentile", "BCa", "bootstrap-t", "Hall's t (used)")


def intervals(
    samples: Samples, estimates: Estimates, generator: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the ends of each of :data:`INTERVALS`; the first and the last are the package's."""
    percentile = Estimates(estimates.replicates, estimates.counts).table()
    yield percentile["low"].to_numpy(), percentile["high"].to_numpy()
    values, resampled = np.split(estimates.replicates.to_numpy(), [1])
    n, columns = len(samples.numerators), np.arange(values.size)
    reach = np.sqrt(n / (n - 1)) * stdtrit(n - 1, 1 - LEVEL / 2)
    bias = ndtri((resampled < values).mean(axis=0).clip(1 / len(resampled), 1 - 1 / len(resampled)))
    acceleration = skew(samples.deviations.to_numpy()) / np.sqrt(n) / 6
    shifted = bias + np.array([[-reach], [reach]])
    tails = ndtr(bias + shifted / (1 - acceleration * shifted))
    places = (tails * len(resampled)).astype(int).clip(0, len(resampled) - 1)
    yield tuple(np.sort(resampled, axis=0)[places, columns])
    error = np.sqrt((samples.deviations.to_numpy() ** 2).sum(axis=0))
    yield tuple(values[0] - error * _t_quantiles(samples, generator))
    hall = estimates.table()
    yield hall["low"].to_numpy(), hall["high"].to_numpy()


def _t_quantiles(samples: Samples, generator: np.random.Generator) -> np.ndarray:
    """Return the upper and lower quantile of studentised resampled ratios, (2, C)."""
    top, bottom = samples.numerators.to_numpy(), samples.denominators.to_numpy()
    n, total = len(top), bottom.sum(axis=0)
    counts = generator.multinomial(n, np.full(n, 1 / n), RESAMPLES).astype(float)
    values = counts @ top / (counts @ bottom)
    squares = counts @ top**2 - 2 * values * (counts @ (top * bottom))
    squares += values**2 * (counts @ bottom**2)
    errors = np.sqrt(np.maximum(squares, 1e-24)) / (counts @ bottom)
    t = (values - top.sum(axis=0) / total) / errors
    return np.quantile(t, [1 - LEVEL / 2, LEVEL / 2], axis=0)


def coverage(repetitions: int) -> pd.DataFrame:
    """Return whether each interval covers the truth, by repetition."""
    frames = []
    for (label, draw), n in product(POPULATIONS.items(), SAMPLES):
        generator = np.random.default_rng([n, list(POPULATIONS).index(label)])
        for batch in range(repetitions // AT_ONCE):
            top, bottom, truth = draw(generator, (n, AT_ONCE))
            columns = pd.MultiIndex.from_product([["m"], range(AT_ONCE)], names=["metric", "k"])
            frame = pd.DataFrame(top, columns=columns)
            samples = Samples(frame, pd.DataFrame(bottom, columns=columns), frame.isna().sum())
            estimates = estimate({"d": samples}, ResamplingJob(seed=batch, resamples=999))["d"]
            ends = intervals(samples, estimates, generator)
            covers = [(low <= truth) & (truth <= high) for low, high in ends]
            cell = dict(zip(INTERVALS, covers, strict=True)) | {"population": label, "n": n}
            frames.append(pd.DataFrame(cell))
    return pd.concat(frames, ignore_index=True)


# Page -------------------------------------------------------------------------------------------


def percent(share: float) -> str:
    """Return a share in percent, with a decimal if it is small."""
    return f"{100 * share:.1f}" if share < 0.0995 or share > 0.7 else f"{100 * share:.0f}"


def page_text(tests: Iterable[tuple[str, pd.DataFrame]], covers: pd.DataFrame, count: int) -> str:
    """Return the text between the markers."""
    error = 100 * np.sqrt(LEVEL * (1 - LEVEL) / count)
    parts = [
        f"{count:,} repetitions of each row, {RESAMPLES} resamples or sign flips in each. In "
        "percent: families with a false difference where all methods are equal · those with one "
        f"where every other method is better, by up to {FARTHEST:g} standard errors of a "
        "difference · share of the true differences that are found. The first two should be 5 at "
        f"most; Monte Carlo error ±{error:.1f}.\n"
    ]
    for shape, rows in tests:
        lines = [
            (f"{n}", f"{methods}", *(" · ".join(map(percent, test)) for test in cell["shares"]))
            for (n, methods), cell in rows.groupby(["n", "methods"], sort=False)
        ]
        parts += [f"**{shape.capitalize()}**\n", markdown_table(("n", "methods", *TESTS), lines)]
    names = list(INTERVALS)
    means = covers.groupby(["population", "n"], sort=False)[names].mean()
    lines = [
        (*map(str, key), *map(percent, row))
        for key, row in zip(means.index, means.to_numpy(), strict=True)
    ]
    parts += [
        "### Coverage\n",
        f"Coverage of 95 % intervals in percent; {count:,} repetitions of each row, 999 resamples "
        f"({RESAMPLES} for bootstrap-t).\n",
        markdown_table(("population", "n", *names), lines),
    ]
    return "\n".join(parts)


def main(arguments: argparse.Namespace) -> None:
    """Simulate and write the page."""
    count = arguments.repetitions
    tests = []
    for name, shape in SHAPES.items():
        rows: list[dict[str, object]] = []
        for n, methods in arguments.cells:
            rows += simulated_tests(shape, n, methods, count)
            print(name, n, methods, file=sys.stderr, flush=True)
        tests.append((name, pd.DataFrame(rows)))
    text = page_text(tests, coverage(count), count)
    head, _, rest = arguments.page.read_text(encoding="utf-8").partition(BEGIN)
    tail = rest.partition(END)[2]
    arguments.page.write_text(f"{head}{BEGIN}\n\n{text}\n{END}{tail}", encoding="utf-8")


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repetitions", type=int, default=2000, help=f"multiple of {AT_ONCE}")
    parser.add_argument("--page", type=Path, default=PAGE, help="page with the markers")
    parser.set_defaults(cells=CELLS)
    return parser


if __name__ == "__main__":
    run(main, parser())
