"""The off-distribution check: predictions and attention of the model on randomly ablated inputs.

Faithfulness metrics evaluate the model on inputs that no one would write. Its entropy, answers and
attention show how far these are off-distribution. Masks keep every token with probability π,
independently of attributions: they are those of `evaluation.sampler: iid` for equal scores.

Shapes: B inputs, T tokens, m perturbable tokens, P retaining probabilities, K masks at each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pisoft.config.base import Ablation
from pisoft.config.jobs.cells import InspectJob
from pisoft.faithfulness.masks import IndependentUniforms
from pisoft.faithfulness.scores import is_evaluated
from pisoft.models.ablation import Ablator
from pisoft.models.attention import AttentionInputs, AttentionRecorder, AttentionReplay
from pisoft.models.batching import fitted_batches, warn_too_long
from pisoft.models.model import LanguageModel
from pisoft.store.parquet import NO_CONTENT_TOKENS, NONFINITE_LOGITS, OK, TOO_LONG_FOR_MEMORY
from pisoft.store.scope import perturbable_positions

Row = dict[str, Any]
Key = tuple[Ablation, int, int]  # operator, index of π, index of the mask
# What is read of an input, and of that the same of the clean one, but for the norm, which is a
# ratio of the two.
READ = ("entropy", "label_probability", "attention", "hidden_norm")
CLEAN = ("clean_entropy", "clean_label_probability", "clean_attention")


class Inspector:
    """Reads inputs whose tokens are ablated by every operator of a protocol.

    Running out of memory lowers the token budget permanently.

    Raises:
        BenchmarkError: the model does not support the protocol or an operator.
    """

    def __init__(self, model: LanguageModel, settings: InspectJob, token_budget: int) -> None:
        if settings.protocol == "fixed":
            model.require("fixed routing", "protocol 'fixed'")
        self._model = model
        self._settings = settings
        self._ablators = {name: Ablator(model, name) for name in settings.operators}
        self.token_budget = token_budget
        self.forwards = 0  # clean and perturbed inputs read
        self.tokens = 0  # of these

    def rows(self, prompt: Row, generation: Row) -> Iterator[Row]:
        """Yield `inputs` rows of every evaluated step of a sample."""
        positions = perturbable_positions(prompt, self._settings.scope)
        status = generation["status"]
        if status == OK and not len(positions):
            status = NO_CONTENT_TOKENS
        for step in generation["steps"] if status == OK else (0,):
            if not is_evaluated(step, self._settings.step_interval):
                continue
            step_status: str = status
            numbers: Mapping[tuple[Ablation, int], Row] = {}
            if status == OK:
                read = [*prompt["input_ids"], *generation["output_ids"][:step]]
                step_status, numbers = self._step(prompt, read, positions, step)
            for operator in self._settings.operators:
                for pi_index, pi in enumerate(self._settings.pi_grid):
                    yield {
                        "sample_id": prompt["sample_id"],
                        "step": step,
                        "operator": operator,
                        "pi": pi,
                        **dict.fromkeys((*READ, *CLEAN)),
                        **numbers.get((operator, pi_index), {}),
                        "status": step_status,
                    }

    @torch.inference_mode()
    def _step(
        self, prompt: Row, ids: Sequence[int], positions: np.ndarray, step: int
    ) -> tuple[str, Mapping[tuple[Ablation, int], Row]]:
        """Return a step's status and its means over draws, by operator and π index."""
        settings, name = self._settings, f"sample {prompt['sample_id']}"
        self._model.check_ids(ids, name)
        masks = _masks(settings, prompt["sample_id"], step, len(positions))
        keys = [(operator, *mask) for operator in settings.operators for mask in masks]
        reader = _Reader(self._model, prompt["label_token_ids"], ids, settings.protocol == "fixed")

        def work(batch: list[Key], token_budget: int) -> dict[Key, np.ndarray | None]:
            self.token_budget = token_budget
            readings: dict[Key, np.ndarray | None] = {}
            for operator in dict.fromkeys(key[0] for key in batch):
                chosen = [key for key in batch if key[0] == operator]
                kept = np.stack([masks[key[1:]] for key in chosen])
                read = reader.read(self._ablators[operator], positions, kept)
                readings.update(zip(chosen, read, strict=True))
            return readings

        def give_up(key: Key) -> dict[Key, np.ndarray | None]:
            warn_too_long(f"model '{self._model.name}': {name}", len(ids))
            return {key: None}

        readings: dict[Key, np.ndarray | None] = {}
        for batch in fitted_batches(keys, lambda _: len(ids), self.token_budget, work, give_up):
            readings |= batch
        self.forwards += reader.forwards
        self.tokens += reader.forwards * len(ids)
        complete = {key: numbers for key, numbers in readings.items() if numbers is not None}
        if len(complete) < len(readings):
            return TOO_LONG_FOR_MEMORY, {}
        if any(np.isnan(numbers[0]) for numbers in complete.values()):
            return NONFINITE_LOGITS, {}
        row_readings = {
            key[:2]: np.stack([complete[*key[:2], draw] for draw in range(settings.draws)])
            for key in complete
        }
        return OK, {key: _means(numbers) for key, numbers in row_readings.items()}


