"""Reference implementations of methods and protocols on a network's own eager attention.

The reference uses no attention probe or its masks, no shared prefix, and no split decoder: every
number comes from the network's whole forward pass, with the attention function of its class.
Shapes: T tokens, H query heads, D head width, d hidden width, V vocabulary.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import ModuleList
from torch.nn.functional import cosine_similarity
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import eager_mask

from pisoft.models.model import ExplainedSample, LanguageModel

NAME = "own-eager"


@dataclass
class Seen:
    """Inputs and outputs of attention for one text, by layer."""

    maps: dict[int, torch.Tensor] = field(default_factory=dict)  # (H, T, T)
    queries: dict[int, torch.Tensor] = field(default_factory=dict)  # (H, T, D), scaled
    keys: dict[int, torch.Tensor] = field(default_factory=dict)  # (H, T, D)
    values: dict[int, torch.Tensor] = field(default_factory=dict)  # (H, T, D)
    outputs: dict[int, torch.Tensor] = field(default_factory=dict)  # (1, T, H, D)


def _instrumented_eager(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    seen: Seen | None = None,
    held: Mapping[int, torch.Tensor] | None = None,
    zeroed: int | None = None,
    modified: Any = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Call the eager attention of the module's class; record, fix or modify its tensors."""
    eager = sys.modules[type(module).__module__].eager_attention_forward
    layer, group = module.layer_idx, query.shape[1] // key.shape[1]
    if (chosen := options.get("indices")) is not None:  # keys selected by the layer itself
        others = torch.ones(len(query), 1, *query.shape[2:3], key.shape[2], dtype=torch.bool)
        others.scatter_(-1, chosen.long()[:, None], value=False)
        attention_mask = attention_mask.masked_fill(others, torch.finfo(query.dtype).min)
    if zeroed == layer:  # another token in each text of the batch
        texts = torch.arange(len(value))
        value = value.clone()
        value[texts, :, texts] = 0
    if held is not None:
        values = value.repeat_interleave(group, dim=1)
        return (held[layer] @ values).transpose(1, 2).contiguous(), None
    if modified is not None:
        return modified.attend(eager, module, query, key, value, attention_mask, **options), None
    output, _ = eager(module, query, key, value, attention_mask, **options)
    if seen is not None:
        # With unit vectors as values, the output is the attention map itself.
        units = torch.eye(key.shape[2], dtype=value.dtype).expand(*value.shape[:2], -1, -1)
        maps, _ = eager(module, query, key, units, attention_mask, **options)
        output = output.requires_grad_(True)
        if output.requires_grad and not output.is_leaf:
            output.retain_grad()
        seen.maps[layer] = maps[0].transpose(0, 1).detach()
        seen.queries[layer] = (query[0] * options["scaling"]).detach()
        seen.keys[layer] = key[0].repeat_interleave(group, dim=0).detach()
        seen.values[layer] = value[0].repeat_interleave(group, dim=0).detach()
        seen.outputs[layer] = output
    return output, None


AttentionInterface.register(NAME, _instrumented_eager)
AttentionMaskInterface.register(NAME, eager_mask)


class EagerModel(LanguageModel):
    """A language model that uses only its network's whole eager forward pass."""

    def __init__(
        self, network: PreTrainedModel, name: str, load_tokenizer: Callable[[], Any]
    ) -> None:
        self.network = network.eval().requires_grad_(False)
        self.name = name
        self._load_tokenizer = load_tokenizer
        self.device = network.device
        config = network.config.get_text_config()
        self.layers, self.context = config.num_hidden_layers, None
        self.vocabulary_size = len(network.get_input_embeddings().weight)
        self.width = self.embed(torch.tensor([[0]])).shape[-1]
        self.caches_prefixes, self.turning_points = False, ()
        self._refusals = {}

    def embed(self, input_ids):
        """Return input embeddings (B, T, d) of token ids (B, T)."""
        return embedded(self.network, input_ids)

    def next_token_logits(self, embeddings, positions, *, prefix=None):  # type: ignore[override]
        """Return logits (B, S, V) at chosen positions; no prefix is ever shared."""
        assert prefix is None
        rows = torch.arange(len(embeddings))[:, None]
        return every_logit(self.network, embeddings)[rows, positions]


