"""The parts of a dataset that separate jobs process: the whole dataset, or its shards.

A part is named after its dataset; a shard also after its range of samples in sampling order,
`sst2/128-256` (end-exclusive). Adding samples adds shards and leaves full shards unchanged.

Longer stages have smaller shards. The π-Soft evaluation takes a hundred times as long as the other
stages, and slow methods ten times as long as the other methods. A shard consists of whole half
shards, which slow methods use, and a half shard of whole evaluation shards.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from pisoft.errors import BenchmarkError

if TYPE_CHECKING:
    from pisoft.config.cells import Cell
    from pisoft.config.resolved import Config


MOST_SHARDS = 10_000  # per dataset and model; each is several jobs


def sample_limit(config: Config, dataset: str) -> int | None:
    """Return the maximum number of samples of a dataset, or None for all of them."""
    limits = (config.datasets[dataset].samples, config.run_file.max_samples)
    return min(filter(None, limits), default=None)


class Shards(NamedTuple):
    """The sharding of a dataset for a model."""

    samples: int  # total
    size: int  # samples per shard; the last shard may have fewer

    def names(self) -> list[str]:
        """Return the names of the shards in order: their ranges of samples."""
        starts = range(0, self.samples, self.size)
        return [f"{first}-{min(first + self.size, self.samples)}" for first in starts]


def shards(config: Config, model: str, dataset: str, *, halves: bool = False) -> Shards | None:
    """Return the sharding of a dataset for a model, or None if it is not sharded.

    A shard holds as many evaluation shards as cover `shard_size` samples (in whole blocks), rounded
    down to whole half shards. A half shard (`halves`) holds half as many, rounded down.

    Raises:
        BenchmarkError: see :func:`evaluation_shards`.
    """
    size, cut = config.datasets[dataset].shard_size, evaluation_shards(config, model, dataset)
    if size is None or cut is None:
        return None
    whole_blocks = size - size % config.run_file.block_size
    count = max(1, -(-whole_blocks // cut.size))
    half = max(1, count // 2)
    return cut._replace(size=cut.size * (half if halves else count - count % half))


def evaluation_shards(config: Config, model: str, dataset: str) -> Shards | None:
    """Return the sharding for the π-Soft evaluation, or None if the dataset is not sharded.

    A shard holds `evaluation_shard_size` samples times the model's `shard_factor`, at most
    `shard_size`, rounded down to whole blocks. Blocks are never split, so results do not depend on
    the size.

    Raises:
        BenchmarkError: a sharded dataset has no limit on its samples, or more than `MOST_SHARDS`.
    """
    entry = config.datasets[dataset]
    size = entry.shard_size
    if size is None:
        return None
    count = sample_limit(config, dataset)
    if count is None:
        raise BenchmarkError(
            f"dataset '{dataset}': shard_size: is {size}, but nothing says how many samples there "
            "are; set the dataset's `samples`, or the run file's `max_samples`"
        )
    block = config.run_file.block_size
    evaluated = (entry.evaluation_shard_size or size) * config.models[model].shard_factor
    blocks = int(min(size, evaluated, count + block) / block)  # more blocks would be empty
    cut = Shards(count, block * max(1, blocks))
    if (number := -(-count // cut.size)) > MOST_SHARDS:
        raise BenchmarkError(
            f"dataset '{dataset}': shard_size: {cut.size} samples of {count} are {number} shards "
            f"for model '{model}'; allowed are {MOST_SHARDS}"
        )
    return cut


def parts(config: Config, model: str, dataset: str, method: str = "") -> list[str]:
    """Return the parts of a dataset that have separate jobs for a model; see :func:`shards`.

    With a method: the parts of its attribution and ranking jobs.
    """
    halves = method != "" and config.evaluated_methods[method].half_shards
    return _names(dataset, shards(config, model, dataset, halves=halves))


def evaluation_parts(config: Config, model: str, dataset: str) -> list[str]:
    """Return the parts that have separate evaluation jobs; see :func:`evaluation_shards`."""
    return _names(dataset, evaluation_shards(config, model, dataset))


def parts_of_files(config: Config, pattern: str, cell: Cell) -> list[str]:
    """Return the parts of a cell into which the files of a pattern are split."""
    if pattern.startswith("<data>/soft/"):
        return evaluation_parts(config, cell.model, cell.dataset)
    method = cell.method if "{method}" in pattern else ""
    return parts(config, cell.model, cell.dataset, method)


def enclosing_part(config: Config, model: str, part: str, method: str = "") -> str:
    """Return the part of :func:`parts` that contains a part."""
    larger = parts(config, model, dataset_of(part), method)
    return larger[bisect_right(larger, first_sample(part), key=first_sample) - 1]


def _names(dataset: str, cut: Shards | None) -> list[str]:
    return [dataset] if cut is None else [f"{dataset}/{name}" for name in cut.names()]


def first_sample(part: str) -> int:
    """Return the index of a part's first sample in its dataset."""
    return (sample_range(part) or (0, 0))[0]


def dataset_of(part: str) -> str:
    """Return the dataset of a part."""
    return part.partition("/")[0]


def sample_range(part: str) -> tuple[int, int] | None:
    """Return the end-exclusive range of a shard's samples, or None for a whole dataset."""
    first, is_shard, last = part.partition("/")[2].partition("-")
    return (int(first), int(last)) if is_shard else None
