"""A decoder-only language model for attribution and evaluation.

Shapes: B samples, T positions, S explained steps, d hidden width, V vocabulary size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.nn.utils.rnn import pad_sequence

from pisoft.errors import BenchmarkError
from pisoft.models.decoder import Decoder
from pisoft.models.last_layer import independent_parts, running_at
from pisoft.models.precision import HALF
from pisoft.models.trial import Capability, padding_differs, problem_of, try_model

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class ExplainedSample:
    """One prompt, its generated tokens, and the steps to explain.

    Step t explains the target token after the prompt and the first t generated tokens; with
    ``foil_ids``, its logit minus the foil's.
    """

    sample_id: str
    prompt_ids: Sequence[int]
    output_ids: Sequence[int]
    steps: Sequence[int]
    target_ids: Sequence[int]
    content_mask: Sequence[bool] | None = None  # of the prompt; None: unknown
    scope: Sequence[int] | None = None  # prompt positions that are evaluated, increasing; None: all
    foil_ids: Sequence[int] = ()  # one per step, or none
    spanned: bool = False  # whether all steps are explained together, by one row of scores

    @property
    def in_scope(self) -> list[int]:
        """Prompt positions that methods limited to the scope perturb, increasing, (m,)."""
        return list(range(len(self.prompt_ids)) if self.scope is None else self.scope)

    @property
    def read_ids(self) -> list[int]:
        """All tokens read at the last explained step."""
        return [*self.prompt_ids, *self.output_ids[: max(self.steps, default=0)]]

    def apart(self, kind: Callable[[int], int] = int) -> list[ExplainedSample]:
        """Return one sample per explained step, or per run of steps with the same kind of length.

        Steps that are explained together stay together.
        """
        if self.spanned:
            return [self]
        by_step = zip(
            *(ids for ids in (self.steps, self.target_ids, self.foil_ids) if ids), strict=True
        )
        groups = groupby(by_step, key=lambda columns: kind(len(self.prompt_ids) + columns[0]))
        parts = (zip(*group, strict=True) for _, group in groups)
        return [
            replace(self, steps=steps, target_ids=targets, foil_ids=foils[0] if foils else ())
            for steps, targets, *foils in parts
        ]


class Targets(NamedTuple):
    """Targets of the explained steps."""

    ids: torch.Tensor  # of targets (B, S, 1), or of targets and foils (B, S, 2)
    span: torch.Tensor | None = None  # mask of each sample's steps (B, S), if explained together

    def rows(self, samples: torch.Tensor) -> Targets:
        """Return the targets of chosen samples (N,), which may repeat."""
        return Targets(self.ids[samples], None if self.span is None else self.span[samples])


@dataclass(frozen=True)
class Batch:
    """Samples padded on the right, where causal attention never looks."""

    samples: Sequence[ExplainedSample]
    device: torch.device

    @cached_property
    def input_ids(self) -> torch.Tensor:
        """Token ids (B, T), padded with 0."""
        rows = [torch.tensor(sample.read_ids) for sample in self.samples]
        return pad_sequence(rows, batch_first=True).to(self.device)

    @cached_property
    def positions(self) -> torch.Tensor:
        """Predicting position of every step (B, S); missing steps repeat the first one."""
        return self._by_step(
            [[len(s.prompt_ids) - 1 + step for step in s.steps] for s in self.samples]
        )

    @cached_property
    def targets(self) -> Targets:
        """Targets of every step; missing steps repeat the first one."""
        columns = ("target_ids", "foil_ids") if self.samples[0].foil_ids else ("target_ids",)
        ids = [[list(getattr(sample, name)) for sample in self.samples] for name in columns]
        stacked = torch.stack([self._by_step(column) for column in ids], dim=-1)
        if not self.samples[0].spanned:
            return Targets(stacked)
        counts = torch.tensor([len(sample.steps) for sample in self.samples], device=self.device)
        steps = torch.arange(stacked.shape[1], device=self.device)
        return Targets(stacked, steps < counts[:, None])

    @cached_property
    def prompt_mask(self) -> torch.Tensor:
        """True at prompt tokens, false at generated tokens and padding (B, T)."""
        lengths = torch.tensor([len(s.prompt_ids) for s in self.samples], device=self.device)
        return torch.arange(self.input_ids.shape[1], device=self.device) < lengths[:, None]

    @cached_property
    def content_mask(self) -> torch.Tensor:
        """True at prompt tokens that come from the record (B, T).

        Raises:
            BenchmarkError: a sample has no content mask.
        """
        mask = torch.zeros_like(self.prompt_mask)
        for row, sample in enumerate(self.samples):
            if sample.content_mask is None:
                raise BenchmarkError(
                    f"sample {sample.sample_id}: which prompt tokens are content is not known"
                )
            mask[row, : len(sample.prompt_ids)] = torch.tensor(sample.content_mask)
        return mask

    def split(self, per_step: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Regroup scores of S steps, (B, T) each, as (steps, prompt tokens) of each sample."""
        stacked = torch.stack(list(per_step), dim=1)  # (B, S, T)
        return [
            stacked[row, : len(sample.steps), : len(sample.prompt_ids)]
            for row, sample in enumerate(self.samples)
        ]

    def _by_step(self, rows: list[list[int]]) -> torch.Tensor:
        width = max(len(row) for row in rows)
        return torch.tensor(
            [row + row[:1] * (width - len(row)) for row in rows], device=self.device
        )