def embedded(network: PreTrainedModel, ids: torch.Tensor) -> torch.Tensor:
    """Return embeddings (B, T, d) of token ids (B, T), followed by per-layer embeddings."""
    layer_tables = [
        table for name, table in network.named_modules() if name.endswith("embed_tokens_per_layer")
    ]
    tables = [network.get_input_embeddings(), *layer_tables]
    return torch.cat([table(ids) for table in tables], dim=-1)


def every_logit(network: PreTrainedModel, embeddings: torch.Tensor, **options: Any) -> torch.Tensor:
    """Return logits (B, T, V) for embeddings (B, T, d) of :func:`embedded`."""
    width = network.get_input_embeddings().embedding_dim
    if embeddings.shape[-1] > width:
        layers = network.config.get_text_config().num_hidden_layers
        options["per_layer_inputs"] = embeddings[..., width:].unflatten(-1, (layers, -1))
    return network(inputs_embeds=embeddings[..., :width], use_cache=False, **options).logits


def logits(network: PreTrainedModel, embeddings: torch.Tensor, **options: Any) -> torch.Tensor:
    """Return the last position's logits (V,) for embeddings (1, T, d)."""
    return every_logit(network, embeddings, **options)[0, -1]


def observed(network: PreTrainedModel, ids: list[int]) -> Seen:
    """Return the inputs and outputs of attention on a text."""
    seen = Seen()
    logits(network, embedded(network, torch.tensor([ids])), seen=seen)
    return seen


def rows(
    method: Callable[..., torch.Tensor], model: LanguageModel, chosen: Iterable[ExplainedSample]
) -> Iterator[torch.Tensor]:
    """Yield a method's scores for each sample, (steps, prompt tokens).

    The model keeps the eager attention of its class afterwards.
    """
    model.network.set_attn_implementation(NAME)
    for sample in chosen:
        yield torch.stack([
            method(model.network, [*sample.prompt_ids, *sample.output_ids[:step]], target)
            [: len(sample.prompt_ids)]
            for step, target in zip(sample.steps, sample.target_ids, strict=True)
        ])  # fmt: skip


def attention(
    network: PreTrainedModel, ids: list[int], target: int, layers: int | None = 1
) -> torch.Tensor:
    """Return the last position's attention, (T,), averaged over the last layers."""
    maps = observed(network, ids).maps
    chosen = sorted(maps)[-(layers or len(maps)) :]
    return torch.stack([maps[layer].mean(dim=0)[-1] for layer in chosen]).mean(dim=0)


def attention_rollout(network: PreTrainedModel, ids: list[int], target: int) -> torch.Tensor:
    """Return the last row of the product of all layers' maps, (T,)."""
    product = identity = torch.eye(len(ids), dtype=torch.float64)
    for _, maps in sorted(observed(network, ids).maps.items()):
        product = (maps.mean(dim=0) + identity) / 2 @ product
    return product[-1]


