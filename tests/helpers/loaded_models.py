"""Settings of models that tests load."""

from __future__ import annotations

from typing import Any

from pisoft.config.jobs.fields import LoadedModel


def local_model(**changes: Any) -> LoadedModel:
    """Return settings of a local model in float32 on the CPU, with overrides."""
    values = {
        "name": "toy", "repository": None, "revision": None, "dtype": "float32",
        "quantization": "none", "device": "cpu",
    }  # fmt: skip
    return LoadedModel(**values | changes)
