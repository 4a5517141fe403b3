"""Where a model lies, and what to say if it cannot be loaded from there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def check_loaded(report: Mapping[str, Any], name: str, unused: Sequence[str] = ()) -> None:
    """Check that a checkpoint held exactly the weights of its model.

    transformers draws weights that are missing or of another shape at random, and drops others.

    Args:
        report: what `from_pretrained(…, output_loading_info=True)` returns beside the model.
        name: of the model.
        unused: parts of names of weights that the checkpoint may hold besides.

    Raises:
        BenchmarkError: it did not, with the first weights.
    """
    mismatched = [
        f"{key} {tuple(found)} for {tuple(wanted)}"
        for key, found, wanted in report["mismatched_keys"]
    ]
    unexpected = [
        key for key in report["unexpected_keys"] if not any(part in key for part in unused)
    ]
    for keys, problem in (
        (report["missing_keys"], "lack"),
        (mismatched, "have the wrong shape:"),
        (unexpected, "hold what its architecture has no place for:"),
    ):
        if keys:
            first = ", ".join(sorted(keys)[:3])
            more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
            raise BenchmarkError(f"model '{name}': its weights {problem} {first}{more}")


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
