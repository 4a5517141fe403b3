"""Slices of the jobs that write pages."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from pisoft.config.datasets import DatasetEntry
from pisoft.config.evaluation import EvaluationSettings, RankingSettings
from pisoft.config.models import ModelEntry
from pisoft.config.run_file import GenerationSettings
from pisoft.config.slices.base import Slice
from pisoft.config.slices.display import (
    DisplaySlice,
    ScoresSlice,
    _number_types,
    display_slice,
    scores_slice,
)

if TYPE_CHECKING:
    from pisoft.config.resolved import Config

# What an entry is whose source is of this kind; one of kind `hub` may be the published one.
OTHER_SOURCES = {
    "local": "weights in a local folder",
    "gguf": "weights in a GGUF file",
    "trained": "trained by the workflow",
    "file": "records in a local file",
    "embedded": "records made by the workflow",
}
# Entries of the catalogue with other records than the paper's, though the hub has them, ...
OTHER_RECORDS = {
    "sst2_glue": "phrases of GLUE, where the paper has sentences",
    "boolq": "the original release, where the paper has ERASER's",
}
# ... and one with the paper's, which are on no hub.
PUBLISHED_FILES = ("boolq_eraser",)


class IndexSlice(DisplaySlice):
    """Settings of the front page."""

    run: str


class PublishedSlice(Slice):
    """Settings of the comparison with the paper: what is not as published."""

    models: dict[str, str]  # labels
    datasets: dict[str, str]
    other_models: dict[str, str]  # those that are no hub model of the catalogue: what they are
    other_datasets: dict[str, str]
    types: dict[str, str]  # number type of each model
    options: dict[str, dict[str, Any]]  # of each method, with defaults
    masked_model: str
    generation: GenerationSettings
    evaluation: EvaluationSettings
    ranking: RankingSettings | None


class ExplorerSlice(ScoresSlice):
    """Settings of `build_explorer`."""

    run: str
    samples: int  # of each model and dataset
    score_floor: float
    pi_grid: tuple[float, ...]


def index_slice(config: Config) -> IndexSlice:
    """Return what the front page depends on, besides the summary files."""
    return IndexSlice(**dict(display_slice(config)), run=config.run_file.run)


def published_slice(config: Config) -> PublishedSlice:
    """Return what the comparison with the paper depends on, besides the summary files.

    A model or a dataset is the published one if it is the catalogue's entry and comes from the hub;
    of datasets :data:`OTHER_RECORDS` are none, and :data:`PUBLISHED_FILES` are some.
    """
    run_file = config.run_file
    return PublishedSlice(
        models={name: entry.label for name, entry in config.models.items()},
        datasets={name: entry.label for name, entry in config.datasets.items()},
        other_models=_not_published(config.models, run_file.catalogue.models),
        other_datasets={
            **_not_published(
                {n: entry for n, entry in config.datasets.items() if n not in PUBLISHED_FILES},
                run_file.catalogue.datasets,
            ),
            **{name: why for name, why in OTHER_RECORDS.items() if name in config.datasets},
        },
        types=_number_types(config),
        options={name: dict(method.resolved) for name, method in config.methods.items()},
        masked_model=run_file.masked_model,
        generation=run_file.generation,
        evaluation=run_file.evaluation,
        ranking=run_file.ranking,
    )


def explorer_slice(config: Config) -> ExplorerSlice:
    """Return what `build_explorer` depends on; the run must have an explorer."""
    explorer = config.run_file.explorer
    assert explorer is not None
    return ExplorerSlice(
        **dict(scores_slice(config)),
        run=config.run_file.run,
        samples=explorer.samples,
        score_floor=config.run_file.evaluation.score_floor,
        pi_grid=config.run_file.evaluation.pi_grid,
    )


def _not_published(
    entries: Mapping[str, ModelEntry | DatasetEntry], additions: Collection[str]
) -> dict[str, str]:
    """Return what those entries are that the catalogue does not have from the hub."""
    origins = {name: OTHER_SOURCES.get(entry.source.kind) for name, entry in entries.items()}
    own = dict.fromkeys(additions, "an entry of the run file")
    found = {name: origin or own.get(name) for name, origin in origins.items()}
    return {name: origin for name, origin in found.items() if origin is not None}