@dataclass
class _Reader:
    """Reads a step's clean input when it is first needed, and perturbed ones."""

    model: LanguageModel
    labels: Sequence[int]  # tokens that begin a label word; none for open generation
    ids: Sequence[int]  # of the clean input, (T,)
    fixed: bool  # whether attention is held; then there is none to read
    forwards: int = 0

    def __post_init__(self) -> None:
        self._embeddings = self.model.embed(torch.tensor(self.ids, device=self.model.device))
        self._recorder = None
        if self.fixed:
            self._recorder = AttentionRecorder(layers=range(self.model.layers), by_maps=True)
        self._clean: tuple[np.ndarray, np.ndarray] | None = None

    def read(self, ablate: Ablator, positions: np.ndarray, kept: np.ndarray) -> np.ndarray:
        """Return the measures of masks (n, m, 1), (n, 7), in the order of `READ` and `CLEAN`.

        NaN where the model's logits are not finite or a measure is undefined.
        """
        if self._clean is None:
            self._clean = self._predict(self._embeddings[None], None, self._recorder)
        (clean,), (clean_attention,) = self._clean
        columns = torch.from_numpy(positions).to(self.model.device)
        inputs, visible = ablate(self._embeddings, columns, torch.from_numpy(kept))
        replay = None
        if self._recorder is not None:
            replay = AttentionReplay([(slice(None), self._recorder.inputs)])
        numbers, attention = self._predict(inputs, visible, replay)
        lost = [positions[~row[:, 0]] for row in kept]
        # Where nothing is ablated, there is no attention on it.
        shares = [
            (received[gone].sum(), clean_attention[gone].sum()) if len(gone) else (np.nan, np.nan)
            for received, gone in zip(attention, lost, strict=True)
        ]
        on_lost, on_them_before = np.array(shares).T
        entropy, labels, norms = numbers.T
        before = [np.full(len(kept), value) for value in clean[:2]]
        return np.stack(
            [entropy, labels, on_lost, norms / clean[2], *before, on_them_before], axis=1
        )

    def _predict(
        self, embeddings: torch.Tensor, visible: torch.Tensor | None, routing: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return entropy, label words' probability and norm (B, 3), and attention (B, T).

        Args:
            embeddings: of the inputs, (B, T, d).
            visible: whether each key is visible, (B, T); None: all.
            routing: records or replays attention; None: it is free, and is read.
        """
        model, (batch, length) = self.model, embeddings.shape[:2]
        options: dict[str, Any] = {}
        if visible is not None:
            positions = torch.arange(length, device=model.device)[None]
            options = {"attention_mask": visible.long(), "position_ids": positions}
        last = torch.full((batch, 1), length - 1, device=model.device)
        norms: list[torch.Tensor] = []
        attention: list[torch.Tensor] = []  # of every layer, (B, T), mean over heads

        def look(inputs: AttentionInputs, default: Callable[[], torch.Tensor]) -> torch.Tensor:
            rows = inputs.rows(last).probabilities()[:, :, 0]
            attention.append(rows.double().mean(dim=1))
            return default()

        with ExitStack() as stack:
            for block in model.blocks[-1:]:
                hook = block.register_forward_hook(lambda _, __, out: norms.append(_last_norm(out)))
                stack.callback(hook.remove)
            hidden = model.hidden_states(embeddings, probe=routing or look, **options)
        self.forwards += batch
        probabilities = model.logits_at(hidden, last)[:, 0].double().softmax(dim=-1)  # (B, V)
        entropy = torch.special.entr(probabilities).sum(dim=-1)
        unknown = torch.full_like(entropy, torch.nan)
        numbers = (
            entropy,
            probabilities[:, list(self.labels)].sum(dim=-1) if self.labels else unknown,
            norms[0].double() if norms else unknown,
        )
        looked = torch.full((batch, length), torch.nan)
        if attention:
            looked = sum(attention[1:], attention[0]) / len(attention)
        return torch.stack(numbers, dim=1).cpu().numpy(), looked.cpu().numpy()


def _masks(
    settings: InspectJob, sample_id: str, step: int, tokens: int
) -> dict[tuple[int, int], np.ndarray]:
    uniforms = IndependentUniforms(settings.seed, sample_id, step, (tokens, 1))
    return {
        (pi_index, draw): uniforms.kept(pi_index, draw, np.full(tokens, pi))
        for pi_index, pi in enumerate(settings.pi_grid)
        for draw in range(settings.draws)
    }


def _last_norm(output: Any) -> torch.Tensor:
    states = output[0] if isinstance(output, tuple) else output
    norms: torch.Tensor = states[:, -1].float().norm(dim=-1)
    return norms


def _means(numbers: np.ndarray) -> Row:
    """Return each column's mean over the finite values of K masks (K, 7); None without any."""
    columns = [column[np.isfinite(column)] for column in numbers.T]
    return {
        name: float(values.mean()) if len(values) else None
        for name, values in zip((*READ, *CLEAN), columns, strict=True)
    }
