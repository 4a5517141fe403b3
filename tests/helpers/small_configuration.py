"""A run file and catalogues with one entry of most kinds; none of them is downloaded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from pisoft.attribution import load_method
from pisoft.config.loading import load_config
from pisoft.config.resolved import Config

RUN = {"run": "r", "models": ["small"], "datasets": ["reviews"], "methods": ["saliency"]}
CATALOGUE = {
    "models": {
        "small": {"label": "Small", "source": {"kind": "hub", "repository": "o/small"}},
        "trained": {
            "label": "Trained",
            "source": {"kind": "trained", "architecture": "llama", "datasets": ["made"]},
        },
    },
    "masked_models": {
        "roberta-base": {"label": "RoBERTa", "source": {"kind": "hub", "repository": "o/roberta"}},
        "made-masked": {"label": "Made", "source": {"kind": "unigram", "datasets": ["made"]}},
        "kept-masked": {"label": "Kept", "source": {"kind": "local", "path": "nowhere"}},
    },
    "datasets": {
        "reviews": {
            "label": "Reviews", "task": "classification", "fields": {"text": "review"},
            "source": {"kind": "hub", "repository": "o/reviews", "split": "test"},
            "labels": {"column": "label", "words": {1: "Positive", 0: "Negative"}},
            "messages": [{"role": "user", "content": "Text: {text}"}],
        },
        "made": {
            "label": "Made", "task": "generation", "fields": {"text": "narrative"},
            "source": {"kind": "embedded", "task": "why"},
            "messages": [{"role": "user", "content": "{text}"}],
        },
    },
    "methods": {"saliency": {}, "random": None},
}  # fmt: skip


def load_tree(tree: Mapping[str, Any], folder: Path) -> Config:
    """Write catalogues into a folder, and load the run file, `run`, with them."""
    for kind in CATALOGUE:
        text = yaml.safe_dump(tree.get(kind), allow_unicode=True)
        (folder / f"{kind}.yaml").write_text(text, encoding="utf-8")
    return load_config(tree.get("run"), folder, "run.yaml", load_method)
