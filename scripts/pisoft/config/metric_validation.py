"""Validation of a run's metrics, by scores that are constructed and not attributed.

Controls score the evidence, or depend on no word at all. Permuted scores are those of a method,
shuffled over the tokens.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Literal

from pydantic import Field, field_validator, model_validator

from pisoft.config.base import Name, Selection, Strict

RANDOM = "random"  # method whose scores depend on nothing
Known = Literal["oracle", "anti_oracle", "position", "uniform", "first_token"]
FROM_EVIDENCE: tuple[Known, ...] = ("oracle", "anti_oracle")
LABELS: dict[Known, str] = {
    "oracle": "Oracle",
    "anti_oracle": "Anti-oracle",
    "position": "Position only",
    "uniform": "Uniform",
    "first_token": "First token only",
}


class Control(Strict):
    """Scores of the evidence, or of the position of a token alone."""

    kind: Literal["control"]
    scores: Known = Field(
        description="`oracle`: 1 for the tokens of the known evidence, 0 for others; "
        "`anti_oracle`: the reverse; `position`: rising from the first token to the last; "
        "`uniform`: all equal; `first_token`: 1 for the first token that a perturbation may touch, "
        "0 for others."
    )
    noise: float = Field(
        0,
        ge=0,
        description="Standard deviation of normal noise on the scores of `oracle`; keyed, and the "
        "same at every deviation but for its size.",
    )

    @model_validator(mode="after")
    def _noise_of_the_oracle(self) -> Control:
        if self.noise and self.scores != "oracle":
            raise ValueError(f"noise: only `oracle` has noise, not `{self.scores}`")
        return self

    @property
    def needs_evidence(self) -> bool:
        """Whether it is made from the known evidence."""
        return self.scores in FROM_EVIDENCE

    @property
    def label(self) -> str:
        """Name in tables and figures."""
        return LABELS[self.scores] + (f", noise {self.noise:g}" if self.noise else "")


class Permuted(Strict):
    """The scores of a method, shuffled over the tokens that a perturbation may touch."""

    kind: Literal["permuted"] = "permuted"
    method: Name
    number: int  # of the permutation, which all methods share


class MetricValidation(Strict):
    """Validation of the metrics by constructed scores and by permuted scores of methods."""

    noise: tuple[float, ...] = Field(
        (0.5, 1.0, 2.0),
        min_length=1,
        description="Standard deviations of the noise on the oracle's scores of 0 and 1, "
        "increasing: a ladder from informative to nearly random scores.",
    )
    permutations: int = Field(
        1, ge=0, description="Permutations of each method's scores that are evaluated; 0: none."
    )
    permuted_methods: Selection = Field(
        "all",
        description="Methods whose scores are permuted, if the run has them, or `all` of them.",
    )
    models: Selection = Field("all", description="Models of the run, or `all` of them.")
    datasets: Selection = Field(
        "all",
        description="Datasets of the run, or `all`. Controls need evidence, and the method "
        "`random` to be compared with: there are none where one of these is missing.",
    )

    @field_validator("noise")
    @classmethod
    def _positive_and_increasing(cls, noise: tuple[float, ...]) -> tuple[float, ...]:
        if noise[0] <= 0 or any(b <= a for a, b in itertools.pairwise(noise)):
            raise ValueError("deviations must be greater than 0 and increase")
        return noise

    @property
    def ladder(self) -> tuple[str, ...]:
        """Names of the oracle and its noisy versions, from no noise to the most."""
        return ("oracle", *(f"oracle-noise-{noise:g}" for noise in self.noise))

    @property
    def middle(self) -> str:
        """The version of the oracle with the middle noise of the ladder."""
        return self.ladder[1 + (len(self.noise) - 1) // 2]


def controls(validation: MetricValidation) -> dict[str, Control]:
    """Return the controls by the names that they have in paths."""
    noisy = {
        name: Control(kind="control", scores="oracle", noise=noise)
        for name, noise in zip(validation.ladder, (0, *validation.noise), strict=True)
    }
    others: tuple[Known, ...] = ("anti_oracle", "position", "uniform", "first_token")
    known = {name.replace("_", "-"): Control(kind="control", scores=name) for name in others}
    return noisy | known


def permutations(validation: MetricValidation, methods: Iterable[str]) -> dict[str, Permuted]:
    """Return permutations of the scores of methods by the names that they have in paths."""
    return {
        f"{method}-permuted-{number}": Permuted(method=method, number=number)
        for method in methods
        for number in range(1, validation.permutations + 1)
    }