class LanguageModel(Decoder):
    """A frozen model, tested when created; :meth:`require` refuses unsupported uses.

    Args:
        model: a causal language model loaded with the attention implementation of
            :mod:`pisoft.models.attention`.
        load_tokenizer: returns its tokenizer; called at most once, on first use.
        commit: on the hub; None for other sources.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        name: str,
        load_tokenizer: Callable[[], Any] | None = None,
        commit: str | None = None,
    ) -> None:
        super().__init__(model, name)
        self.commit = commit
        self._load_tokenizer = load_tokenizer
        self._refusals = try_model(self)
        self._independent_parts = independent_parts(self)

    @cached_property
    def tokenizer(self) -> Any:
        """The model's fast tokenizer.

        Raises:
            BenchmarkError: the model was created without one.
        """
        if self._load_tokenizer is None:
            raise BenchmarkError(f"model '{self.name}': no tokenizer was given, but one is needed")
        return self._load_tokenizer()

    def next_token_logits(
        self, embeddings: torch.Tensor, positions: torch.Tensor, **options: Any
    ) -> torch.Tensor:
        """Return logits (B, S, V) at chosen positions (B, S) for input embeddings (B, T, d).

        The last decoder layer's feed-forward block runs only at these positions if the model
        allows it.
        """
        with running_at(positions, embeddings.shape[1], self._independent_parts):
            hidden = self.hidden_states(embeddings, **options)
        return self.logits_at(hidden, positions)

    @cached_property
    def generates_padded(self) -> bool:
        """Whether padding on the left leaves the continuation of prompts unchanged."""
        return not problem_of(partial(padding_differs, self))

    @property
    def is_half_precision(self) -> bool:
        """Whether activations are rounded to half precision."""
        return self.network.get_input_embeddings().weight.dtype in HALF

    def check_ids(self, ids: Sequence[int], where: str) -> None:
        """Raise a BenchmarkError if a token id is outside the vocabulary."""
        size = self.vocabulary_size
        outside = [
            i for i in ids if isinstance(i, bool) or not (hasattr(i, "__index__") and 0 <= i < size)
        ]
        if outside:
            raise BenchmarkError(
                f"{where}: token id {outside[0]!r} is outside the vocabulary of model "
                f"'{self.name}' (allowed: 0 to {self.vocabulary_size - 1})"
            )

    def require(self, capability: Capability, who: str) -> None:
        """Raise a BenchmarkError if the model lacks a capability needed by `who`."""
        if reason := self._refusals.get(capability):
            raise BenchmarkError(
                f"{who}: model '{self.name}' (class {type(self.network).__name__}): {reason}"
            )


class ModelOutline(LanguageModel):
    """A model without weights, for methods that never run it; it is not tested.

    Args:
        network: on the meta device.
        name, commit: as for :class:`LanguageModel`.
    """

    def __init__(self, network: PreTrainedModel, name: str, commit: str | None) -> None:
        Decoder.__init__(self, network, name)
        self.device = torch.device("cpu")
        self.commit = commit
