"""Whether attributions depend on the model, on what it was taught, and on its input.

Sanity checks of methods (Adebayo et al., 2018: cascading randomisation of parameters, randomisation
of the data): scores that do not change with the model do not explain it.
"""

from __future__ import annotations

import itertools

from pydantic import Field, field_validator

from pisoft.config.base import Selection, Strict


class SanityChecks(Strict):
    """Scores are compared with those on a randomised model, and with those of other inputs."""

    layers: tuple[int, ...] = Field(
        (1, 2, 4, 8, 16, 32),
        min_length=1,
        description="Decoder layers that are reinitialised, counted from the last, "
        "increasing; clipped to the model's number of layers.",
    )
    labels: bool = Field(
        False,
        description="Whether each of these models is also trained on answers shuffled over the "
        "records of their dataset. For models of `source: {kind: trained}` only.",
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
