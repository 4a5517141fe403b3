"""Shards: how a dataset is split into jobs."""

from pathlib import Path

import pytest

from pisoft.attribution import load_method
from pisoft.config.jobs.records import SampleJob
from pisoft.config.loading import load_config
from pisoft.config.shards import (
    dataset_of,
    enclosing_part,
    evaluation_parts,
    first_sample,
    parts,
    sample_limit,
    sample_range,
)
from pisoft.config.studies import Permuted
from pisoft.errors import BenchmarkError

CATALOGUE = Path(__file__).parents[3] / "config/catalogue"
SLOW = "integrated_gradients"  # its shards are halved


def run_of(shard_size, factor=1.0, evaluated=None, samples=None, **changes):
    """Return a run of a tiny model on a dataset with a given shard size."""
    raw = {
        "run": "parts", "models": ["small"], "datasets": ["pieces"], "block_size": 4,
        "masked_model": "roberta-base", "methods": ["random", SLOW],
        "catalogue": {
            "models": {"small": {"extends": "demo-llama", "shard_factor": factor,
                "source": {"kind": "trained", "architecture": "llama", "datasets": ["pieces"]}}},
            "datasets": {"pieces": {"extends": "demo-sentiment", "shard_size": shard_size,
                "evaluation_shard_size": evaluated, "samples": samples}},
        },
        **changes,
    }  # fmt: skip
    return load_config(raw, CATALOGUE, "run.yaml", load_method)


@pytest.mark.parametrize(
    ("size", "evaluated", "factor", "count", "expected", "smaller"),
    [
        (None, None, 1, 20, [None], [None]),
        (8, None, 1, 20, [(0, 8), (8, 16), (16, 20)], [(0, 8), (8, 16), (16, 20)]),
        (11, None, 1, 20, [(0, 8), (8, 16), (16, 20)], [(0, 8), (8, 16), (16, 20)]),  # blocks of 4
        (20, None, 1, 20, [(0, 20)], [(0, 20)]),
        (16, None, 0.5, 20, [(0, 16), (16, 20)], [(0, 8), (8, 16), (16, 20)]),
        (8, None, 0.01, 10, [(0, 8), (8, 10)], [(0, 4), (4, 8), (8, 10)]),  # at least one block
        (15, 8, 1, 20, [(0, 16), (16, 20)], [(0, 8), (8, 16), (16, 20)]),  # whole evaluations
        (8, 40, 4, 20, [(0, 8), (8, 16), (16, 20)], [(0, 8), (8, 16), (16, 20)]),
    ],
)
def test_shards_hold_whole_evaluation_shards_of_whole_blocks(
    size, evaluated, factor, count, expected, smaller
):
    config = run_of(size, factor, evaluated, max_samples=count)
    large, of_evaluation = (made(config, "small", "pieces") for made in (parts, evaluation_parts))
    assert [sample_range(part) for part in large] == expected
    assert [sample_range(part) for part in of_evaluation] == smaller
    assert {dataset_of(part) for part in large} == {"pieces"}
    halves = parts(config, "small", "pieces", SLOW)
    for part in of_evaluation:
        half, outer = (enclosing_part(config, "small", part, name) for name in (SLOW, "random"))
        assert half in halves
        assert outer in large
        assert enclosing_part(config, "small", half) == outer
        if sample_range(part):
            (a, f), (b, e), (c, d) = map(sample_range, (outer, half, part))
            assert a <= b <= c < d <= e <= f


def test_slow_methods_and_their_permutations_have_half_shards():
    """Half of 24 samples is rounded down to a whole evaluation of 8."""
    config = run_of(24, 1, 8, max_samples=20, metric_validation={})
    cuts = {
        name: list(map(sample_range, parts(config, "small", "pieces", name)))
        for name in (SLOW, "random", *config.sources(Permuted))
    }
    halves, whole = [(0, 8), (8, 16), (16, 20)], [(0, 20)]
    assert [*cuts.values()] == [halves, whole, whole, halves]
    assert [*config.sources(Permuted).values()] == [
        Permuted(method=name, number=1) for name in ("random", SLOW)
    ]


def test_more_samples_leave_full_shards_unchanged():
    few, many = run_of(8, max_samples=20), run_of(8, max_samples=40)
    full = parts(few, "small", "pieces")[:-1]
    assert full == parts(many, "small", "pieces")[: len(full)]
    for part in full:
        assert SampleJob.from_config(few, part=part) == SampleJob.from_config(many, part=part)
    assert SampleJob.from_config(few, part="pieces/16-20").samples == (16, 20)
    assert SampleJob.from_config(few, part="pieces").samples == 20


def test_the_sample_limit_is_the_smaller_of_dataset_and_run():
    for of_dataset, of_run in ((12, 20), (20, 12), (12, None), (None, 12)):
        config = run_of(8, samples=of_dataset, max_samples=of_run)
        assert sample_limit(config, "pieces") == 12


def test_the_number_of_shards_is_limited():
    config = run_of(8, max_samples=10_000_000)
    message = r"'pieces': shard_size: 8 samples of 10000000 are 1250000 shards .* allowed are 10000"
    with pytest.raises(BenchmarkError, match=message):
        parts(config, "small", "pieces")
    assert len(parts(run_of(4, max_samples=40_000), "small", "pieces")) == 10_000
    assert len(parts(run_of(10**18, 1e300, max_samples=20), "small", "pieces")) == 1


def test_a_shards_name_states_its_first_sample():
    assert [first_sample(part) for part in ("sst2", "sst2/0-64", "sst2/64-80")] == [0, 0, 64]