def grad_ellm(
    network: PreTrainedModel,
    ids: list[int],
    target: int,
    *,
    inside: torch.Tensor | None = None,
    foils: Sequence[int] = (),
    layers: int | None = None,
    token_weights: str = "loosened",
    heads: str = "merged",
    similarity: str = "dot",
    relu: str = "layer",
) -> torch.Tensor:
    """Return paper Eq. 5, (T,); λ is normalised over the tokens `inside`, (T,)."""
    seen = Seen()
    inside = torch.ones(len(ids), dtype=torch.bool) if inside is None else inside
    with torch.enable_grad():
        row = logits(network, embedded(network, torch.tensor([ids])), seen=seen)
        (row[target] - row[list(foils)].sum()).backward()
    total = torch.zeros(len(ids), dtype=torch.float64)
    for layer in sorted(seen.outputs)[-(layers or len(seen.outputs)) :]:
        keys, maps = seen.keys[layer], seen.maps[layer][:, -1]
        products = torch.einsum("hd,htd->ht", seen.queries[layer][:, -1], keys)
        gradients = seen.outputs[layer].grad
        assert gradients is not None
        sums = torch.einsum("hd,htd->ht", gradients[0, -1], seen.values[layer])
        if similarity == "cosine":
            squares = keys.square().sum(dim=-1)
            products = products / (squares.sum(0) if heads == "merged" else squares).sqrt()
        loosened = token_weights == "loosened"
        weights = products if loosened else maps
        if heads == "merged":
            weights = weights.sum(0, keepdim=True) / (1 if loosened else len(maps))
            sums = sums.sum(0, keepdim=True)
        if loosened:
            visible = maps[0] > 0
            ranged = weights[:, visible & inside]
            low, high = ranged.amin(1, keepdim=True), ranged.amax(1, keepdim=True)
            weights = (weights - low) / (high - low) if ranged.shape[1] > 1 else 1 + 0 * weights
            weights = torch.where(visible, weights.clip(0, 1), 0)
        parts = sums * weights
        total += (parts.relu() if relu == "layer" else parts).sum(0)
    return total.relu()


def grad_ellm_inseq(
    network: PreTrainedModel, ids: list[int], target: int, layers: int | None = 1
) -> torch.Tensor:
    """Evaluate the equations of Inseq's repository over the last layers, (T,), token by token."""
    attentions = [part for part in network.modules() if hasattr(part, "q_proj")]
    attentions = attentions[-(layers or len(attentions)) :]
    parts: dict[tuple[int, str], torch.Tensor] = {}

    def keep(index: int, name: str, output: torch.Tensor) -> torch.Tensor:
        parts[index, name] = output = output.clone().requires_grad_(True)
        output.retain_grad()
        return output

    handles = [
        getattr(attention, f"{name}_proj").register_forward_hook(
            lambda _, __, output, key=(index, name): keep(*key, output)
        )
        for index, attention in enumerate(attentions)
        for name in "qkvo"
    ]
    with torch.enable_grad():
        logits(network, embedded(network, torch.tensor([ids])))[target].backward()
    for handle in handles:
        handle.remove()
    total = torch.zeros(len(ids), dtype=torch.float64)
    for index in range(len(attentions)):
        query, keys, values = (parts[index, name][0].detach().double() for name in "qkv")
        weights = parts[index, "o"].grad[0, -1].double()  # type: ignore[index]
        pairs = [(c, c % keys.shape[1]) for c in range(query.shape[1])]
        cosines = torch.stack([
            sum(query[-1, c] * key[j] for c, j in pairs)
            / (query[-1].norm() * sum(key[j] ** 2 for _, j in pairs).sqrt())
            for key in keys
        ])  # fmt: skip
        low, high = cosines.min(), cosines.max()
        for token, value in enumerate(values):
            token_weight = (cosines[token] - low) / (high - low) if high - low > 1e-6 else 0
            total[token] += max(0, sum(weights[c] * value[j] for c, j in pairs) * token_weight)
    return total


