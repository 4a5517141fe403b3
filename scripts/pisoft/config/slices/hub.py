"""The slice of the jobs that resolve commits on the hub, and where they record them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pisoft.config.datasets import HubDataset
from pisoft.config.models import HubModel
from pisoft.config.slices.base import Slice

if TYPE_CHECKING:
    from pisoft.config.loading import Config

Kind = Literal["models", "datasets"]


class ResolveSlice(Slice):
    """Settings of `resolve_commit`."""

    kind: Kind
    repository: str
    revision: str


def resolve_slice(config: Config, kind: Kind, repository: str, revision: str) -> ResolveSlice:
    """Return what `resolve_commit` depends on."""
    return ResolveSlice(kind=kind, repository=repository, revision=revision)


def hub_sources(config: Config) -> Iterator[HubModel | HubDataset]:
    """Yield what a run reads of the hub; its masked model only if a method needs one."""
    needed = any(method.needs_masked_model for method in config.evaluated_methods.values())
    chosen = (config.models, config.masked_models if needed else {}, config.datasets)
    for entry in (entry for entries in chosen for entry in entries.values()):
        if isinstance(entry.source, HubModel | HubDataset):
            yield entry.source


def commit_file(data: Path, source: HubModel | HubDataset) -> Path:
    """Return where a source's commit is recorded: once for all entries of one revision.

    Args:
        data: the run's folder of data.
        source: what is read of the hub.
    """
    kind: Kind = "models" if isinstance(source, HubModel) else "datasets"
    return data / "commits" / kind / source.repository / f"{source.revision}.json"
