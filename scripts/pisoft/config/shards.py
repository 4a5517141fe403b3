"""The parts of a dataset that are jobs of their own: all of its samples, or shards of them.

A part is named after its dataset, and a shard also after the places of its samples in the order of
sampling, `sst2/128-256` (the last one excluded). More samples are further shards; those before
stay what they are, but for the last one if it was not full.

The π-Soft evaluation takes a hundred times as long as the other stages, so that its shards are
smaller: a shard of the other stages holds one or more of them, whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pisoft.errors import BenchmarkError

if TYPE_CHECKING:
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
        """Return what the shards are called, in their order: places of their samples."""
        starts = range(0, self.samples, self.size)
        return [f"{first}-{min(first + self.size, self.samples)}" for first in starts]


def shards(config: Config, model: str, dataset: str) -> Shards | None:
    """Return how a dataset is cut for a model; None: it is not.

    A shard holds `shard_size` samples, cut down to whole shards of the evaluation.

    Raises:
        BenchmarkError: as :func:`evaluation_shards`.
    """
    size, cut = config.datasets[dataset].shard_size, evaluation_shards(config, model, dataset)
    if size is None or cut is None:
        return None
    return cut._replace(size=cut.size * max(1, size // cut.size))


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


def parts(config: Config, model: str, dataset: str) -> list[str]:
    """Return the parts of a dataset that are jobs of their own for a model; see :func:`shards`."""
    return _names(dataset, shards(config, model, dataset))


def evaluation_parts(config: Config, model: str, dataset: str) -> list[str]:
    """Return the parts that are evaluated in jobs of their own; see :func:`evaluation_shards`."""
    return _names(dataset, evaluation_shards(config, model, dataset))


def enclosing_part(config: Config, model: str, part: str) -> str:
    """Return the part of :func:`parts` that a part lies in."""
    cut = shards(config, model, dataset_of(part))
    if cut is None:
        return part
    return parts(config, model, dataset_of(part))[first_place(part) // cut.size]


def _names(dataset: str, cut: Shards | None) -> list[str]:
    return [dataset] if cut is None else [f"{dataset}/{name}" for name in cut.names()]


def first_place(part: str) -> int:
    """Return the place of a part's first sample."""
    return (places(part) or (0, 0))[0]


def dataset_of(part: str) -> str:
    """Return the dataset of a part."""
    return part.partition("/")[0]


def places(part: str) -> tuple[int, int] | None:
    """Return the first place of a shard and the one behind its last; None: the part is no shard."""
    first, is_shard, last = part.partition("/")[2].partition("-")
    return (int(first), int(last)) if is_shard else None
