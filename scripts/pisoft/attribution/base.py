"""The contract of an attribution method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from pydantic import Field

from pisoft.config.base import AttributedFunction, Family, Scope, ScoresOf, Strict
from pisoft.errors import BenchmarkError

if TYPE_CHECKING:
    import torch

    from pisoft.models.masked import MaskedLanguageModel
    from pisoft.models.model import Batch, LanguageModel

Baseline = Literal["reference", "zero"]
Prepared = TypeVar("Prepared")


def is_compared(block: int) -> bool:
    """Tell whether a step of a block is attributed in float32 too, by a model in half precision.

    These are blocks 0, 1, 4, 16, 64, … of a dataset, whatever its shards. The evaluation repeats
    more blocks; but on a GPU one step of integrated gradients takes as long in float32 as eight.
    """
    return block in (0, 1) or (block % 4 == 0 and is_compared(block // 4))


class MethodOptions(Strict):
    """Options of a method; none unless a subclass adds some."""


class GradientOptions(MethodOptions):
    """Options that the gradient methods share."""

    attributed_function: AttributedFunction = Field(
        "probability",
        description="The function of the target token that is explained: its probability p, its "
        "logit, or its `log_odds`, log p/(1 − p). With `target: contrastive` it is always a "
        "difference of logits.",
    )


class BaselineOptions(GradientOptions):
    """Options of methods that compare the input with a baseline."""

    baseline: Baseline = Field(
        "reference",
        description="`reference`: the embedding of the unknown, else padding, else end-of-sequence "
        "token at every position, as in Inseq (end-of-sequence tokens stay); `zero`: "
        "zeros.",
    )


class PerturbationOptions(BaselineOptions):
    """Options of methods that replace tokens by the baseline and watch the target."""

    signed: bool = Field(
        False,
        description="Keep the sign: positive where the token supports the target. false: the size "
        "of the change, as in Inseq.",
    )


@dataclass(frozen=True)
class Context:
    """What a method may depend on besides the model and the batch."""

    seed: int  # of keyed random numbers; see :mod:`pisoft.seeds`
    # Tokens per forward batch, for methods that make their own forwards. Results must not depend on
    # it beyond rounding. The engine replaces a method's context by one with a lower budget when
    # memory does not suffice, so it is to be read where it is used.
    token_budget: int = 1024
    masked: MaskedLanguageModel | None = None  # for methods with `needs_masked_model`
    step_scores: ScoresOf = "own"  # a step is evaluated by its own scores, or by all steps' mean
    scope: Scope = "all"  # prompt tokens that are evaluated; a ScopedMethod scores only these

    def sequences(self, length: int) -> int:
        """Return how many sequences of a length one forward may hold, at least one."""
        return max(1, self.token_budget // length)


class AttributionMethod(ABC):
    """One attribution method.

    A subclass lives alone in a file of this folder; the file's name is the method's name, and
    nothing else lists it.
    """

    label: ClassVar[str]  # name in tables and figures
    family: ClassVar[Family]  # what kind of method it is
    reference: ClassVar[str]  # citation, one line
    non_negative: ClassVar[bool] = True  # raw scores are never below zero
    seeded: ClassVar[bool] = False  # raw scores depend on the seed, unless options change this
    has_target: ClassVar[bool] = True  # raw scores depend on the token that is explained
    explains_spans: ClassVar[bool] = False  # they can be those of all explained tokens together
    needs_model: ClassVar[bool] = True  # else its jobs load no weights and hold no GPU
    needs_attention: ClassVar[bool] = False  # it looks into the attention of decoder layers
    needs_masked_model: ClassVar[bool] = False  # the run's masked language model is loaded for it
    half_shards: ClassVar[bool] = False  # so slow that its jobs have half as many samples
    scoped: ClassVar[bool] = False  # raw scores depend on the scope; set by :class:`ScopedMethod`
    modifies_backward: ClassVar[bool] = False  # which is not done with quantised weights
    # It stops by a rule; samples and steps where it was not met are added to `unconverged`.
    iterative: ClassVar[bool] = False

    Options: ClassVar[type[MethodOptions]] = MethodOptions  # with their defaults

    def __init__(self, options: MethodOptions, context: Context) -> None:
        self.options = options
        self.context = context
        self.unconverged: set[tuple[str, int]] = set()  # (sample_id, step)
        self._prepared: tuple[LanguageModel, Any] | None = None

    @property
    def name(self) -> str:
        """Name of the method, which is its file's, for error messages."""
        return type(self).__module__.rpartition(".")[2]

    def check(self, model: LanguageModel) -> None:
        """Raise a BenchmarkError if method or options do not suit the model; called once per job.

        A subclass that asks for more calls this first.
        """
        if self.needs_attention:
            model.require("attention", f"method '{self.name}'")

    def prepared(
        self, model: LanguageModel, prepare: Callable[[LanguageModel], Prepared]
    ) -> Prepared:
        """Return what the method makes of a model before it attributes, made once.

        Raises:
            BenchmarkError: as `prepare` does, with the names of method and model in front.
        """
        if self._prepared is None or self._prepared[0] is not model:
            try:
                self._prepared = model, prepare(model)
            except BenchmarkError as error:
                raise BenchmarkError(
                    f"method '{self.name}': model '{model.name}': {error}"
                ) from error
        return self._prepared[1]

    def last_layers(self, model: LanguageModel, count: int | None) -> range:
        """Return the indices of the last decoder layers, as option `layers` has them; None: all.

        Raises:
            BenchmarkError: the model has fewer.
        """
        if count is not None and count > model.layers:
            raise BenchmarkError(
                f"method '{self.name}': option layers: {count} is more than the "
                f"{model.layers} decoder layers of model '{model.name}'"
            )
        return range(model.layers - (count or model.layers), model.layers)

    def forwards(self, prompt_tokens: float, steps: float) -> float:
        """Return what one sample costs, in forward passes over all tokens that the model has read.

        For `make plan`, which knows no weights. Unless a method says otherwise it costs a forward,
        and a backward for every step. A backward pass counts as a forward: weights are frozen, so
        it multiplies by each of them once. A method that stops by a rule gives its upper limit.
        """
        return 1 + steps

    def float32_forwards(self, prompt_tokens: float, steps: float) -> float:
        """Return how many of :meth:`forwards` are in float32, also with 16-bit weights."""
        return 0

    def elements(self, tokens: float) -> float:
        """Return what one sample costs besides matrix products: numbers that pass through memory.

        They are given per weight of the model, for so many tokens read.
        """
        return 0

    @abstractmethod
    def attribute(self, model: LanguageModel, batch: Batch) -> list[torch.Tensor]:
        """Return raw scores, one tensor (steps, prompt tokens) for each sample of the batch.

        The result for a sample must not depend on which other samples share its batch.
        """


class ScopedMethod(AttributionMethod):
    """A method that perturbs only the tokens of the scope, ``ExplainedSample.in_scope``.

    Tokens outside the scope score 0: no evaluation reads their scores. Tokens before the first one
    in scope are the same in every perturbed input, so :meth:`LanguageModel.read_prefix` can read
    them once.
    """

    scoped = True
    half_shards = True  # it reads many perturbed inputs

    @abstractmethod
    def forwards(self, prompt_tokens: float, steps: float, scope: range | None = None) -> float:
        """Return what one sample costs; see :meth:`AttributionMethod.forwards`.

        Args:
            prompt_tokens: tokens that the model has read at the last explained step.
            scope: positions that are perturbed; None: all of them.
        """
