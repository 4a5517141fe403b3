"""A small run for tests of the plan, with models and datasets that do not exist."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from pisoft.attribution import load_method
from pisoft.config.loading import load_config
from pisoft.config.resolved import Config
from pisoft.cost.lengths import SampleLengths

# Prefixes of rules that only resolve a commit, or turn results into numbers and pages.
SHORT = (
    *("resolve", "make_masked", "construct", "summarise", "validate", "normalise", "check"),
    *("estimate", "decide", "compare", "tabulate", "plot", "build_explorer", "build_figure_pages"),
    *("build_index", "note"),
)
CATALOGUE = Path(__file__).parents[2] / "config/catalogue"
WEIGHTS = 1e6
HUB = {"kind": "hub", "split": "test"}
SHOWN = {"fields": {"text": "text"}, "messages": [{"role": "user", "content": "{text}"}]}
RUN = {
    "run": "small", "models": ["small"], "datasets": ["reviews", "stories"],
    "methods": ["random", "saliency"], "protocols": ["dynamic"], "block_size": 16,
    "generation": {"max_new_tokens": 11, "step_interval": 5}, "ranking": None,
    "evaluation": {"draws": 4, "pi_grid": [0.2, 0.5, 0.8]},
    "catalogue": {
        "models": {
            "small": {
                "label": "Small",
                "source": {"kind": "hub", "repository": "no/where", "parameters": WEIGHTS},
            }
        },
        "datasets": {
            "reviews": SHOWN | {
                "label": "Reviews", "task": "classification", "samples": 40,
                "source": HUB | {"repository": "no/reviews"},
                "labels": {"column": "label", "words": {"0": "no", "1": "yes"}},
                "expected": {"content_tokens": 20},
            },
            "stories": SHOWN | {
                "label": "Stories", "task": "generation",
                "source": HUB | {"repository": "no/stories"},
                "expected": {"content_tokens": 30, "records": 7},
            },
        },
    },
}  # fmt: skip


def run_of(entries: dict[str, Any] | None = None, **changes: Any) -> Config:
    """Return a run of one model, a dataset of each task and two methods.

    Args:
        entries: changed keys of catalogue entries, by `models.small` and the like.
        changes: changed keys of the run file.
    """
    raw = copy.deepcopy(RUN) | changes
    for place, keys in (entries or {}).items():
        kind, name = place.split(".")
        raw["catalogue"][kind][name] |= keys
    return load_config(raw, CATALOGUE, "run.yaml", load_method)


def sample(
    prompt: int,
    first: int = 0,
    steps: tuple[int, ...] = (0,),
    output: int = 1,
    evaluated: tuple[int, ...] = (),
):
    """Return one sample's lengths; all tokens from `first` on may be perturbed."""
    return SampleLengths(prompt, first, prompt - first, output, steps, evaluated or steps)
