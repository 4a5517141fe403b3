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
    """Return whether a step of a block is repeated in float32, for a model in half precision.

    Blocks 0, 1, 4, 16, 64, … of a dataset are, regardless of shards. The evaluation repeats more
    blocks, but on a GPU a step of integrated gradients takes eight times as long in float32.
    """
    return block in (0, 1) or (block % 4 == 0 and is_compared(block // 4))


class MethodOptions(Strict):
    """Options of a method; none unless a subclass adds some."""


class GradientOptions(MethodOptions):
    """Options shared by all gradient methods."""

    attributed_function: AttributedFunction = Field(
        "probability",
        description="The function of the target token that is explained: its probability p, its "
        "logit, or its `log_odds`, log p/(1 − p). With `target: contrastive` it is always a "
        "difference of logits.",
    )


class BaselineOptions(GradientOptions):
    """Options of gradient methods with a baseline."""

    baseline: Baseline = Field(
        "reference",
        description="`reference`: the embedding of the unknown, else padding, else end-of-sequence "
        "token at every position, as in Inseq (end-of-sequence tokens stay); `zero`: "
        "zeros.",
    )


class PerturbationOptions(BaselineOptions):
    """Options of methods that measure the target with tokens replaced by the baseline."""

    signed: bool = Field(
        False,
        description="Keep the sign: positive where the token supports the target. false: the size "
        "of the change, as in Inseq.",
    )


@dataclass(frozen=True)
class Context:
    """Inputs of a method besides the model and the batch."""

    seed: int  # of keyed random numbers; see :mod:`pisoft.seeds`
    # Tokens per forward batch, for methods that make their own forwards. Results must not depend on
    # it beyond rounding. The engine lowers it when memory runs out, so re-read it at each use.
    token_budget: int = 1024
    masked: MaskedLanguageModel | None = None  # for methods with `needs_masked_model`
    step_scores: ScoresOf = "own"  # a step is evaluated by its own scores, or by all steps' mean
    scope: Scope = "all"  # prompt tokens that are evaluated; a ScopedMethod scores only these

    def sequences(self, length: int) -> int:
        """Return the number of sequences of a length per forward, at least one."""
        return max(1, self.token_budget // length)


class AttributionMethod(ABC):
    """One attribution method.

    Each subclass is the only one in a file of this folder. The method is named after the file and
    listed nowhere else.
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
        """Name of the method's file, for error messages."""
        return type(self).__module__.rpartition(".")[2]

    def check(self, model: LanguageModel) -> None:
        """Raise a BenchmarkError if method or options do not suit the model; called once per job.

        Subclasses that override it call it first.
        """
        if self.needs_attention:
            model.require("attention", f"method '{self.name}'")

    def prepared(
        self, model: LanguageModel, prepare: Callable[[LanguageModel], Prepared]
    ) -> Prepared:
        """Return what `prepare` returns for the model, computed once.

        Raises:
            BenchmarkError: raised by `prepare`, prefixed by the names of method and model.
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
        """Return the indices of the last `count` decoder layers, of all if it is None.

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
        """Return the cost of one sample, in forward passes over all tokens read.

        Used by `make plan`, without a model. The default is one forward, and one backward per step.
        A backward counts as one forward, because weights are frozen. Methods with a stopping rule
        return the upper limit.
        """
        return 1 + steps

    def float32_forwards(self, prompt_tokens: float, steps: float) -> float:
        """Return how many of :meth:`forwards` are in float32 even with 16-bit weights."""
        return 0

    def elements(self, tokens: float) -> float:
        """Return the memory traffic of one sample outside matrix products.

        The unit is one number per weight of the model, for the given number of tokens read.
        """
        return 0

    @abstractmethod
    def attribute(self, model: LanguageModel, batch: Batch) -> list[torch.Tensor]:
        """Return raw scores, one tensor (steps, prompt tokens) for each sample of the batch.

        A sample's scores must not depend on its batch.
        """


class ScopedMethod(AttributionMethod):
    """A method that perturbs only the tokens of the scope, ``ExplainedSample.in_scope``.

    Tokens outside the scope score 0, which no evaluation reads. Tokens before the scope are the
    same in every perturbed input, so :meth:`LanguageModel.read_prefix` can read them once.
    """

    scoped = True
    half_shards = True  # it reads many perturbed inputs

    @abstractmethod
    def forwards(self, prompt_tokens: float, steps: float, scope: range | None = None) -> float:
        """Return the cost of one sample; see :meth:`AttributionMethod.forwards`.

        Args:
            prompt_tokens: tokens read at the last explained step.
            scope: perturbed positions; None: all.
        """
