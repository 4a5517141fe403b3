"""Jobs that write pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pisoft.config.base import Target
from pisoft.config.datasets import DatasetEntry
from pisoft.config.evaluation import EvaluationSettings, RankingSettings, ScoreSettings
from pisoft.config.jobs.displays import LabelSettings, Targets
from pisoft.config.jobs.fields import DatasetLabels, Kind, ModelLabels, NumberTypes
from pisoft.config.models import ModelEntry
from pisoft.config.resolved import Config
from pisoft.config.run_file import GenerationSettings, PromptSettings
from pisoft.config.settings import At, JobSettings

PUBLISHED_MODELS = {  # labels of the paper's
    "llama-3.1-8b-instruct": "Llama-3.1-8B-Instruct",
    "mistral-7b-instruct-v0.3": "Mistral-7B-Instruct-v0.3",
    "llama-3.1-70b-instruct": "Llama-3.1-70B-Instruct",
}
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


class IndexJob(LabelSettings, of="run_file"):
    """Settings of the front page."""

    run: str


def _not_published(config: Config, kind: Kind) -> dict[str, str]:
    """Return what those models or datasets are that are not as published."""
    added = dict.fromkeys(getattr(config.run_file.catalogue, kind), "an entry of the run file")
    entries: Mapping[str, ModelEntry | DatasetEntry] = getattr(config, kind)
    origins = {
        name: OTHER_RECORDS.get(name) or OTHER_SOURCES.get(entry.source.kind) or added.get(name)
        for name, entry in entries.items()
        if name not in PUBLISHED_FILES
    }
    return {name: origin for name, origin in origins.items() if origin is not None}


def published_models(config: Config) -> list[str]:
    """Return the models of a run that are the paper's."""
    unpublished = _not_published(config, "models")
    return [name for name in PUBLISHED_MODELS if name in config.models and name not in unpublished]


class PublishedJob(JobSettings, of="run_file"):
    """Settings of the comparison with the paper: what is not as published.

    A model or a dataset is the published one if it is the catalogue's entry and comes from the hub;
    of datasets :data:`OTHER_RECORDS` are none, and :data:`PUBLISHED_FILES` are some.
    """

    models: ModelLabels
    datasets: DatasetLabels
    # What those are that are not the published ones.
    other_models: Annotated[dict[str, str], At(lambda config: _not_published(config, "models"))]
    other_datasets: Annotated[dict[str, str], At(lambda config: _not_published(config, "datasets"))]
    types: NumberTypes
    # Of each method, with defaults.
    options: Annotated[dict[str, dict[str, Any]], At("methods.*.resolved")]
    masked_model: str
    target: Target
    # Of methods that have one of their own.
    targets: Annotated[dict[str, Target], At("methods.*.target")]
    prompts: PromptSettings
    generation: GenerationSettings
    evaluation: EvaluationSettings
    ranking: RankingSettings | None


class ExplorerJob(ScoreSettings, LabelSettings, of="run_file.evaluation"):
    """Settings of `build_explorer`; the run must have an explorer."""

    run: Annotated[str, At("run_file.run")]
    samples: Annotated[int, At("run_file.explorer.samples")]  # of each model and dataset
    targets: Targets
    score_floor: float
    pi_grid: tuple[float, ...]
    pi_per_step: int | None = None
