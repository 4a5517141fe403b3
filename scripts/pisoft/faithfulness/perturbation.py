"""Perturbed forwards: masks in, distances to the clean prediction out.

Both routing protocols are those of the paper (§Evaluation Protocols).

Shapes: m perturbable tokens; d embedding width; T tokens after the unperturbed prefix; V vocabulary
size; N masks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from torch.nn.functional import pad
from transformers.cache_utils import Cache

from pisoft.config.base import Ablation, Protocol
from pisoft.faithfulness.distances import hellinger, root_probabilities, total_variation
from pisoft.models.ablation import Ablator
from pisoft.models.attention import AttentionInputs, AttentionRecorder, AttentionReplay
from pisoft.models.batching import fitted_batches, warn_too_long
from pisoft.models.model import LanguageModel

# What is measured of every perturbed prediction against the clean one: Hellinger distance, total
# variation distance, and by how much the target's log-probability has changed.
MEASURES = ("distance", "total_variation", "log_probability_change")


@dataclass(frozen=True)
class PerturbationTarget:
    """The input of one step: the token ids and the perturbable positions."""

    token_ids: Sequence[int]  # prompt and the generated tokens before the step
    perturbable: np.ndarray  # positions that a perturbation may touch, increasing, (m,)
    target_id: int  # the token that is explained
    name: str = "input"  # for messages

    @property
    def prefix_ids(self) -> tuple[int, ...]:
        """Tokens before the first perturbable one; they do not depend on the mask."""
        return tuple(self.token_ids[: int(self.perturbable[0])])

    @property
    def length(self) -> int:
        """Tokens after the prefix, T."""
        return len(self.token_ids) - int(self.perturbable[0])


@dataclass(frozen=True)
class Perturbations:
    """The masks to measure on one target."""

    target: PerturbationTarget  # with at least one perturbable token
    count: int  # of masks, N
    # Gives mask number 0 … N - 1, true where something is kept: (m, 1) for whole tokens, (m, d) for
    # single elements of their embeddings.
    mask: Callable[[int], np.ndarray]

    def first_equals(self) -> list[int]:
        """Return, for each mask, the index of the first equal mask.

        Element-wise masks are slow to draw and never repeat, so they are not compared.
        """
        if self.count and self.mask(0).shape[1] > 1:
            return list(range(self.count))
        firsts: dict[bytes, int] = {}
        keys = (self.mask(number).tobytes() for number in range(self.count))
        return [firsts.setdefault(key, number) for number, key in enumerate(keys)]


@dataclass(frozen=True)
class _Clean:
    """The clean input of a target, and the model's prediction for it."""

    embeddings: torch.Tensor  # (T, d)
    columns: torch.Tensor  # perturbable positions after the prefix, (m,)
    roots: torch.Tensor  # root probabilities of the next token, (V,)
    target_id: int
    recorded: Mapping[int, AttentionInputs] | None  # by layer, for fixed routing

    def compare(self, roots: torch.Tensor) -> torch.Tensor:
        """Return the measures (n, 3) of predictions with the given root probabilities (n, V)."""
        ratio = roots[:, self.target_id] / self.roots[self.target_id]
        measures = (
            hellinger(self.roots, roots),
            total_variation(self.roots, roots),
            2 * ratio.log(),
        )
        return torch.stack(measures, dim=1)