def value_zeroing(
    network: PreTrainedModel,
    ids: list[int],
    target: int,
    *,
    layers: int | None = None,
    threshold: float = 1e-5,
    normalise_layers: bool = True,
    final_norm: bool = True,
) -> torch.Tensor:
    """Return shares of cosine distance, averaged over layers, (T,): one text per zeroed value."""
    decoder = network.get_decoder()
    if decoder is network or not isinstance(decoder, PreTrainedModel):
        decoder = next(part for part in network.children() if isinstance(part, PreTrainedModel))
    blocks = next(
        part
        for part in decoder.modules()
        if isinstance(part, torch.nn.ModuleList) and hasattr(part[0], "forward")
    )
    embeddings = embedded(network, torch.tensor(len(ids) * [ids]))
    outputs: list[torch.Tensor] = []
    finals: list[torch.Tensor] = []
    handles = [
        block.register_forward_hook(
            lambda _, __, output: outputs.append(
                (output[0] if isinstance(output, tuple) else output)[:, -1]
            )
        )
        for block in blocks
    ]
    handles.append(
        decoder.register_forward_hook(
            lambda _, __, output: finals.append(output.last_hidden_state[:, -1])
        )
    )

    def run(**options: Any) -> list[torch.Tensor]:
        outputs.clear()
        finals.clear()
        every_logit(network, embeddings, **options)
        return [*outputs[:-1], finals[0]] if final_norm else outputs.copy()

    clean = run()
    shares = []
    for layer in range(len(clean))[-(layers or len(clean)) :]:
        distances = 1 - cosine_similarity(run(zeroed=layer)[layer], clean[layer], dim=-1)
        distances[distances < threshold] = 0
        shares.append(distances / (distances.sum() or 1) if normalise_layers else distances)
    for handle in handles:
        handle.remove()
    return torch.stack(shares).mean(dim=0)


def attention_shares(network: PreTrainedModel, ids: list[int]) -> list[torch.Tensor]:
    """Return each layer's shares of heads and keys after attention, (H, T, T).

    The residual has the remaining share. In each channel, all parts are scaled by the change of
    the residual divided by the output of the projection.
    """
    layers = _layers(network)
    given: dict[torch.nn.Module, torch.Tensor] = {}
    given_back: dict[torch.nn.Module, torch.Tensor | None] = {}

    def note(module: torch.nn.Module, inputs: Any, named: dict[str, Any], output: Any) -> None:
        given[module] = (*inputs, *named.values())[0].detach().flatten(0, -2)
        given_back[module] = output.detach().flatten(0, -2) if isinstance(output, Tensor) else None

    projections = [_first_of(layer, PROJECTIONS) for layer in layers]
    readers = [
        None if _is_parallel(layer) else _first_of(layer, READERS[_norms_behind(layer)])
        for layer in layers
    ]
    handles = [
        module.register_forward_hook(note, with_kwargs=True)
        for module in filter(None, (*layers, *projections, *readers))
    ]
    seen = observed(network, ids)
    for handle in handles:
        handle.remove()
    shares = []
    for number, (layer, project, reader) in enumerate(
        zip(layers, projections, readers, strict=True)
    ):
        maps, values, residual = seen.maps[number], seen.values[number], given[layer]
        after = given[reader] if reader else residual + given_back[project]  # type: ignore[operator]
        factors = (after - residual) / given_back[project]
        inputs = torch.eye(seen.outputs[number][0].flatten(1).shape[1], dtype=after.dtype)
        weights = (project(inputs) - project(torch.zeros_like(inputs))).detach()  # (H·D, d)

        def proximity(part: torch.Tensor, whole: torch.Tensor = after) -> torch.Tensor:
            return (whole.abs().sum(-1) - (whole - part).abs().sum(-1)).clamp(min=0)

        head_parts = [
            proximity(maps[head, :, key, None] * (values[head, key] @ weight) * factors)
            for head, weight in enumerate(weights.split(values.shape[-1]))
            for key in range(len(ids))
        ]
        parts = torch.stack(head_parts).unflatten(0, (len(maps), -1)).transpose(1, 2)  # (H, T, T)
        shares.append(parts / (parts.sum(dim=(0, 2)) + proximity(residual))[None, :, None])
    return shares


def _layers(network: PreTrainedModel) -> ModuleList:
    count = network.config.get_text_config().num_hidden_layers
    modules = (*network.get_decoder().modules(), *network.modules())  # the decoder may be the head
    lists = (part for part in modules if isinstance(part, ModuleList))
    return next(layers for layers in lists if len(layers) == count)


