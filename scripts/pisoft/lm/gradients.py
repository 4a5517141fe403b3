"""Gradients of the target with respect to the input embeddings, one clean forward per batch."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from pisoft.config import AttributedFunction
from pisoft.lm.model import Batch, LanguageModel


def attributed_values(
    logits: torch.Tensor, targets: torch.Tensor, function: AttributedFunction
) -> torch.Tensor:
    """Return the scalar that is differentiated, (B, S), from logits (B, S, V)."""
    values = logits.softmax(dim=-1) if function == "probability" else logits
    return values.gather(-1, targets[..., None]).squeeze(-1)


def embedding_gradients(
    model: LanguageModel, batch: Batch, function: AttributedFunction
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield (embeddings, gradients), each (B, T, d), for every explained step.

    One full-sequence forward serves all steps: a causal model's prediction at a step depends on
    the tokens before it only, so each step costs one vector-Jacobian product.
    """
    embeddings = model.embed(batch.input_ids).detach().requires_grad_(True)
    hidden = model.hidden_states(embeddings)
    values = attributed_values(model.logits_at(hidden, batch.positions), batch.targets, function)
    for step in range(values.shape[1]):
        more = step + 1 < values.shape[1]
        (gradients,) = torch.autograd.grad(values[:, step].sum(), embeddings, retain_graph=more)
        yield embeddings.detach(), gradients
