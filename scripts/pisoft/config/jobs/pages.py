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

PUBLISHED_MODELS = {  # with the paper's labels
    "llama-3.1-8b-instruct": "Llama-3.1-8B-Instruct",
    "mistral-7b-instruct-v0.3": "Mistral-7B-Instruct-v0.3",
    "llama-3.1-70b-instruct": "Llama-3.1-70B-Instruct",
}
# Descriptions of unpublished entries by kind of source; only `hub` entries may be published.
OTHER_SOURCES = {
    "local": "weights in a local folder",
    "gguf": "weights in a GGUF file",
    "trained": "trained by the workflow",
    "file": "records in a local file",
    "embedded": "records made by the workflow",
}
# Catalogue entries on the hub whose records differ from the paper's, ...
OTHER_RECORDS = {
    "sst2_glue": "phrases of GLUE, where the paper has sentences",
    "boolq": "the original release, where the paper has ERASER's",
}
# ... and an entry with the paper's records, which are not on the hub.
PUBLISHED_FILES = ("boolq_eraser",)


class IndexJob(LabelSettings, section="run_file"):
    """Settings of the front page."""

    run: str


def _not_published(config: Config, kind: Kind) -> dict[str, str]:
    """Return descriptions of the models or datasets that differ from the published ones."""
    added = dict.fromkeys(getattr(config.run_file.catalogue, kind), "an entry of the run file")
    entries: Mapping[str, ModelEntry | DatasetEntry] = getattr(config, kind)
    origins = {
        name: OTHER_RECORDS.get(name) or OTHER_SOURCES.get(entry.source.kind) or added.get(name)
        for name, entry in entries.items()
        if name not in PUBLISHED_FILES
    }
    return {name: origin for name, origin in origins.items() if origin is not None}


def published_models(config: Config) -> list[str]:
    """Return the models of a run that the paper reports."""
    unpublished = _not_published(config, "models")
    return [name for name in PUBLISHED_MODELS if name in config.models and name not in unpublished]


class PublishedJob(JobSettings, section="run_file"):
    """Settings of the comparison with the paper, with the differences from it.

    A model or dataset is published if it is a catalogue entry from the hub and none of
    :data:`OTHER_RECORDS`, or if it is one of :data:`PUBLISHED_FILES`.
    """

    models: ModelLabels
    datasets: DatasetLabels
    # Descriptions of models and datasets that differ from the published ones.
    other_models: Annotated[dict[str, str], At(lambda config: _not_published(config, "models"))]
    other_datasets: Annotated[dict[str, str], At(lambda config: _not_published(config, "datasets"))]
    types: NumberTypes
    # Options of each method, with defaults.
    options: Annotated[dict[str, dict[str, Any]], At("methods.*.resolved")]
    masked_model: str
    target: Target
    # Targets of methods that override the run's.
    targets: Annotated[dict[str, Target], At("methods.*.target")]
    prompts: PromptSettings
    generation: GenerationSettings
    evaluation: EvaluationSettings
    ranking: RankingSettings | None


class ExplorerJob(ScoreSettings, LabelSettings, section="run_file.evaluation"):
    """Settings of `build_explorer`; the run must have an explorer."""

    run: Annotated[str, At("run_file.run")]
    samples: Annotated[int, At("run_file.explorer.samples")]  # per model and dataset
    targets: Targets
    score_floor: float
    pi_grid: tuple[float, ...]
    pi_per_step: int | None = None
