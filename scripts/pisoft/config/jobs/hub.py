"""Jobs that resolve commits of the hub and download from it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pisoft.config.datasets import HubDataset
from pisoft.config.jobs.fields import Kind
from pisoft.config.models import HubModel
from pisoft.config.resolved import Config
from pisoft.config.settings import At, JobSettings


class ResolveJob(JobSettings):
    """Settings of `resolve_commit`."""

    kind: Annotated[Kind, At("{kind}")]
    repository: Annotated[str, At("{repository}")]
    revision: Annotated[str, At("{revision}")]


def hub_models(config: Config) -> list[HubModel]:
    """Return the models that a run loads from the hub, the masked one included, without repeats."""
    masked = config.masked_models.values() if config.needs_masked_model else ()
    entries = [*config.models.values(), *masked]
    sources = [entry.source for entry in entries if isinstance(entry.source, HubModel)]
    return list({(source.repository, source.revision): source for source in sources}.values())


class FetchHubJob(JobSettings):
    """Settings of `fetch_hub`."""

    models: Annotated[  # repository and revision
        tuple[tuple[str, str], ...],
        At(lambda config: [(m.repository, m.revision) for m in hub_models(config)]),
    ]


def hub_datasets(config: Config) -> dict[str, HubDataset]:
    """Return the datasets that a run reads from the hub, by name."""
    sources = {name: entry.source for name, entry in config.datasets.items()}
    return {name: source for name, source in sources.items() if isinstance(source, HubDataset)}


def commit_file(data: Path, source: HubModel | HubDataset) -> Path:
    """Return the path of a source's commit in a run's data, shared by entries of one revision."""
    kind: Kind = "models" if isinstance(source, HubModel) else "datasets"
    return data / "commits" / kind / source.repository / f"{source.revision}.json"
