"""A decoder-only language model, split into decoder and output head.

Shapes: B samples, T positions, S chosen positions, P tokens of a prefix, d channels of an input
embedding, V vocabulary size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from transformers import GenerationConfig, LogitsProcessorList
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from pisoft.errors import BenchmarkError
from pisoft.models.attention import AttentionProbe, AttentionReplay
from pisoft.models.precision import at_least_float32, float32_head, whole_in_float32

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class _FrozenLayer(DynamicLayer):
    """A cache layer whose keys and values serve any batch and never change."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__()
        self.lazy_initialization(keys, values)
        self.keys, self.values = keys, values  # (1, G, P, D)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return prefix and new states joined along the sequence, (B, G, P + T, D)."""
        batch = key_states.shape[0]
        keys = torch.cat([self.keys.expand(batch, -1, -1, -1), key_states], dim=-2)
        values = torch.cat([self.values.expand(batch, -1, -1, -1), value_states], dim=-2)
        return keys, values


class Decoder:
    """A frozen network, run in parts.

    Raises:
        BenchmarkError: its weights are on several devices.
    """

    def __init__(self, network: PreTrainedModel, name: str) -> None:
        devices = sorted({str(parameter.device) for parameter in network.parameters()})
        if len(devices) > 1:
            where = " and ".join(devices)
            raise BenchmarkError(f"model '{name}': its weights are on {where}, not on one device")
        self.network = network.eval().requires_grad_(False)
        float32_head(network.get_output_embeddings())
        self.name = name
        self.decoder: Any = _decoder(network)
        self.device = network.get_input_embeddings().weight.device
        config = network.config.get_text_config(decoder=True)
        config.output_router_logits = False  # for a training loss that needs a padding mask
        self.layers = int(config.num_hidden_layers)
        self.vocabulary_size, self.width = map(int, network.get_input_embeddings().weight.shape)
        # Per-layer channels of an input embedding; 0 in all models but Gemma 3n and Gemma 4 E.
        self.layer_width = getattr(config, "hidden_size_per_layer_input", None) or 0
        self.width += self.layers * self.layer_width  # d
        # Maximum input length in tokens; None if not configured.
        self.context = getattr(config, "max_position_embeddings", None)
        self.blocks = _blocks(self.decoder, self.layers)
        self.caches_prefixes = True  # keys and values are its only state
        # Query and key projections, which a replay of attention skips.
        self.unread: Sequence[torch.nn.Module] = ()
        # Lengths in tokens beyond which all position embeddings change.
        self.turning_points: tuple[int, ...] = ()

    def in_float32(self) -> AbstractContextManager[None]:
        """Run the network in float32 or better, with extra memory for its largest part only."""
        return whole_in_float32(self.network, self.blocks)

    def embed(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Return input embeddings (B, T, d) of token ids (B, T).

        Per-layer embeddings, if the model has them, are further channels, so that ablation and
        gradients include them.
        """
        embeddings = self.network.get_input_embeddings()(input_ids)
        if not self.layer_width:
            return embeddings
        per_layer = self.decoder.get_per_layer_inputs(input_ids)  # (B, T, layers, channels)
        return torch.cat([embeddings, per_layer.flatten(-2).to(embeddings)], dim=-1)

    def inputs(self, embeddings: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return input embeddings (B, T, d) as keyword arguments of the network."""
        if not self.layer_width:
            return {"inputs_embeds": embeddings}
        channels = self.layers * self.layer_width
        shared, per_layer = embeddings.split([self.width - channels, channels], dim=-1)
        per_layer = per_layer.unflatten(-1, (self.layers, self.layer_width))
        return {"inputs_embeds": shared, "per_layer_inputs": per_layer}

    def hidden_states(
        self,
        embeddings: torch.Tensor,
        *,
        probe: AttentionProbe | None = None,
        prefix: Cache | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return final hidden states (B, T, width of the head) for input embeddings (B, T, d).

        Args:
            embeddings: of the tokens after the prefix.
            probe: records or replays attention.
            prefix: returned by :meth:`read_prefix`.
            attention_mask: (B, P + T), 0 at padding and at tokens whose keys are hidden; not needed
                for padding on the right.
            position_ids: (B or 1, T); required with an attention mask.
        """
        options = {
            "attention_mask": attention_mask,
            "position_ids": position_ids,
            "past_key_values": prefix,
            "probe": probe,
        }
        passed = {name: value for name, value in options.items() if value is not None}
        with ExitStack() as stack:
            for projection in self.unread if isinstance(probe, AttentionReplay) else ():
                stack.enter_context(answering(projection, partial(_zeros, projection)))
            output = self.decoder(**self.inputs(embeddings), use_cache=False, **passed)
        self._answer = type(output)
        return output.last_hidden_state

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return next-token logits (B, T, V) of final hidden states (B, T, d), float32 or better.

        The network's own forward computes them, including any scaling and soft-capping, with the
        decoder replaced by these hidden states and the head of a 16-bit model in float32.
        """
        answer = self._answer(last_hidden_state=hidden)
        with answering(self.decoder, lambda *_, **__: answer):
            return at_least_float32(self.network(inputs_embeds=hidden, use_cache=False).logits)

    def logits_at(self, hidden: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Return logits (B, S, V) at chosen positions (B, S) of hidden states (B, T, d)."""
        rows = torch.arange(hidden.shape[0], device=hidden.device)[:, None]
        return self.logits(hidden[rows, positions])

    def generate(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, *watchers: Any, **options: Any
    ) -> Any:
        """Generate greedily from token ids (B, T) with an attention mask (B, T).

        The model's generation settings, such as penalties, suppressed tokens and beams, are
        ignored: they would change which token is the most probable.

        Args:
            watchers: logits processors, called with the logits of every step.
            options: of a `GenerationConfig`.
        """
        stored = self.network.generation_config
        self.network.generation_config = GenerationConfig()
        try:
            return self.network.generate(
                input_ids=input_ids,
                attention_mask=attention_mask,
                generation_config=GenerationConfig(do_sample=False, **options),
                logits_processor=LogitsProcessorList(watchers),
            )
        finally:
            self.network.generation_config = stored

    def arithmetic(self, length: int) -> int:
        """Return the number of turning points below a length.

        LongRoPE changes the rotary embeddings of all tokens when the longest input of a batch
        exceeds the original training length. Inputs with different numbers share neither batch nor
        prefix.
        """
        return sum(length > point for point in self.turning_points)

    def shareable(self, count: int, length: int) -> int:
        """Return how many of the first `count` tokens inputs can share as a prefix: all or none."""
        alike = self.caches_prefixes and self.arithmetic(count) == self.arithmetic(length)
        return count if alike else 0

    def read_prefix(self, embeddings: torch.Tensor) -> Cache | None:
        """Return the keys and values of a :meth:`shareable` prefix (1, P, d), for any batch.

        None if P is 0.
        """
        if embeddings.shape[1] == 0:
            return None
        cache = DynamicCache()
        self.decoder(**self.inputs(embeddings), past_key_values=cache, use_cache=True)
        return Cache(layers=[_FrozenLayer(keys, values) for keys, values, _ in cache])


def _decoder(network: PreTrainedModel) -> PreTrainedModel:
    """Return the module that turns embeddings into final hidden states."""
    from transformers import PreTrainedModel

    decoder = network.get_decoder()
    if decoder is not network and isinstance(decoder, PreTrainedModel):
        return decoder
    # Classes that do not know their decoder's name return themselves, or their head.
    inside = (part for part in network.children() if isinstance(part, PreTrainedModel))
    return next(inside, network)


def _blocks(decoder: torch.nn.Module, layers: int) -> Sequence[torch.nn.Module]:
    """Return the decoder's list of layers, under any name; empty if it has none."""
    lists = [part for part in decoder.children() if isinstance(part, torch.nn.ModuleList)]
    return next((list(blocks) for blocks in lists if len(blocks) == layers), [])


@contextmanager
def answering(part: torch.nn.Module, answer: Callable[..., Any]) -> Iterator[None]:
    """Replace the call of a module, its hooks included, within the context."""
    attributes = {"_call_impl": answer, "_compiled_call_impl": None}  # torch's, for all calls
    saved = {name: part.__dict__[name] for name in attributes if name in part.__dict__}
    part.__dict__ |= attributes
    try:
        yield
    finally:
        for name in attributes:
            del part.__dict__[name]
        part.__dict__ |= saved


def call_of(part: torch.nn.Module) -> Callable[..., Any]:
    """Return the original call of a module, its hooks included, even within :func:`answering`."""
    return part._compiled_call_impl or partial(torch.nn.Module._call_impl, part)


def _zeros(projection: Any, hidden: torch.Tensor) -> torch.Tensor:
    """Return zeros in the output shape of a linear layer, without allocating them."""
    return hidden.new_zeros(1).expand(*hidden.shape[:-1], projection.out_features)
