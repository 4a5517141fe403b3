"""How often tests between methods are wrong, and what they find: `make bench-comparisons`.

Samples are simulated: what is hard for all methods, and each method's own part: normal, skewed to a
side of its own, or normal and up to nine times as wide as another's. Either all methods are equal,
or half of them, and the others are better by up to four standard errors of a difference. Every pair
is tested by sign flips, and corrected by Holm over all pairs, by step-down max-T of studentised
differences over all pairs, of differences as they are, or of these over the pairs with the control
apart from the others, which is what the benchmark does. Prints a table in Markdown and writes
results/bench/comparisons.json with its rows: the share of repetitions in which a pair of equal
methods is told apart (per family 5 % at most is meant), and the share of different pairs that are.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pandas as pd
from statsmodels.stats.multitest import multipletests

from measuring import bench_parser, report_tables
from pisoft.progress import progress
from pisoft.statistics.estimates import sign_flip_tests
from pisoft.workflow.commandline import run

LEVEL = 0.05
FLIPS = 10_000
MANY = 500  # samples, from which on a setting takes minutes
FARTHEST = 4.0  # standard errors of a difference
SHAPES = ("normal", "skewed", "unequal")
PROCEDURES = ("Holm", "max-T, studentised", "max-T", "max-T, control apart")


def main(arguments: argparse.Namespace) -> None:
    """Simulate, print and write the table."""
    settings = [
        (shape, samples, methods)
        for shape in SHAPES
        for samples in arguments.samples
        for methods in arguments.methods
    ]
    rows = []
    for place, (shape, samples, methods) in enumerate(
        progress(settings, len(settings), "simulating", "settings")
    ):
        generator = np.random.default_rng(place)
        repetitions = arguments.repetitions if samples < MANY else arguments.repetitions // 5
        cell = {"shape": shape, "n": samples, "methods": methods, "repetitions": repetitions}
        found = pd.DataFrame(
            row
            for number in range(repetitions)
            for row in repetition(generator, shape, samples, methods, number)
        )
        means = found.groupby("procedure", sort=False).mean()
        rows += [{**cell, "procedure": name, **means.loc[name]} for name in PROCEDURES]
    report_tables({"rows": rows}, arguments.output)


def repetition(
    generator: np.random.Generator, shape: str, samples: int, methods: int, number: int
) -> Iterator[dict[str, object]]:
    """Yield what each procedure finds among equal methods, and among better ones beside them."""
    values = simulated(generator, shape, samples, methods)
    better = np.maximum(np.arange(methods) - methods // 2, 0) / (methods - 1 - methods // 2)
    better = better * FARTHEST * np.sqrt(2 / samples)
    pairs = list(combinations(range(methods), 2))
    control = np.array([0 in pair for pair in pairs])
    one_family = np.zeros(len(pairs))
    one, other = np.transpose(pairs)
    differs = better[one] != better[other]
    found = {}
    for case, given in {"equal": values, "better": values + better}.items():
        parts = given[:, one] - given[:, other]
        key = (number, case)
        together = sign_flip_tests(parts, one_family, FLIPS, key)
        holm = multipletests(together["p_value"], method="holm")[1]
        unit = parts / np.sqrt((parts**2).sum(axis=0))
        studentised = sign_flip_tests(unit, one_family, FLIPS, key)["p_adjusted"]
        apart = sign_flip_tests(parts, control, FLIPS, key)["p_adjusted"]
        tests = (holm, studentised, together["p_adjusted"], apart)
        found[case] = [np.asarray(p_values) < LEVEL for p_values in tests]
    for name, none, some in zip(PROCEDURES, found["equal"], found["better"], strict=True):
        yield {
            "procedure": name,
            "wrong, all equal": none.any(),
            "wrong, half equal": some[~differs].any(),
            "found": some[differs].mean(),
            "found, with control": some[differs & control].mean(),
        }


def simulated(generator: np.random.Generator, shape: str, samples: int, methods: int) -> np.ndarray:
    """Return values of equally good methods, (samples, methods)."""
    shared = generator.normal(size=(samples, 1))
    if shape != "skewed":
        widths = generator.permutation(np.linspace(0.2, 1.8, methods)) if shape == "unequal" else 1
        return shared + widths * generator.normal(size=(samples, methods))
    sides = 1 - 2 * (np.arange(methods) % 2)  # a difference of equal shapes would not be skewed
    return shared + sides * (generator.exponential(size=(samples, methods)) - 1)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = bench_parser(__doc__, "comparisons")
    parser.add_argument("--methods", type=int, nargs="+", default=[9, 14, 30], help="numbers")
    parser.add_argument("--samples", type=int, nargs="+", default=[12, 80, 2000], help="numbers")
    parser.add_argument(
        "--repetitions",
        type=int,
        default=200,
        help="of every setting, a fifth of it from 500 samples",
    )
    return parser


if __name__ == "__main__":
    run(main, parser())
