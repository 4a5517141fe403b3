"""Joining the shards of a cell."""

import pytest

from explained import attribution
from pisoft.contracts import write_rows
from pisoft.errors import BenchmarkError
from pisoft.shards import joined


def shard(folder, name, *samples, **facts):
    path = folder / f"{name}.parquet"
    write_rows(path, "attributions", [attribution(sample, [1.0]) for sample in samples], facts)
    return path


def test_shards_are_joined_in_their_order_and_facts_are_those_of_all(tmp_path):
    facts = {"device": "H100", "settings": {"seed": 1}, "packages": {"torch": "2", "numpy": "2"}}
    second = {**facts, "device": "A100", "packages": {"torch": "3", "numpy": "2"}}
    shards = [
        shard(tmp_path, "b", "b", "a", **facts, forwards=5, peak_device_memory_mb=None),
        shard(tmp_path, "none", **facts, forwards=0, peak_device_memory_mb=7.5),
        shard(tmp_path, "c", "c", **second, forwards=2, token_budget_used=64),
    ]
    table, found = joined(shards, "attributions")
    assert table.column("sample_id").to_pylist() == ["b", "a", "c"]
    assert found == {
        "device": "H100, A100",
        "packages": {"torch": "2, 3", "numpy": "2"},
        "forwards": 7,
        "peak_device_memory_mb": 7.5,
        "token_budget_used": 64,
    }


def test_a_sample_in_two_shards_is_refused(tmp_path):
    shards = [shard(tmp_path, "one", "a", "b"), shard(tmp_path, "two", "b")]
    with pytest.raises(BenchmarkError, match=r"two\.parquet: sample 'b' is in .*one\.parquet, too"):
        joined(shards, "attributions")
