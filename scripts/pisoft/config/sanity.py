"""Whether attributions depend on the model: its weights are drawn anew, layer by layer.

A sanity check of methods (Adebayo et al., 2018, cascading randomisation): scores that stay what
they were when the model no longer is do not explain it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from pydantic import Field, field_validator

from pisoft.config.base import Selection, Strict
from pisoft.config.methods import Method


class Sanity(Strict):
    """The last decoder layers' weights are drawn anew, and the same answers explained again."""

    layers: tuple[int, ...] = Field(
        (1, 2, 4, 8, 16, 32),
        min_length=1,
        description="Decoder layers whose weights are drawn anew, counted from the last, "
        "increasing; clipped to the model's number of layers.",
    )
    methods: Selection = Field(
        "all", description="Methods that are checked, if the run has them, or `all` of them."
    )
    models: Selection = Field("all", description="Models of the run, or `all` of them.")
    datasets: Selection = Field("all", description="Datasets of the run, or `all` of them.")

    @field_validator("layers")
    @classmethod
    def _positive_and_increasing(cls, layers: tuple[int, ...]) -> tuple[int, ...]:
        if layers[0] < 1 or any(b <= a for a, b in itertools.pairwise(layers)):
            raise ValueError("numbers of layers must be greater than 0 and increase")
        return layers


def randomised(name: str, method: Method, layers: Iterable[int]) -> dict[str, Method]:
    """Return a method by its names on a model whose so many last layers are drawn anew."""
    return {
        f"{name}-randomised-{count:02d}": method.model_copy(update={"randomised_layers": count})
        for count in layers
    }
