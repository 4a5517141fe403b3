"""Gradients of the target with respect to the input embeddings.

One full-sequence forward serves all explained steps: a causal model's prediction at a step depends
only on earlier tokens, so each step costs one vector-Jacobian product. Gradients are float32 or
better for any dtype of the model.
Shapes: B samples, T positions, S explained steps, P points of a path, d hidden width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from pisoft.config.base import AttributedFunction
from pisoft.models.model import Batch, LanguageModel, Targets
from pisoft.models.precision import at_least_float32


def attributed_values(
    logits: torch.Tensor, targets: Targets, function: AttributedFunction
) -> torch.Tensor:
    """Return the explained scalars (B, S), or (B, 1) for a span, from logits (B, S, V).

    Args:
        logits: of every token at every step.
        targets: with foils, scalars are the target's logit minus the foil's (Yin and Neubig, 2022);
            for a span, the log-probability of its tokens. Both ignore `function`.
    """
    ids, span = targets
    if span is not None:
        log_probabilities = logits.log_softmax(dim=-1).gather(-1, ids).squeeze(-1)
        return log_probabilities.where(span, 0).sum(dim=1, keepdim=True)
    contrasted = ids.shape[-1] == 2
    values = logits.softmax(dim=-1) if function == "probability" and not contrasted else logits
    target, *foil = values.gather(-1, ids).unbind(-1)
    if foil:
        return target - foil[0]
    if function == "log_odds":  # accurate even if the probability is near 1
        return target - logits.scatter(-1, ids, -torch.inf).logsumexp(dim=-1)
    return target


def embedding_gradients(
    model: LanguageModel, batch: Batch, function: AttributedFunction, **options: Any
) -> Iterator[torch.Tensor]:
    """Yield gradients (B, T, d) at the clean input for every explained step, or for the span.

    Options are passed to :meth:`LanguageModel.next_token_logits`.
    """
    embeddings = model.embed(batch.input_ids)
    positions, targets = batch.positions, batch.targets
    return _step_gradients(model, embeddings, positions, targets, function, **options)


def path_integrals(
    model: LanguageModel,
    batch: Batch,
    function: AttributedFunction,
    baseline: torch.Tensor,
    fractions: torch.Tensor,
    weights: torch.Tensor,
    rows: int,
) -> list[torch.Tensor]:
    """Return (input − baseline) ⊙ the weighted sum of gradients on the straight path between them.

    There is one tensor (B, T, d) per explained step, or one for the span.

    Args:
        baseline: start of the path, (B, T, d), float32 or better.
        fractions: points of the path, 0 = baseline, 1 = input, (B, P).
        weights: of the points, (B, P).
        rows: sequences per forward.
    """
    embeddings = model.embed(batch.input_ids)
    difference = embeddings - baseline
    count = 1 if batch.targets.span is not None else batch.positions.shape[1]
    sums = [torch.zeros_like(baseline) for _ in range(count)]
    samples, points = fractions.shape
    pairs = torch.cartesian_prod(torch.arange(samples), torch.arange(points))
    for chunk in pairs.split(rows):
        sample, point = chunk.T.to(batch.device)
        fraction = fractions[sample, point].to(baseline.dtype)[:, None, None]
        inside = baseline[sample] + fraction * difference[sample]
        weight = weights[sample, point].to(baseline.dtype)[:, None, None]
        steps = _step_gradients(
            model,
            inside.to(embeddings.dtype),
            batch.positions[sample],
            batch.targets.rows(sample),
            function,
        )
        for total, gradients in zip(sums, steps, strict=True):
            for index, gradient in zip(chunk[:, 0].tolist(), weight * gradients, strict=True):
                total[index] += gradient  # in a fixed order; index_add_ has none on a GPU
    return [difference * total for total in sums]


def _step_gradients(
    model: LanguageModel,
    embeddings: torch.Tensor,
    positions: torch.Tensor,
    targets: Targets,
    function: AttributedFunction,
    **options: Any,
) -> Iterator[torch.Tensor]:
    """Yield gradients (B, T, d) of the value of each step, or of the span."""
    embeddings = embeddings.detach().requires_grad_(True)
    logits = model.next_token_logits(embeddings, positions, **options)
    values = attributed_values(logits, targets, function)
    for (gradients,) in gradients_by_step(values, [embeddings]):
        yield at_least_float32(gradients)


def gradients_by_step(
    values: torch.Tensor, inputs: Sequence[torch.Tensor]
) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yield the gradients of every step's values (B, S); the last step frees the graph."""
    last = values.shape[1] - 1
    for step, value in enumerate(values.sum(dim=0)):
        yield torch.autograd.grad(value, inputs, retain_graph=step < last)
