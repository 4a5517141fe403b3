"""The shards of a cell as one path, and lists of files as short arguments.

Readers of a whole cell get a single path. For a sharded dataset, the path names all shards:
`…/imdb.25000-by-400` stands for `…/imdb/0-400.parquet`, `…/imdb/400-800.parquet` and so on. The
path parses like `…/imdb.parquet`, but no such file exists.

On Linux, an argument has at most 128 KiB, and Snakemake passes a whole command as one. Commands
therefore use patterns with alternatives in braces: `…/{random,saliency}/imdb.25000-by-400`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable
from pathlib import Path

from pisoft.config.shards import Shards

_ALL_SHARDS = re.compile(r"\.(\d+)-by-(\d+)")  # total samples, and samples per shard
_SHARD = re.compile(r"\d+-\d+\.parquet")  # range of samples
_BRACES = re.compile(r"\{([^{}]*)\}")


def shards_of(path: Path) -> list[Path]:
    """Return the files of a cell's path, in the order of their samples."""
    cut = _ALL_SHARDS.fullmatch(path.suffix)
    if cut is None:
        return [path]
    folder = path.with_suffix("")
    return [folder / f"{name}.parquet" for name in Shards(int(cut[1]), int(cut[2])).names()]


def is_complete(path: Path) -> bool:
    """Return whether all files of a cell's path exist."""
    return all(file.is_file() for file in shards_of(path))


def cell_path(folder: str, dataset: str, cut: Shards | None) -> str:
    """Return the path of a cell: its file, or the path that names all of its shards."""
    ending = "parquet" if cut is None else f"{cut.samples}-by-{cut.size}"
    return f"{folder}/{dataset}.{ending}"


def shortened(files: Iterable[str], cut: Collection[str]) -> list[str]:
    """Shorten paths of cells to patterns; :func:`expanded` is the inverse.

    The shards of a cell must be adjacent; `cut` names the sharded datasets.
    """
    cells: list[str] = []
    for folder, group in itertools.groupby(files, key=lambda file: _folder(file, cut)):
        folder_files = list(group)
        cells += folder_files if folder is None else [_whole(folder, folder_files)]
    rows: list[list[tuple[str, ...]]] = [[(name,) for name in cell.split("/")] for cell in cells]
    # From the last name to the first, so that alternatives expand in the order of the cells.
    for column in reversed(range(max(map(len, rows), default=0))):
        merged: list[list[tuple[str, ...]]] = []
        for row in rows:
            if merged and _differ_only(merged[-1], row, column):
                merged[-1][column] += row[column]
            else:
                merged.append(row)
        rows = merged
    return ["/".join(map(_alternatives, row)) for row in rows]


def expanded(pattern: str) -> list[Path]:
    """Expand a pattern of :func:`shortened` to paths of cells, in their original order."""
    pieces = _BRACES.split(pattern)  # pieces at odd indices come from braces
    choices = [piece.split(",") if i % 2 else [piece] for i, piece in enumerate(pieces)]
    return [Path("".join(names)) for names in itertools.product(*choices)]


def _folder(file: str, cut: Collection[str]) -> str | None:
    """Return the folder of a shard, or None if the file is not a shard."""
    folder, _, name = file.rpartition("/")
    return folder if folder.rpartition("/")[2] in cut and _SHARD.fullmatch(name) else None


def _whole(folder: str, files: list[str]) -> str:
    """Return the path that names all shards of a folder."""
    parent, _, dataset = folder.rpartition("/")
    ends = (file.removesuffix(".parquet").rpartition("-")[2] for file in (files[0], files[-1]))
    size, samples = map(int, ends)
    return cell_path(parent, dataset, Shards(samples, size))


def _differ_only(row: list[tuple[str, ...]], other: list[tuple[str, ...]], column: int) -> bool:
    """Return whether two rows have equal names in every column but one."""
    return (
        len(row) == len(other) > column
        and row[:column] == other[:column]
        and row[column + 1 :] == other[column + 1 :]
    )


def _alternatives(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{{{','.join(names)}}}"