# Module names: the last projection of attention, and the next reader of the residual stream, by
# whether norms follow attention and feed-forward block instead of preceding them.
PROJECTIONS = (
    *("self_attn.o_proj", "attn.c_proj", "self_attn.out_proj", "attn.Wo"),
    *("self_attn.dense", "attention.dense"),
)
BEFORE = ("pre_feedforward_layernorm", "post_attention_layernorm", "ln_2", "mlp_norm")
READERS = {False: (*BEFORE, "final_layer_norm"), True: ("mlp", "self_attn_layer_norm")}


def _is_parallel(layer: Any) -> bool:
    """Return whether a layer's attention and feed-forward block read the same stream."""
    return type(layer).__name__.startswith(("Phi", "Cohere", "GPTNeoX")) and not hasattr(
        layer, "resid_attn_dropout"
    )  # Phi 3 is sequential


def _norms_behind(layer: Any) -> bool:
    """Return whether norms follow the blocks, as in OLMo 2 and 3, and OPT 350M."""
    return type(layer).__name__.startswith("Olmo") or not getattr(
        layer, "do_layer_norm_before", True
    )


def _first_of(layer: torch.nn.Module, names: Sequence[str]) -> torch.nn.Module:
    """Return a layer's first module with one of the names."""
    modules = dict(layer.named_modules())
    return next(modules[name] for name in names if name in modules)


def ifr(network: PreTrainedModel, ids: list[int], target: int) -> torch.Tensor:
    """Return the last row of the product of all layers' shares, (T,)."""
    route = torch.eye(len(ids), dtype=torch.float64)
    for shares in attention_shares(network, ids):
        keys = shares.sum(dim=0)
        route = (keys + torch.diag(1 - keys.sum(dim=-1))) @ route
    return route[-1]


def flashtrace(network: PreTrainedModel, ids: list[int], target: int) -> torch.Tensor:
    """Return the sum of the last rows of all layers' shares, (T,)."""
    return torch.stack(attention_shares(network, ids)).sum(dim=(0, 1))[-1]


