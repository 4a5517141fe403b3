"""Run attribution methods like the attribute script does."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from helpers.random_masked_models import numbered
from helpers.random_models import VOCABULARY
from pisoft.attribution import load_method
from pisoft.attribution.base import AttributionMethod, Context
from pisoft.models.masked import MaskedLanguageModel
from pisoft.models.model import Batch, ExplainedSample, LanguageModel


def build(name: str, seed: int = 1, token_budget: int = 64, **options: Any) -> AttributionMethod:
    """Return a method with its options, and a masked model if it needs one."""
    method = load_method(name)
    masked = random_masked_model() if method.needs_masked_model else None
    return method(method.Options(**options), Context(seed, token_budget, masked))


def attribute(
    name: str,
    model: LanguageModel,
    chosen: list[ExplainedSample],
    seed: int = 1,
    token_budget: int = 64,
    **options: Any,
) -> list[torch.Tensor]:
    """Return a method's raw scores, one tensor (steps, prompt tokens) per sample."""
    method = build(name, seed, token_budget, **options)
    method.check(model)
    return method.attribute(model, Batch(chosen, model.device))


@cache
def random_masked_model() -> MaskedLanguageModel:
    """Return an untrained RoBERTa with the vocabulary of the random models."""
    return numbered(VOCABULARY)