class Perturber:
    """Runs the perturbed forwards of many targets, packed into batches.

    Tokens before the first perturbable one do not depend on the mask, so their keys and values are
    computed once and reused while targets begin with the same tokens. With `fixed` routing, every
    forward, including the clean one, uses the attention recorded on the clean input.

    Args:
        token_budget: tokens per forward batch; running out of memory halves it permanently.
        protocol: `dynamic` or `fixed` routing.
        operator: how tokens are ablated; fixed routing cannot hide keys.

    Raises:
        BenchmarkError: the model does not support fixed routing or the operator.
    """

    def __init__(
        self,
        model: LanguageModel,
        token_budget: int,
        protocol: Protocol = "dynamic",
        operator: Ablation = "zero",
    ) -> None:
        if protocol == "fixed":
            model.require("fixed routing", "protocol 'fixed'")
        self.model = model
        self.token_budget = token_budget
        self.forwards = 0  # perturbed and clean inputs read
        self.tokens = 0  # that they have after the prefix, without padding
        self._fixed = protocol == "fixed"
        self._ablate = Ablator(model, operator)
        self._prefix_ids: tuple[int, ...] = ()
        self._prefix: Cache | None = None

    def measure(self, perturbations: Sequence[Perturbations]) -> list[np.ndarray | None]:
        """Return the measures of every mask, (N, 3) float32 per item, columns as in `MEASURES`.

        Equal masks of an item, common for short inputs, are evaluated once. Non-finite logits give
        NaN; an item that does not fit into memory on its own gives None. Batches depend only on the
        items of this call.
        """
        measures: list[np.ndarray | None] = [
            np.empty((item.count, len(MEASURES)), dtype=np.float32) for item in perturbations
        ]
        groups = defaultdict(list)
        for index, item in enumerate(perturbations):
            length = len(item.target.token_ids)
            shared = self.model.shareable(len(item.target.prefix_ids), length)
            prefix_ids = item.target.prefix_ids[:shared]
            groups[prefix_ids, self.model.arithmetic(length)].append(index)
        for (prefix_ids, _), indices in groups.items():
            self._measure_behind(prefix_ids, perturbations, indices, measures)
        return measures

    def _measure_behind(
        self,
        prefix_ids: tuple[int, ...],
        perturbations: Sequence[Perturbations],
        indices: Iterable[int],
        measures: list[np.ndarray | None],
    ) -> None:
        """Fill in the measures of items that share a prefix."""
        firsts = {index: perturbations[index].first_equals() for index in indices}
        rows = [(index, number) for index in indices for number in sorted(set(firsts[index]))]
        clean: dict[int, _Clean] = {}

        def work(
            batch: list[tuple[int, int]], token_budget: int
        ) -> list[tuple[int, list[int], np.ndarray]]:
            self.token_budget = token_budget
            segments = [
                (index, [number for _, number in index_rows])
                for index, index_rows in groupby(batch, key=itemgetter(0))
                if measures[index] is not None
            ]
            if not segments:
                return []
            self._read_prefix(prefix_ids)
            for index in set(clean) - {index for index, _ in segments}:
                del clean[index]
            missing = [index for index, _ in segments if index not in clean]
            if missing:
                targets = [perturbations[index].target for index in missing]
                clean.update(zip(missing, self._read_clean(targets), strict=True))
            masks = [
                np.stack([perturbations[index].mask(number) for number in numbers])
                for index, numbers in segments
            ]
            segment_measures = self._perturb([clean[index] for index, _ in segments], masks)
            return [
                (index, numbers, measured)
                for (index, numbers), measured in zip(segments, segment_measures, strict=True)
            ]

        def give_up(row: tuple[int, int]) -> list[tuple[int, list[int], np.ndarray]]:
            index, _ = row
            measures[index] = None
            target = perturbations[index].target
            warn_too_long(f"model '{self.model.name}': {target.name}", len(target.token_ids))
            return []

        for batch_measures in fitted_batches(
            rows,
            lambda row: len(perturbations[row[0]].target.token_ids) - len(prefix_ids),
            self.token_budget,
            work,
            give_up,
        ):
            for index, numbers, measured in batch_measures:
                kept = measures[index]
                assert kept is not None
                kept[numbers] = measured
        for index, first in firsts.items():
            if (kept := measures[index]) is not None:
                measures[index] = kept[first]

    @torch.inference_mode()
    def _read_prefix(self, prefix_ids: tuple[int, ...]) -> None:
        if prefix_ids != self._prefix_ids:
            ids = torch.tensor([prefix_ids], dtype=torch.long, device=self.model.device)
            self._prefix = self.model.read_prefix(self.model.embed(ids))
            self._prefix_ids = prefix_ids

    @torch.inference_mode()
    def _read_clean(self, targets: Sequence[PerturbationTarget]) -> list[_Clean]:
        """Read the clean inputs of targets, recording their attention for fixed routing."""
        device = self.model.device
        start = len(self._prefix_ids)
        embeddings = [
            self.model.embed(torch.tensor(target.token_ids[start:], device=device))
            for target in targets
        ]
        recorder = None
        if self._fixed:
            recorder = AttentionRecorder(layers=range(self.model.layers), by_maps=True)
        roots = self._predict([read[None] for read in embeddings], recorder)
        recorded: list[Mapping[int, AttentionInputs] | None] = [None] * len(targets)
        if recorder is not None:
            recorded = [
                {layer: inputs.sample(row, len(read)) for layer, inputs in recorder.inputs.items()}
                for row, read in enumerate(embeddings)
            ]
        return [
            _Clean(
                embeddings=embeddings[row],
                columns=torch.from_numpy(target.perturbable - start).to(device),
                roots=roots[row],
                target_id=target.target_id,
                recorded=recorded[row],
            )
            for row, target in enumerate(targets)
        ]

    @torch.inference_mode()
    def _perturb(self, cleans: Sequence[_Clean], masks: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the measures (n, 3) of the masks (n, m, 1 or d) of every clean input."""
        ablated = [
            self._ablate(clean.embeddings, clean.columns, torch.from_numpy(kept))
            for clean, kept in zip(cleans, masks, strict=True)
        ]
        sizes = [len(kept) for kept in masks]
        ends = np.cumsum(sizes)
        replay = None
        if self._fixed:
            replay = AttentionReplay(
                [
                    (slice(end - size, end), clean.recorded or {})
                    for clean, size, end in zip(cleans, sizes, ends.tolist(), strict=True)
                ]
            )
        visible = [tokens for _, tokens in ablated if tokens is not None]
        predicted = self._predict([inputs for inputs, _ in ablated], replay, visible).split(sizes)
        return [
            clean.compare(perturbed).float().cpu().numpy()
            for clean, perturbed in zip(cleans, predicted, strict=True)
        ]

    def _predict(
        self, inputs: Sequence[torch.Tensor], probe: Any, visible: Sequence[torch.Tensor] = ()
    ) -> torch.Tensor:
        """Return the root probabilities of the token after every input, (B, V).

        Args:
            inputs: embeddings, (n, T, d) each, of B inputs in total with the same length T.
            probe: records or replays attention.
            visible: whether each key is visible, (n, T) each; empty: all are.
        """
        width = max(block.shape[1] for block in inputs)
        padded = [pad(block, (0, 0, 0, width - block.shape[1])) for block in inputs]
        last = torch.cat([torch.full((len(block), 1), block.shape[1] - 1) for block in inputs])
        self.forwards += len(last)
        self.tokens += int(last.sum()) + len(last)
        hidden = self._hidden_keys(visible, width) if visible else {}
        logits = self.model.next_token_logits(
            torch.cat(padded),
            last.to(self.model.device),
            probe=probe,
            prefix=self._prefix,
            **hidden,
        )
        return root_probabilities(logits[:, 0])

    def _hidden_keys(self, visible: Sequence[torch.Tensor], width: int) -> dict[str, torch.Tensor]:
        """Return the options that make a model hide keys after the prefix."""
        before = len(self._prefix_ids)
        rows = [pad(mask, (before, width - mask.shape[1]), value=True) for mask in visible]
        positions = torch.arange(before, before + width, device=self.model.device)[None]
        return {"attention_mask": torch.cat(rows).long(), "position_ids": positions}