def depass(network: PreTrainedModel, ids: list[int], target: int) -> torch.Tensor:
    """Return each token's contribution to the target's logit, (T,), one component at a time.

    Each layer runs twice per component, with attention maps, router outputs and norm factors from
    the clean forward pass. The first run silences the neurons and records their inputs; the second
    multiplies the clean neurons by the component's shares. The components are zero (to subtract
    the constant that a layer adds to every component), biases, and tokens.
    """
    layers = _layers(network)
    calls: dict[torch.nn.Module, list[tuple[Any, Any, Any]]] = {}

    def note(module: torch.nn.Module, given: Any, named: Any, output: Any) -> None:
        calls.setdefault(module, []).append((given, named, output))

    with _hooked(network.modules(), note, with_kwargs=True):
        maps = observed(network, ids).maps
    norms = {
        part: _linear_norm(part, *calls[part][0][::2])
        for part in calls
        if "Norm" in type(part).__name__ and len(calls[part]) == 1
    }
    routers = {
        part: lambda *_, output=calls[part][0][2]: output
        for part in calls
        if type(part).__name__.endswith("Router")
    }
    neurons = [part for part in calls if "activation" in type(part).__module__]

    def run(layer: Any, hidden: torch.Tensor, neuron: Callable[..., torch.Tensor]) -> torch.Tensor:
        """Run a layer on a component (T, d)."""
        given, named, _ = calls[layer][0]
        named = {name: value for name, value in named.items() if name != "seen"} | {"held": maps}
        if given:
            given = (hidden[None], *given[1:])
        else:
            named["hidden_states"] = hidden[None]
        with ExitStack() as stack:
            for part, answer in {**norms, **routers}.items():
                stack.enter_context(_hooked([part], answer))
            stack.enter_context(_hooked(neurons, neuron))
            output = layer(*given, **named)
        return (output[0] if isinstance(output, tuple) else output)[0]

    first = (calls[layers[0]][0][0] or [calls[layers[0]][0][1]["hidden_states"]])[0][0].detach()
    nothing = torch.zeros_like(first)
    units = torch.eye(len(ids), dtype=first.dtype)
    components = [nothing, nothing, *(unit[:, None] * first for unit in units)]
    for layer in layers:
        entering: list[list[torch.Tensor]] = [[] for _ in components]
        silent = [
            run(layer, part, lambda _, given, out, z=z: (z.append(given[0]), 0 * out)[1])
            for part, z in zip(components, entering, strict=True)
        ]
        shares = [_shares_of(torch.stack(one)) for one in zip(*entering, strict=True)]
        clean = sum(components)
        speaking = [
            run(layer, clean, partial(_scaled, iter([share[c] for share in shares])))
            for c in range(len(components))
        ]
        components = [
            one - (silent[0] if c != 1 else 0) + neuron - speaking[0]
            for c, (one, neuron) in enumerate(zip(silent, speaking, strict=True))
        ]
    ran, model_modules = list(calls), set(network.base_model.modules())
    behind = [
        part
        for part in ran[ran.index(layers[-1]) + 1 :]
        if part in model_modules and next(part.children(), None) is None
    ]
    for part in behind:
        run_part = partial(norms[part], part) if part in norms else lambda x, _, m=part: m(*x)
        components = [run_part((component[None],), None)[0] for component in components]
    hidden: list[torch.Tensor] = []
    with torch.enable_grad(), _hooked(behind[-1:], partial(_leaf, hidden)):
        row = logits(network, embedded(network, torch.tensor([ids])))[target]
    (row,) = torch.autograd.grad(row, hidden)
    return torch.stack([(part - components[0])[-1] @ row[0, -1] for part in components[2:]])


def _scaled(factors: Iterator[torch.Tensor], _: object, __: object, output: Tensor) -> Tensor:
    return output * next(factors)


def _leaf(seen: list[torch.Tensor], _: object, __: object, output: torch.Tensor) -> torch.Tensor:
    """Record an output and make it a leaf of the gradient graph."""
    seen.append(output.detach().requires_grad_(True))
    return seen[0]


def _linear_norm(part: Any, given: tuple[Tensor], output: Tensor) -> Callable[..., Tensor]:
    """Return a hook that fixes a norm's factors at their present values."""
    centred = "LayerNorm" in type(part).__name__
    bias = 0 if getattr(part, "bias", None) is None else part.bias

    def around_mean(x: torch.Tensor) -> torch.Tensor:
        return x - x.mean(dim=-1, keepdim=True) if centred else x

    factors = ((output - bias) / around_mean(given[0])).detach()
    return lambda _, inputs, __: around_mean(inputs[0]) * factors + bias


def _shares_of(entering: torch.Tensor) -> torch.Tensor:
    """Return components' shares (2 + T, …) of the neurons' inputs; the zero component is first.

    Components of tokens that cannot reach a position are zero there and have no share.
    """
    parts = torch.cat([entering[1:2], entering[2:] - entering[:1]])
    parts[(parts.abs() < 1e-13).all(dim=-1)] = -torch.inf
    return torch.cat([0 * entering[:1], parts.softmax(dim=0).nan_to_num(0)])


@contextmanager
def _hooked(
    modules: Iterable[torch.nn.Module], hook: Callable[..., Any], **options: Any
) -> Iterator[None]:
    handles = [module.register_forward_hook(hook, **options) for module in modules]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


BY_HAND = {
    "attention": attention,
    "attention_rollout": attention_rollout,
    "depass": depass,
    "flashtrace": flashtrace,
    "grad_ellm": grad_ellm,
    "grad_ellm_inseq": grad_ellm_inseq,
    "ifr": ifr,
    "value_zeroing": value_zeroing,
}
