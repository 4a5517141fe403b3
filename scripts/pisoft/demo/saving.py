"""What a tiny model was made with, beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers

from pisoft.models.saving import save_model
from pisoft.store.files import TRAINING_REPORT


def save_with_report(directory: Path, model: Any, tokenizer: Any, **report: Any) -> None:
    """Save a model with a report that names the packages, too; all of it appears, or nothing."""
    packages = (torch, transformers, tokenizers)
    report["versions"] = {package.__name__: package.__version__ for package in packages}
    save_model(directory, model, tokenizer, {TRAINING_REPORT: report})
