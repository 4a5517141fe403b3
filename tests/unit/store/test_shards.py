"""Shards of a cell read as one file, and the arguments that name them."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.explained_rows import attribution
from pisoft.config.shards import Shards
from pisoft.errors import BenchmarkError
from pisoft.store.parquet import computed_on, made_with, read_provenance, read_table, write_rows
from pisoft.store.shards import cell_path, expanded, is_complete, shards_of, shortened

LONGEST_ARGUMENT = 128 * 2**10  # bytes of a command on Linux
CUT = Shards(samples=3, size=2)


def whole(folder, kind="attributions"):
    """Return the path of a cell of three samples in two shards."""
    return Path(cell_path(f"{folder}/{kind}/llama/random", "imdb", CUT))


def write_shards(path, *shards, kind="attributions", **facts):
    """Write the rows of every shard with its facts, given as a list per name."""
    for place, (file, rows) in enumerate(zip(shards_of(path), shards, strict=True)):
        write_rows(file, kind, rows, {name: values[place] for name, values in facts.items()})


def scored(*samples):
    """Return a row of scores for each sample."""
    return [attribution(sample, [1.0]) for sample in samples]


def test_a_cells_path_expands_to_its_shards_in_order():
    path = Path(cell_path("soft/llama/random", "im.db-1", Shards(10, 4)))
    assert path.stem == "im.db-1"
    assert path.with_suffix("").parts == ("soft", "llama", "random", "im.db-1")
    assert shards_of(path) == [
        Path(f"soft/llama/random/im.db-1/{places}.parquet") for places in ("0-4", "4-8", "8-10")
    ]
    file = Path(cell_path("llama/random", "im.db-1", None))
    assert shards_of(file) == [file] == [Path("llama/random/im.db-1.parquet")]


def test_a_cell_is_complete_once_all_shards_exist(tmp_path):
    path = whole(tmp_path)
    assert not is_complete(path)
    write_shards(path, scored("a", "b"), scored("c"))
    assert is_complete(path)
    shards_of(path)[1].unlink()
    assert not is_complete(path)


def test_rows_come_from_all_shards_in_order_and_no_other_file(tmp_path):
    path = whole(tmp_path)
    write_shards(path, scored("c", "a"), scored("b"))
    write_rows(path.with_suffix("") / "2-4.parquet", "attributions", scored("d"), {})
    assert read_table(path, "attributions")["sample_id"].to_pylist() == ["c", "a", "b"]
    some = read_table(path, "attributions", ["step"], pa.compute.field("sample_id") == "b")
    assert some.to_pydict() == {"step": [0]}


def test_a_sample_in_two_shards_is_refused(tmp_path):
    path = whole(tmp_path)
    write_shards(path, scored("a", "b"), scored("b"))
    problem = r"imdb/2-3\.parquet: sample 'b' is also in .*imdb/0-2\.parquet;"
    with pytest.raises(BenchmarkError, match=problem):
        read_table(path, "attributions")


def test_a_missing_shard_is_named(tmp_path):
    path = whole(tmp_path)
    write_rows(shards_of(path)[0], "attributions", scored("a", "b"), {})
    with pytest.raises(BenchmarkError, match=r"imdb/2-3\.parquet: no such file"):
        read_table(path, "attributions")


def test_facts_are_combined_over_all_shards(tmp_path):
    path = whole(tmp_path)
    model = {"dtype": "float32", "messages": [{"role": "user"}]}
    write_shards(
        path, scored("a", "b"), scored("c"),
        device=["H100", "A100"],
        packages=[{"torch": "2", "numpy": "2"}, {"torch": "3", "numpy": "2"}],
        peak_memory_mb=[5.0, 3.5],
        peak_device_memory_mb=[None, 7.5],
        settings=[{"model": model, "first_sample": place} for place in (0, 2)],
    )  # fmt: skip
    assert read_provenance(path) == {
        "kind": "attributions",
        "device": "H100, A100",
        "packages": {"torch": "2, 3", "numpy": "2"},
        "peak_memory_mb": 5.0,
        "peak_device_memory_mb": 7.5,
        "settings": {"model": model, "first_sample": "0, 2"},
    }
    assert computed_on([path]) == "H100 and A100"
    assert made_with([path]) == {"code": (), "python": (), "torch": ("2", "3"), "numpy": ("2",)}


PATTERNS = ("results/r/data/soft/{}/{}/{}/{}.parquet", "results/r/data/prompts/{1}/{3}.parquet")
NAMES = st.lists(
    st.from_regex(r"[a-c0-1][a-c0-9._-]{0,2}", fullmatch=True), min_size=1, unique=True
)
CUTS = st.none() | st.builds(Shards, st.integers(1, 20), st.integers(1, 8))


def parts_of(dataset, cut):
    return [dataset] if cut is None else [f"{dataset}/{name}" for name in cut.names()]


def files_of(pattern, cells, cuts):
    """Return the files of cells as declared by rules."""
    files = (
        pattern.format(*cell[:3], part)
        for cell in cells
        for part in parts_of(cell[3], cuts[cell[1], cell[3]])
    )
    return [*dict.fromkeys(files)]


@given(st.data(), NAMES, NAMES, NAMES, NAMES, st.sampled_from(PATTERNS))
def test_patterns_expand_to_files_in_order(data, protocols, models, methods, datasets, pattern):
    every = list(itertools.product(protocols, models, methods, datasets))
    cells = data.draw(st.lists(st.sampled_from(every), unique=True) | st.just(every))
    cut = set(data.draw(st.lists(st.sampled_from(datasets), unique=True))) - set(models)
    cuts = {
        (model, name): data.draw(CUTS.filter(bool)) if name in cut else None
        for model in models
        for name in datasets
    }
    files = files_of(pattern, cells, cuts)
    paths = [path for short in shortened(files, cut) for path in expanded(short)]
    assert [str(file) for path in paths for file in shards_of(path)] == files
    assert len(paths) == len({pattern.format(*cell) for cell in cells}), "one path per cell"


def test_arguments_of_100_000_shards_are_short():
    models = [f"a-model-with-a-long-name-{place}b-instruct" for place in range(8)]
    datasets = [f"a-dataset-with-a-long-name-{place}" for place in range(5)]
    methods = [f"grad_ellm-loosened-{place}" for place in range(25)]
    cells = list(itertools.product(("dynamic", "fixed"), models, methods, datasets))
    cuts = {
        (model, name): Shards(200 + place, 4)
        for place, model in enumerate(models)
        for name in datasets
    }
    files = files_of(PATTERNS[0], cells, cuts)
    assert len(files) >= 100_000
    patterns = shortened(files, datasets)
    paths = [path for short in patterns for path in expanded(short)]
    assert [str(file) for path in paths for file in shards_of(path)] == files
    argument = " ".join(f"soft={pattern}" for pattern in patterns)
    assert len(argument.encode()) < LONGEST_ARGUMENT / 2
