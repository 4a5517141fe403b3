"""The parts of a dataset that are jobs of their own: all of its samples, or shards of them.

A part is named after its dataset, and a shard also after the range of its samples in the order of
sampling, `sst2/128-256` (the last one excluded). More samples are further shards; those before
stay what they are, but for the last one if it was not full.

Long stages have smaller shards. The π-Soft evaluation takes a hundred times as long as the others,
and the scores of slow methods ten times as long as those of others. A shard holds whole half
shards, which slow methods have, and a half shard holds whole shards of the evaluation.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from pisoft.errors import BenchmarkError

if TYPE_CHECKING:
    from pisoft.config.cells import Cell
    from pisoft.config.resolved import Config


MOST_SHARDS = 10_000  # of a dataset for a model; each is several jobs


def sample_limit(config: Config, dataset: str) -> int | None:
    """Return how many samples of a dataset a run takes at most; None: all there are."""
    limits = (config.datasets[dataset].samples, config.run_file.max_samples)
    return min(filter(None, limits), default=None)


class Shards(NamedTuple):
    """How a dataset is cut for a model."""

    samples: int  # in all
    size: int  # samples of each shard but the last, which has what is left

    def names(self) -> list[str]:
        """Return what the shards are called, in their order: ranges of samples."""
        starts = range(0, self.samples, self.size)
        return [f"{first}-{min(first + self.size, self.samples)}" for first in starts]


def shards(config: Config, model: str, dataset: str, *, halves: bool = False) -> Shards | None:
    """Return how a dataset is cut for a model, or cut for its slow methods; None: it is not.

    A shard holds as many shards of the evaluation as `shard_size` samples fill or begin, a half
    shard half as many, rounded down, and a shard whole half shards.

    Raises:
        BenchmarkError: as :func:`evaluation_shards`.
    """
    size, cut = config.datasets[dataset].shard_size, evaluation_shards(config, model, dataset)
    if size is None or cut is None:
        return None
    whole_blocks = size - size % config.run_file.block_size
    number = max(1, -(-whole_blocks // cut.size))
    half = max(1, number // 2)
    return cut._replace(size=cut.size * (half if halves else number - number % half))


def evaluation_shards(config: Config, model: str, dataset: str) -> Shards | None:
    """Return how a dataset is cut for the π-Soft evaluation of a model; None: it is not.

    A shard holds `evaluation_shard_size` samples, times the model's `shard_factor`, `shard_size` at
    most, cut down to whole blocks, which no shard may cut: so any size gives the same bits.

    Raises:
        BenchmarkError: it is cut into shards, and nothing says how many samples there are, or into
            more than `MOST_SHARDS`.
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
    blocks = int(min(size, evaluated, count + block) / block)  # of more, the last would be empty
    cut = Shards(count, block * max(1, blocks))
    if (number := -(-count // cut.size)) > MOST_SHARDS:
        raise BenchmarkError(
            f"dataset '{dataset}': shard_size: {cut.size} samples of {count} are {number} shards "
            f"for model '{model}'; allowed are {MOST_SHARDS}"
        )
    return cut


def parts(config: Config, model: str, dataset: str, method: str = "") -> list[str]:
    """Return the parts of a dataset that are jobs of their own for a model; see :func:`shards`.

    With a method: the parts in which its scores are computed, and ranked by.
    """
    halves = method != "" and config.evaluated_methods[method].half_shards
    return _names(dataset, shards(config, model, dataset, halves=halves))


def evaluation_parts(config: Config, model: str, dataset: str) -> list[str]:
    """Return the parts that are evaluated in jobs of their own; see :func:`evaluation_shards`."""
    return _names(dataset, evaluation_shards(config, model, dataset))


def parts_of_files(config: Config, pattern: str, cell: Cell) -> list[str]:
    """Return the parts of a cell for which there are files of a pattern."""
    if pattern.startswith("<data>/soft/"):
        return evaluation_parts(config, cell.model, cell.dataset)
    method = cell.method if "{method}" in pattern else ""
    return parts(config, cell.model, cell.dataset, method)


def enclosing_part(config: Config, model: str, part: str, method: str = "") -> str:
    """Return the part of :func:`parts` that a part lies in."""
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
    """Return the first sample of a shard and the one after its last; None: the part is no shard."""
    first, is_shard, last = part.partition("/")[2].partition("-")
    return (int(first), int(last)) if is_shard else None
