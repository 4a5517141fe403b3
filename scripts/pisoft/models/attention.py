"""The attention probe: record or replay the attention of every decoder layer.

This is an implementation of the transformers attention interface. Without a probe it is exactly
the library's SDPA attention, or, for models that SDPA does not support (sinks, soft-capping), the
attention map times the values. The extra keyword argument `probe` of the model call sets a probe.
Shapes: B samples, H query heads, G key/value heads, T positions, D head width.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch.backends.cuda import SDPAParams, can_use_flash_attention
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import pad, scaled_dot_product_attention

from pisoft.errors import BenchmarkError
from pisoft.models.imports import without_collection
from pisoft.models.precision import at_least_float32

with without_collection():
    from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
    from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward
    from transformers.masking_utils import sdpa_mask

ATTENTION_NAME = "pisoft"
# Options that do not change attention: the mask already covers the window and is causal; queries
# and keys are already rotated. Options set to None or False have no effect either.
HARMLESS = {
    "cache_position",
    "is_causal",
    "output_router_logits",
    "position_ids",
    "sliding_window",
    "use_cache",
}
FUSED = ("cuda",)  # devices whose fused attention kernels take no mask


@dataclass(frozen=True)
class AttentionInputs:
    """Inputs of one layer's attention; queries and keys are rotated."""

    module: Any  # the decoder layer's attention
    query: torch.Tensor  # (B, H, T, D)
    key: torch.Tensor  # (B, G, T, D)
    value: torch.Tensor  # (B, G, T, D)
    mask: torch.Tensor | None  # (B or 1, 1, T, T), true where a key is visible; None: causal
    scaling: float
    softcap: float | None = None  # c, which bounds the scores: c·tanh(score / c)
    # Scores (H,) of an extra key without a value, so that rows of the attention map sum to less
    # than one.
    sinks: torch.Tensor | None = None

    @property
    def layer(self) -> int:
        """Index of the decoder layer, 0 = next to the embeddings."""
        return int(self.module.layer_idx)

    def probabilities(
        self, softmax: Callable[[torch.Tensor, int], torch.Tensor] = torch.softmax
    ) -> torch.Tensor:
        """Return softmax attention (B, H, T, T), computed in float32 or better and then rounded.

        Another `softmax(scores, axis)` may have another derivative.
        """
        scores = self.scores()
        if self.softcap is not None:
            scores = (scores / self.softcap).tanh() * self.softcap
        scores = scores.masked_fill(~self.visible(), torch.finfo(scores.dtype).min)
        keys = scores.shape[-1]
        if self.sinks is not None:
            sinks = self.sinks.to(scores)[:, None, None].expand(*scores.shape[:-1], 1)
            scores = torch.cat([scores, sinks], dim=-1)
        return softmax(scores, -1)[..., :keys].to(self.query.dtype)

    def sample(self, row: int, length: int) -> AttentionInputs:
        """Return the attention of one sample, without the padding after a query length."""
        selected = slice(row, row + 1)
        keys = self.key.shape[2] - self.query.shape[2] + length
        mask = self.mask
        if mask is not None:
            mask = mask.expand(len(self.query), -1, -1, -1)[selected, :, :length, :keys]
        return replace(
            self,
            query=self.query[selected, :, :length],
            key=self.key[selected, :, :keys],
            value=self.value[selected, :, :keys],
            mask=mask,
        )

    def rows(self, positions: torch.Tensor) -> AttentionInputs:
        """Return the same attention for chosen query positions (B, S) only.

        Use it for rows of the attention map, or of its scores, without the whole map.
        """
        batch = torch.arange(positions.shape[0], device=positions.device)[:, None]
        query = self.query.transpose(1, 2)[batch, positions].transpose(1, 2)
        columns = torch.arange(self.key.shape[2], device=positions.device)
        before = self.key.shape[2] - self.query.shape[2]
        visible = columns <= positions[..., None] + before  # (B, S, T)
        if self.mask is not None:
            full = self.mask.expand(positions.shape[0], -1, -1, -1)
            visible = full[batch, 0, positions]
        return replace(self, query=query, mask=visible[:, None])

    def scores(self) -> torch.Tensor:
        """Return scaled query-key products (B, H, T, T), float32 or better, before mask and cap."""
        query, key = at_least_float32(self.query), at_least_float32(self.key)
        return query @ self.per_query_head(key).transpose(2, 3) * self.scaling

    def weighted_values(self, probabilities: torch.Tensor) -> torch.Tensor:
        """Return attention output (B, T, H, D), before the output projection.

        Attention maps are (B or 1, H, T, T); one shared by all samples is never copied.
        """
        if len(probabilities) > 1:
            output = probabilities @ self.per_query_head(self.value)
            return output.transpose(1, 2).contiguous()
        batch, groups, keys, width = self.value.shape
        heads, rows = probabilities.shape[1:3]
        maps = probabilities.reshape(groups, -1, keys)  # heads of a group, one below the other
        values = self.value.permute(1, 2, 0, 3).reshape(groups, keys, -1)  # samples side by side
        output = (maps @ values).view(heads, rows, batch, width)
        return output.permute(2, 1, 0, 3).contiguous()

    def per_query_head(self, grouped: torch.Tensor) -> torch.Tensor:
        """Repeat keys or values (B, G, T, D) for every query head, (B, H, T, D)."""
        return repeat_kv(grouped, self.query.shape[1] // grouped.shape[1])

    def visible(self) -> torch.Tensor:
        """Return the mask of visible keys, (B or 1, 1, T, T) or (T, T)."""
        if self.mask is not None:
            return self.mask
        rows, columns = self.query.shape[2], self.key.shape[2]
        everything = torch.ones(rows, columns, dtype=torch.bool, device=self.query.device)
        return everything.tril(columns - rows)


AttentionProbe = Callable[[AttentionInputs, Callable[[], torch.Tensor]], torch.Tensor]
"""Returns a layer's attention output (B, T, H, D); the second argument computes the model's own."""


@dataclass
class AttentionRecorder:
    """Records attention of the chosen layers during one forward pass.

    A backward pass that recomputes layers (:func:`pisoft.models.layers.checkpointed_layers`) calls
    the recorder again; the first records are kept, because gradients flow to them.
    """

    layers: Container[int]  # indices of the layers to record
    # Layer whose attention output starts the gradient graph: gradients reach outputs recorded in
    # this layer and later ones only. None leaves the graph unchanged.
    detach_at: int | None = None
    # Compute outputs from attention maps instead of SDPA, so that a replay on the same input is
    # bit-identical.
    by_maps: bool = False
    inputs: dict[int, AttentionInputs] = field(default_factory=dict)
    outputs: dict[int, torch.Tensor] = field(default_factory=dict)

    def __call__(
        self, inputs: AttentionInputs, default: Callable[[], torch.Tensor]
    ) -> torch.Tensor:
        """Record one layer and return its output (B, T, H, D)."""
        output = inputs.weighted_values(inputs.probabilities()) if self.by_maps else default()
        if inputs.layer == self.detach_at:
            output = output.detach().requires_grad_(True)
        if inputs.layer in self.layers and inputs.layer not in self.inputs:
            self.inputs[inputs.layer] = inputs
            self.outputs[inputs.layer] = output
        return output


@dataclass(frozen=True)
class AttentionReplay:
    """Replays recorded attention maps by layer, so that only values change.

    Each segment is a slice of the batch with the records of its clean input, by layer: one sample,
    or as many as the slice has. Segments may be padded on the right. Maps are recomputed from
    recorded queries and keys, one layer at a time: all maps together are L·H·T² numbers, more than
    the weights for a prompt of a few thousand tokens.
    """

    segments: Sequence[tuple[slice, Mapping[int, AttentionInputs]]]

    def __call__(self, inputs: AttentionInputs, default: object) -> torch.Tensor:
        """Return the output (B, T, H, D) of the recorded maps on the current values."""
        outputs = []
        for rows, recorded in self.segments:
            source = recorded[inputs.layer]
            current = replace(inputs, value=inputs.value[rows, :, : source.key.shape[2]])
            output = current.weighted_values(source.probabilities())
            padding = inputs.query.shape[2] - output.shape[1]
            outputs.append(pad(output, (0, 0, 0, 0, 0, padding)) if padding else output)
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


def probed_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    indices: torch.Tensor | None = None,
    probe: AttentionProbe | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attention function of the transformers interface; see the module's docstring.

    Raises:
        BenchmarkError: the model passes an unsupported option or mask.
    """
    if indices is not None and attention_mask is not None:
        attention_mask, indices = _among(indices, attention_mask), None
    _check_options(attention_mask, {**options, "indices": indices})
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    inputs = AttentionInputs(module, query, key, value, attention_mask, scaling, softcap, s_aux)
    default = partial(attention_output, inputs, dropout=dropout, **options)
    return (default() if probe is None else probe(inputs, default)), None


def attention_output(inputs: AttentionInputs, **options: Any) -> torch.Tensor:
    """Return attention output (B, T, H, D), by SDPA if it supports the model."""
    if inputs.softcap is not None or inputs.sinks is not None:
        return inputs.weighted_values(inputs.probabilities())
    if inputs.mask is None and 1 < inputs.query.shape[2] < inputs.key.shape[2]:
        return _attention_behind_prefix(inputs)
    output, _ = sdpa_attention_forward(
        inputs.module,
        inputs.query,
        inputs.key,
        inputs.value,
        inputs.mask,
        scaling=inputs.scaling,
        **options,
    )
    return output


def _attention_behind_prefix(inputs: AttentionInputs) -> torch.Tensor:
    """Return causal attention output (B, T, H, D) after a prefix, by a fused kernel.

    transformers would let the first position see only the first key.
    """
    query, key, value = inputs.query, inputs.key, inputs.value
    grouped = SDPAParams(query, key, value, None, 0.0, False, True)
    fits = can_use_flash_attention(grouped)  # no other kernel reads the keys of a group in place
    if not fits:
        key, value = inputs.per_query_head(key), inputs.per_query_head(value)
    bias = causal_lower_right(query.shape[2], key.shape[2])
    output = scaled_dot_product_attention(
        query, key, value, attn_mask=bias, scale=inputs.scaling, enable_gqa=fits
    )
    return output.transpose(1, 2).contiguous()


def causal_mask(**options: Any) -> torch.Tensor | None:
    """Return the causal mask (B, 1, T, keys), or None where the library's SDPA needs none.

    On a GPU, it is None after a prefix as well, unless keys are hidden or outside a window, because
    fused kernels take no mask.
    """
    fused = torch.device(options["device"]).type in FUSED
    plain = options["allow_is_causal_skip"] and options["attention_mask"] is None
    window, keys = options.get("local_size"), options["kv_length"]
    all_seen = window is None or keys < window
    ends_alike = options["q_offset"] + options["q_length"] == options["kv_offset"] + keys
    return None if fused and plain and all_seen and ends_alike else sdpa_mask(**options)


def _among(indices: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Restrict a mask (B, 1, T, keys) to the keys chosen by a layer, (B, T, chosen)."""
    mask = mask.expand(len(indices), -1, -1, -1)
    return mask & torch.zeros_like(mask).scatter(-1, indices.long()[:, None], value=True)


def _check_options(mask: torch.Tensor | None, options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if name not in HARMLESS and value is not None and value is not False:
            raise BenchmarkError(f"attention is given '{name}', which cannot be followed")
    if mask is not None and (mask.dtype != torch.bool or mask.shape[1] != 1):
        raise BenchmarkError("its attention mask weights tokens, or differs between heads")


# Without the second registration the causal mask would silently be dropped.
AttentionInterface.register(ATTENTION_NAME, probed_attention)
AttentionMaskInterface.register(ATTENTION_NAME, causal_mask)


@contextmanager
def attention_implementation(network: PreTrainedModel, name: str) -> Iterator[None]:
    """Switch a network to another attention implementation within the context."""
    configured = network.config._attn_implementation
    network.set_attn_implementation(name)
    try:
        yield
    finally:
        network.set_attn_implementation(configured)
