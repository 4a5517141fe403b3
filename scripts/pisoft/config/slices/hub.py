"""Slices of the jobs that resolve commits on the hub and download, and what they are about."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pisoft.config.datasets import HubDataset
from pisoft.config.models import HubModel
from pisoft.config.slices.base import Slice

if TYPE_CHECKING:
    from pisoft.config.resolved import Config

Kind = Literal["models", "datasets"]


class ResolveSlice(Slice):
    """Settings of `resolve_commit`."""

    kind: Kind
    repository: str
    revision: str


def resolve_slice(config: Config, kind: Kind, repository: str, revision: str) -> ResolveSlice:
    """Return what `resolve_commit` depends on."""
    return ResolveSlice(kind=kind, repository=repository, revision=revision)


class FetchHubSlice(Slice):
    """Settings of `fetch_hub`."""

    models: tuple[tuple[str, str], ...]  # repository and revision


def fetch_hub_slice(config: Config) -> FetchHubSlice:
    """Return what `fetch_hub` depends on."""
    return FetchHubSlice(models=tuple((m.repository, m.revision) for m in hub_models(config)))


def hub_models(config: Config) -> list[HubModel]:
    """Return the models that a run loads from the hub, each revision of a repository once.

    Its masked model is one of them if a method needs it.
    """
    needed = any(method.needs_masked_model for method in config.evaluated_methods.values())
    entries = [*config.models.values(), *(config.masked_models.values() if needed else ())]
    sources = [entry.source for entry in entries if isinstance(entry.source, HubModel)]
    return list({(source.repository, source.revision): source for source in sources}.values())


def hub_datasets(config: Config) -> dict[str, HubDataset]:
    """Return the datasets that a run reads from the hub, by name."""
    sources = {name: entry.source for name, entry in config.datasets.items()}
    return {name: found for name, found in sources.items() if isinstance(found, HubDataset)}


def commit_file(data: Path, source: HubModel | HubDataset) -> Path:
    """Return where a source's commit is recorded: once for all entries of one revision.

    Args:
        data: the run's folder of data.
        source: what is read of the hub.
    """
    kind: Kind = "models" if isinstance(source, HubModel) else "datasets"
    return data / "commits" / kind / source.repository / f"{source.revision}.json"
