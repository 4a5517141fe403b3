"""Other operators of ablation: what they do to the inputs, and to the order of the methods."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from pisoft.config.base import Ablation, Protocol, Selection, Strict, check_selection

HIDE: Ablation = "hide"


class Operators(Strict):
    """Other operators beside the run's own, on the same scores and by the same masks."""

    others: tuple[Ablation, ...] = Field(
        ("mean", "unknown", "hide"),
        min_length=1,
        description="Values of `evaluation.operator` that are tried beside the run's own. `hide` "
        "has no fixed routing, and is left out there.",
    )
    draws: int = Field(
        3,
        gt=0,
        le=100,
        description="Random masks at each retaining probability by which it is measured what the "
        "model makes of such inputs, for every explained step.",
    )
    methods: Selection = Field("all", description="Methods of the run, or `all` of them.")
    models: Selection = Field("all", description="Models of the run, or `all` of them.")
    datasets: Selection = Field("all", description="Datasets of the run, or `all` of them.")

    _unique = field_validator("others")(check_selection)


def allowed(
    protocol: Protocol | Literal[""], operators: tuple[Ablation, ...]
) -> tuple[Ablation, ...]:
    """Return the operators that a protocol has: attention that is held cannot hide keys."""
    return tuple(name for name in operators if protocol == "dynamic" or name != HIDE)
