"""Saving models as folders that transformers can load."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tokenizers
import torch
import transformers


def save_model(
    folder: Path, model: Any, tokenizer: Any, reports: Mapping[str, Mapping[str, Any]]
) -> None:
    """Write model, tokenizer and reports to a scratch folder, then move it into place.

    The folder appears complete or not at all.

    Args:
        model: network with its configuration; all weights go into one file.
        reports: JSON contents by file name.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as scratch:
        staging = Path(scratch) / folder.name
        model.save_pretrained(staging, max_shard_size="1000TB")
        tokenizer.save_pretrained(staging, save_jinja_files=False)  # chat template included
        for weights in staging.glob("*.safetensors"):  # readable by their owner only
            shutil.copymode(staging / "config.json", weights)
        for name, report in reports.items():
            (staging / name).write_text(json.dumps(report, indent=2) + "\n")
        shutil.rmtree(folder, ignore_errors=True)  # a rename needs a free path
        staging.replace(folder)


def save_trained(folder: Path, model: Any, tokenizer: Any, **report: Any) -> None:
    """Write a model trained here, with a report that includes package versions."""
    packages = (torch, transformers, tokenizers)
    report["versions"] = {package.__name__: package.__version__ for package in packages}
    save_model(folder, model, tokenizer, {"training.json": report})
