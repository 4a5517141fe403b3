"""What every slice is, and what identifies a loaded model."""

from __future__ import annotations

import json
from typing import ClassVar

from pisoft.config.base import Strict
from pisoft.config.models import (
    HubModel,
    MaskedModelEntry,
    ModelEntry,
)


class Slice(Strict):
    """Settings of one job."""

    sorts_keys: ClassVar[bool] = True  # false: the order of keys is a setting, too

    def to_json(self) -> str:
        """Return the slice as JSON, equal for equal settings.

        It holds no character of markup: Snakemake puts it into the script of its report as it is.
        """
        text = json.dumps(self.model_dump(mode="json"), sort_keys=self.sorts_keys)
        for character in "<>&":
            text = text.replace(character, f"\\u{ord(character):04x}")
        return text


class ModelSlice(Slice):
    """What identifies a loaded model; weights of local and trained models are input files."""

    name: str
    repository: str | None  # None: the weights lie in the folder given to the script
    revision: str | None
    dtype: str
    quantization: str
    device: str


def model_slice(name: str, entry: ModelEntry | MaskedModelEntry) -> ModelSlice:
    """Return what identifies a loaded model."""
    hub = entry.source if isinstance(entry.source, HubModel) else None
    return ModelSlice(
        name=name,
        repository=hub.repository if hub else None,
        revision=hub.revision if hub else None,
        dtype=entry.dtype,
        quantization=entry.quantization if isinstance(entry, ModelEntry) else "none",
        device=entry.device,
    )
