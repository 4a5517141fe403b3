"""Joining the shards of a cell."""

import argparse

import pytest

import join_shards
from explained import attribution
from pisoft.config.slices.data import JoinSlice
from pisoft.contracts import check_inputs, identity, read_provenance, write_rows
from pisoft.errors import BenchmarkError
from pisoft.shards import joined, settings_of


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
        "settings_of_shards": {"seed": 1},
    }


def test_settings_are_those_that_all_shards_have(tmp_path):
    model = {"name": "m", "dtype": "float32"}
    shards = [
        shard(tmp_path, f"{place}", f"{place}", settings={"model": model, "first_place": place})
        for place in (0, 64)
    ]
    whole = tmp_path / "whole.parquet"
    join_shards.main(
        argparse.Namespace(
            settings=JoinSlice(parts=("x/0-64", "x/64-80")).to_json(), kind="attributions",
            files={"shards": shards}, output=whole,
        )
    )  # fmt: skip
    assert settings_of(read_provenance(whole)) == {"model": model}
    assert settings_of(read_provenance(shards[1])) == {"model": model, "first_place": 64}


def test_a_sample_in_two_shards_is_refused(tmp_path):
    shards = [shard(tmp_path, "one", "a", "b"), shard(tmp_path, "two", "b")]
    with pytest.raises(BenchmarkError, match=r"two\.parquet: sample 'b' is in .*one\.parquet, too"):
        joined(shards, "attributions")


def test_what_shards_were_made_with_identifies_the_whole(tmp_path):
    """Else scores of another seed, in shards as long, would pass for those of these answers."""
    wholes = []
    for seed in (1, 2):
        folder = tmp_path / str(seed)
        shards = [shard(folder, name, name, settings={"seed": seed}) for name in ("a", "b")]
        wholes.append(folder / "whole.parquet")
        settings = JoinSlice(parts=("x/0-1", "x/1-2")).to_json()
        join_shards.main(
            argparse.Namespace(
                settings=settings, kind="attributions", files={"shards": shards}, output=wholes[-1]
            )
        )
    assert identity(wholes[0]) != identity(wholes[1])
    soft = tmp_path / "soft.parquet"
    join_shards.main(
        argparse.Namespace(
            settings=settings, kind="attributions", output=soft,
            files={"shards": shards, "attributions": [wholes[0]]},
        )
    )  # fmt: skip
    check_inputs(soft, attributions=wholes[0])
    with pytest.raises(BenchmarkError, match="was made from other attributions than"):
        check_inputs(soft, attributions=wholes[1])
