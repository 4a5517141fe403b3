"""Ablation of tokens: another embedding in their place, or no attention to them.

Shapes: n masks; T positions; m perturbable tokens; d embedding width.
"""

from __future__ import annotations

import torch

from pisoft.config.base import Ablation
from pisoft.errors import BenchmarkError
from pisoft.models.baselines import reference_token
from pisoft.models.model import LanguageModel

CHUNK = 4096  # embeddings of the vocabulary that are added up at once


class Ablator:
    """Ablates the tokens that masks do not keep, by an `evaluation.operator`.

    Raises:
        BenchmarkError: the model cannot hide keys, or its tokenizer has no token to put in place.
    """

    def __init__(self, model: LanguageModel, operator: Ablation) -> None:
        if operator == "hide":
            model.require("hidden keys", "operator 'hide'")
        self._hides = operator == "hide"
        self._fill = _FILLS[operator](model) if operator in _FILLS else None

    def __call__(
        self, embeddings: torch.Tensor, columns: torch.Tensor, kept: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return the embeddings (n, T, d) and, where keys are hidden, what is seen (n, T).

        Args:
            embeddings: of the clean input, (T, d).
            columns: positions of the perturbable tokens, (m,).
            kept: masks, (n, m, 1) of whole tokens or (n, m, d) of elements.
        """
        perturbed = embeddings.repeat(len(kept), 1, 1)
        if self._hides:
            seen = torch.ones(perturbed.shape[:2], dtype=torch.bool, device=perturbed.device)
            seen[:, columns] = kept[..., 0].to(seen)
            return perturbed, seen
        share = kept.to(perturbed)
        perturbed[:, columns] *= share
        if self._fill is not None:
            perturbed[:, columns] += self._fill * (1 - share)
        return perturbed, None


@torch.inference_mode()
def mean_embedding(model: LanguageModel) -> torch.Tensor:
    """Return the mean of the embeddings of the vocabulary, (d,)."""
    ids = torch.arange(model.vocabulary_size, device=model.device)
    sums = [model.embed(chunk[None]).double().sum(dim=(0, 1)) for chunk in ids.split(CHUNK)]
    return (torch.stack(sums).sum(dim=0) / len(ids)).to(model.embed(ids[None, :1]).dtype)


@torch.inference_mode()
def unknown_embedding(model: LanguageModel) -> torch.Tensor:
    """Return the embedding of the tokenizer's unknown, else padding, else end token, (d,).

    Raises:
        BenchmarkError: it has none of these.
    """
    chosen = reference_token(model.tokenizer)
    if chosen is None:
        raise BenchmarkError(
            f"operator 'unknown': the tokenizer of model '{model.name}' has no unknown, padding or "
            "end token"
        )
    return model.embed(torch.tensor([[chosen]], device=model.device))[0, 0]


_FILLS = {"mean": mean_embedding, "unknown": unknown_embedding}
