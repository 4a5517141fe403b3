"""A small run to plan in tests, without any file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pisoft.config.cells import Cell
from pisoft.config.models import ModelShape
from pisoft.config.slices import PlanSlice
from pisoft.planning.lengths import SampleLengths

# Beginnings of the rules that only ask for a commit, or turn results into numbers and pages.
SHORT = (
    "resolve",
    "construct",
    "summarise",
    "validate",
    "normalise",
    "check",
    "estimate",
    "compare",
    "tabulate",
    "plot",
    "build_index",
    "build_explorer",
)
LLAMA_8B = ModelShape(
    layers=32, hidden_size=4096, intermediate_size=14336, heads=32, key_value_heads=8,
    head_size=128, vocabulary_size=128256, context=131072,
)  # fmt: skip
SIZES = {
    "layers": 3, "hidden_size": 32, "intermediate_size": 48, "heads": 4, "key_value_heads": 2,
    "head_size": 8, "vocabulary_size": 97, "context": 128,
}  # fmt: skip
HUB = {"kind": "hub", "repository": "nobody/nothing"}


def run_of(protocols: Sequence[str] = ("dynamic",), **changes: Any) -> PlanSlice:
    """Return what a run's plan depends on: one model, a dataset of each task, two methods."""
    names = ("random", "saliency")
    datasets = {
        "reviews": {
            "task": "classification",
            "messages": [
                {"role": "system", "content": "x" * 50},
                {"role": "user", "content": "Text: {text}"},
            ],
            "samples": 40,
            "records": None,
            "expected": {"content_tokens": 20},
        },
        "stories": {
            "task": "generation",
            "messages": [{"role": "user", "content": "{story} {question}"}],
            "samples": None,
            "records": 7,
            "expected": {"content_tokens": 30},
        },
    }
    settings = {
        "models": {
            "small": {
                "source": {**HUB, "shape": SIZES},
                "dtype": "float32",
                "quantization": "none",
                "token_budget": 1024,
                "shards": dict.fromkeys(datasets),
            }
        },
        "masked_models": {},
        "datasets": datasets,
        "methods": {name: {"method": name, "options": {}} for name in names},
        "cells": {
            "main": [
                Cell(protocol, "", "small", "", name, dataset)
                for protocol in protocols
                for name in names
                for dataset in datasets
            ]
        },
        "inspections": 0,
        "max_prompt_tokens": None,
        "generation": {"max_new_tokens": 11, "step_interval": 5},
        "block_size": 16,
        "evaluation": {"draws": 4, "pi_grid": [0.2, 0.5, 0.8]},
        "ranking": None,
    }
    return PlanSlice.model_validate(settings | changes)


def sample(prompt: int, first: int = 0, steps: tuple[int, ...] = (0,), output: int = 1):
    """Return one sample's lengths; all tokens from `first` on may be perturbed."""
    return SampleLengths(1, prompt, first, prompt - first, output, steps)
