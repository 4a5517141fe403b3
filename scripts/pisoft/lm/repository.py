"""Where a model lies, and what to say if it cannot be loaded from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pisoft.config.slices.base import ModelSlice
from pisoft.errors import BenchmarkError
from pisoft.hub import first_line, hub_advice


def explain_loading_error(
    error: Exception, model: ModelSlice, folder: Path | None
) -> BenchmarkError:
    """Return the readable error for whatever a loader of transformers raised."""
    if folder is None:
        advice = hub_advice(error, str(model.repository), str(model.revision), "models")
        return BenchmarkError(f"model '{model.name}': {advice}")
    if not folder.is_dir():
        return BenchmarkError(f"model '{model.name}': no such folder: {folder}")
    return BenchmarkError(
        f"model '{model.name}': cannot be loaded from {folder}: {first_line(error)}"
    )


def model_location(model: ModelSlice, folder: Path | None) -> tuple[str, dict[str, Any]]:
    """Return the first argument and the options of `from_pretrained` for a model.

    Args:
        model: which model.
        folder: where a local or trained model lies; None means the hub.
    """
    if folder is None:
        return str(model.repository), {"revision": model.revision}
    # A path that does not exist would be looked up on the hub as if it were `owner/name`.
    return str(folder), {"local_files_only": True}
