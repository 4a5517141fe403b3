"""Bytes: what a job holds in the memory of its model's device, and what it writes.

Peak memory is the sum of weights, activations and logits of one batch that fills the token budget;
Python and its libraries come on top (about 0.5 GB of main memory, as much on a GPU).
"""

from __future__ import annotations

from pisoft.config.models import ModelShape
from pisoft.planning.lengths import SampleLengths
from pisoft.planning.shapes import layer_parameters, vocabulary_parameters

NUMBER_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
SINGLE = 4  # bytes of a float32
FOUR_BIT = 0.5 + SINGLE / 64  # bytes per weight: nf4, and one scale for every 64 weights

ROW = 60  # bytes of a row's ids, numbers and status, before compression
TOKEN_ID = 4
CHARACTERS_PER_TOKEN = 4  # of record texts


def weight_bytes(shape: ModelShape, dtype: str, quantization: str) -> float:
    """Return the size of a loaded model; embeddings and output head are never quantised."""
    number = NUMBER_BYTES[dtype]
    of_layers = shape.layers * layer_parameters(shape)
    ends = vocabulary_parameters(shape) * (1 if shape.tied_embeddings else 2)
    return of_layers * (number if quantization == "none" else FOUR_BIT) + ends * number


def forward_bytes(shape: ModelShape, tokens: float, dtype: str) -> float:
    """Return what one layer's forward holds at its widest: residual, attention, feed-forward."""
    width = 3 * shape.hidden_size + 3 * shape.intermediate_size
    heads = (2 * shape.heads + 2 * shape.key_value_heads) * shape.head_size
    return tokens * (width + heads) * NUMBER_BYTES[dtype]


def graph_bytes(shape: ModelShape, tokens: float, dtype: str) -> float:
    """Return what all layers keep for the backward pass through frozen weights.

    Per token and layer: the scaled input of both norms, in float32; query, key, value and output of
    attention; the gate, its activation and the other factor of the feed-forward block.
    """
    number = NUMBER_BYTES[dtype]
    norms = 2 * shape.hidden_size * max(number, SINGLE)
    heads = (2 * shape.heads + 2 * shape.key_value_heads) * shape.head_size
    return shape.layers * tokens * (norms + (heads + 3 * shape.intermediate_size) * number)


def cache_bytes(shape: ModelShape, tokens: float, dtype: str) -> float:
    """Return the keys and values that generation keeps of so many tokens."""
    width = 2 * shape.key_value_heads * shape.head_size
    return shape.layers * tokens * width * NUMBER_BYTES[dtype]


def logit_bytes(shape: ModelShape, rows: float) -> float:
    """Return logits, probabilities and their roots at so many positions, in float32."""
    return 3 * rows * shape.vocabulary_size * SINGLE


def recorded_bytes(shape: ModelShape, sample: SampleLengths, dtype: str) -> float:
    """Return what fixed routing holds of one sample: queries, keys, values and outputs of every
    layer, and one layer's attention map in float32."""
    read = sample.read - sample.first
    vectors = 2 * shape.heads * read + 2 * shape.key_value_heads * sample.read
    recorded = shape.layers * vectors * shape.head_size * NUMBER_BYTES[dtype]
    return recorded + shape.heads * read * sample.read * SINGLE


def prompt_bytes(sample: SampleLengths) -> float:
    """Return the size of a row of `prompts`: ids, text, and masks of one bit per token."""
    return ROW + sample.prompt * (TOKEN_ID + CHARACTERS_PER_TOKEN + 0.5)


def generation_bytes(sample: SampleLengths) -> float:
    """Return the size of a row of `generations`: ids, text, steps and targets."""
    text = sample.output * (TOKEN_ID + CHARACTERS_PER_TOKEN)
    return ROW + text + 2 * TOKEN_ID * len(sample.steps)


def attribution_bytes(sample: SampleLengths) -> float:
    """Return the size of a sample's rows of `attributions`: a score per prompt token and step."""
    return len(sample.steps) * (ROW + SINGLE * sample.prompt)


def soft_bytes(sample: SampleLengths, grid: int, draws: int) -> float:
    """Return the size of a sample's rows of `soft`, for α = 1 and each π.

    Per draw and metric there are two distances and the change of the target's log-probability.

    Args:
        sample: its lengths.
        grid: retaining probabilities.
        draws: masks per retaining probability.
    """
    return len(sample.steps) * (grid + 1) * (ROW + 2 * 3 * SINGLE * draws)


def inspection_bytes(sample: SampleLengths, masks: int) -> float:
    """Return the size of a sample's rows of `inputs`, one for all masks of a kind, at most."""
    return len(sample.steps) * masks * ROW


def ranking_bytes(steps: int) -> float:
    """Return the size of a sample's rows of `ranking`: one bit per step, for both curves."""
    return 2 * (ROW + steps / 8)
