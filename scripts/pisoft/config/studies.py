"""The sections of a run file that add studies to the main evaluation.

* The layer study: Grad-ELLM at several depths (paper, appendix Layer Aggregation Analysis).
* Metric validation with constructed scores. Controls are built from the evidence or from token
  positions; permuted scores are a method's scores, shuffled over the tokens.
* Other ablation operators: their effect on the inputs and on the ranking of methods.
* Sanity checks of methods (Adebayo et al., 2018: cascading parameter randomisation, data
  randomisation): scores that do not change with the model do not explain it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from pisoft.config.base import Ablation, Increasing, Name, Selection, Strict, TokenWeights, Unique


class StudySection(Strict):
    """The models and datasets of a study."""

    models: Selection = Field("all", description="Models of the run, or `all` of them.")
    datasets: Selection = Field("all", description="Datasets of the run, or `all` of them.")


# The layer study ------------------------------------------------------------------------------


def grad_ellm_label(weights: TokenWeights, depth: str | None = None) -> str:
    """Return the label of Grad-ELLM; `depth` describes the summed layers (None: all of them).

    `Grad-ELLM`, `Grad-ELLM (original)`, `Grad-ELLM (original, depth selected)`.
    """
    variant = None if weights == "loosened" else weights
    details = ", ".join(filter(None, (variant, depth)))
    return f"Grad-ELLM ({details})" if details else "Grad-ELLM"


# Names of Grad-ELLM at the selected depth in tables, by token weighting.
SELECTED_METHODS: dict[TokenWeights, str] = {
    "loosened": "grad_ellm_selected",
    "original": "grad_ellm_original_selected",
}
SELECTED_LABELS = {name: grad_ellm_label(name, "depth selected") for name in SELECTED_METHODS}


class LayerStudy(StudySection):
    """Grad-ELLM at several depths, one of which is selected on development samples."""

    depths: Annotated[tuple[PositiveInt, ...], Increasing] = Field((1, 4, 8, 16, 32), min_length=1)
    """Numbers of decoder layers to sum, counted from the last, increasing; clipped to the model's
    number of layers."""
    token_weights: Annotated[tuple[TokenWeights, ...], Unique] = ("loosened", "original")
    """Token weights of Grad-ELLM, each at every depth."""
    development_share: float = Field(0.25, gt=0, lt=1)
    """Fraction of samples used to select the depth; results are reported on the others."""
    fixed_depth: PositiveInt | None = None
    """Depth to compare the selected depth with; null: all layers."""


# Metric validation ----------------------------------------------------------------------------

RANDOM = "random"  # method of random scores
ControlScores = Literal["oracle", "anti_oracle", "position", "uniform", "first_token"]
LABELS: dict[ControlScores, str] = {
    "oracle": "Oracle",
    "anti_oracle": "Anti-oracle",
    "position": "Position only",
    "uniform": "Uniform",
    "first_token": "First token only",
}


class Control(Strict):
    """Scores constructed from the evidence or from token positions."""

    kind: Literal["control"]
    scores: ControlScores
    """`oracle`: 1 for evidence tokens, 0 for others; `anti_oracle`: the reverse; `position`: rising
    from the first token to the last; `uniform`: all equal; `first_token`: 1 for the first
    perturbable token, 0 for others."""
    noise: float = Field(0, ge=0)
    """Standard deviation of the normal noise added to `oracle`; keyed, so all noise levels scale
    the same noise."""

    @model_validator(mode="after")
    def _noise_of_the_oracle(self) -> Control:
        if self.noise and self.scores != "oracle":
            raise ValueError(f"noise: only `oracle` has noise, not `{self.scores}`")
        return self

    @property
    def needs_evidence(self) -> bool:
        """Whether the scores are constructed from the known evidence."""
        return self.scores in ("oracle", "anti_oracle")

    @property
    def name(self) -> str:
        """Name in paths."""
        return self.scores.replace("_", "-") + (f"-noise-{self._amount}" if self.noise else "")

    @property
    def label(self) -> str:
        """Name in tables and figures."""
        return LABELS[self.scores] + (f", noise {self._amount}" if self.noise else "")

    @property
    def _amount(self) -> str:
        """The noise level in its shortest exact notation."""
        return repr(self.noise).removesuffix(".0")


class Permuted(Strict):
    """The scores of a method, shuffled over the perturbable tokens."""

    kind: Literal["permuted"] = "permuted"
    method: Name
    number: int  # of the permutation; equal numbers permute all methods alike


class MetricValidation(StudySection):
    """Tests of the metrics with constructed scores and with permuted scores of methods."""

    noise: Annotated[tuple[PositiveFloat, ...], Increasing] = Field((0.5, 1.0, 2.0), min_length=1)
    """Standard deviations of the noise added to the oracle's scores of 0 and 1, increasing: a
    ladder from informative to nearly random scores."""
    permutations: int = Field(1, ge=0, le=100)
    """Permutations of each method's scores to evaluate; 0: none."""
    permuted_methods: Selection = "all"
    """Methods of the run whose scores are permuted, or `all` of them."""
    datasets: Selection = "all"
    """Datasets of the run, or `all`. Constructed scores need a dataset with evidence and the method
    `random` to compare with; they are skipped where either is missing."""

    @property
    def controls(self) -> list[Control]:
        """The constructed scores, beginning with the ladder."""
        noisy = [Control(kind="control", scores="oracle", noise=n) for n in (0, *self.noise)]
        without_noise = [scores for scores in LABELS if scores != "oracle"]
        return [*noisy, *(Control(kind="control", scores=scores) for scores in without_noise)]

    @property
    def ladder(self) -> tuple[str, ...]:
        """Names of the oracle and its noisy versions, from no noise to the most."""
        return tuple(control.name for control in self.controls if control.scores == "oracle")

    @property
    def middle(self) -> str:
        """Name of the oracle with the middle noise level of the ladder."""
        return self.ladder[1 + (len(self.noise) - 1) // 2]


# Operators ------------------------------------------------------------------------------------

HIDE: Ablation = "hide"


class Operators(StudySection):
    """Evaluation of the same scores with the same masks by other ablation operators."""

    others: Annotated[tuple[Ablation, ...], Unique] = ("mean", "unknown", "hide")
    """Values of `evaluation.operator` to compare with the run's. `hide` is skipped under fixed
    routing."""
    draws: int = Field(3, gt=0, le=100)
    """Random masks per retaining probability and explained step for the off-distribution check."""
    methods: Selection = Field("all", description="Methods of the run, or `all` of them.")


def allowed(protocol: str, operators: tuple[Ablation, ...]) -> tuple[Ablation, ...]:
    """Return the operators that a protocol allows: fixed attention cannot hide keys."""
    return tuple(name for name in operators if protocol == "dynamic" or name != HIDE)


# Sanity checks --------------------------------------------------------------------------------


class SanityChecks(StudySection):
    """Comparison of scores with scores of a randomised model and of other inputs."""

    layers: Annotated[tuple[PositiveInt, ...], Increasing] = Field(
        (1, 2, 4, 8, 16, 32), min_length=1
    )
    """Numbers of decoder layers to re-initialise, counted from the last, increasing; clipped to the
    model's number of layers."""
    labels: bool = False
    """Also train each model on answers shuffled over the records of a dataset. For models of
    `source: {kind: trained}` only."""
    methods: Selection = "all"
    """Methods of the run to check, or `all` of them."""
