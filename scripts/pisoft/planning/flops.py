"""Floating-point operations of forward passes: a multiplication and an addition count as two.

Counted are matrix products: projections, attention, output head. Attention is causal, so a token
meets itself and those before it: half of what a counter of full matrices would say. Norms, softmax
and element-wise products are left out; they take time, but few operations.
"""

from __future__ import annotations

from pisoft.config.models import ModelShape
from pisoft.planning.shapes import (
    feed_forward_parameters,
    layer_parameters,
    vocabulary_parameters,
)

# Of a training step: forward, gradients of activations, gradients of weights. An attribution's
# backward pass lacks the last: weights are frozen, so it costs what a forward pass does.
TRAINING_FORWARDS = 3


def forward_flops(
    shape: ModelShape, tokens: float, *, prefix: float = 0, positions: float = 0
) -> float:
    """Return FLOPs of a forward pass with every layer computed at every token.

    2·N·T + 2·V·d·S + 2·L·H·D·T·(2·P + T + 1), N the weights of all L layers.

    Args:
        shape: sizes of the model.
        tokens: read by this forward, T.
        prefix: tokens before, whose keys and values are there already, P.
        positions: at which logits are computed, S.
    """
    linear = 2 * shape.layers * layer_parameters(shape) * tokens
    pairs = tokens * (2 * prefix + tokens + 1) / 2  # of a token and one that it sees
    attention = 4 * shape.layers * shape.heads * shape.head_size * pairs
    return linear + attention + 2 * vocabulary_parameters(shape) * positions


def next_token_flops(
    shape: ModelShape, tokens: float, *, prefix: float = 0, positions: float = 1
) -> float:
    """Return FLOPs of a forward pass whose last feed-forward block runs where it is read.

    That is `LanguageModel.next_token_logits`: the block runs at the S positions, and once more at
    one whose output the decoder carries along.
    """
    saved = 2 * feed_forward_parameters(shape) * (tokens - positions - 1)
    return forward_flops(shape, tokens, prefix=prefix, positions=positions) - saved
