"""Inside a decoder layer: what its output would be if its attention gave something else.

Shapes: B samples, T positions, S chosen positions, H query heads, D head width, d hidden width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from pisoft.errors import BenchmarkError
from pisoft.models.attention import AttentionInputs
from pisoft.models.model import LanguageModel
from pisoft.models.precision import at_least_float32, close, whole_in_float32
from pisoft.models.trial import problem_of, trial_ids

ZEROED = (0, 5, 11)  # tokens of the trial whose values are zeroed to compare


@dataclass(frozen=True)
class LayerCall:
    """A decoder layer at work, as seen from within its attention."""

    layer: torch.nn.Module
    again: Callable[..., torch.Tensor]  # runs it with another probe, and another input if given
    inputs: AttentionInputs  # what reached its attention
    positions: torch.Tensor  # the chosen ones, (B, S)
    residual: torch.Tensor  # the layer's input there, (B, S, d), float32 or better
    attended: torch.Tensor  # attention output there, not yet projected, (B, S, H·D), as precise

    def contributions(self) -> Iterator[torch.Tensor]:
        """Yield what each token adds to the attention output, (B, T, H·D), for every position."""
        row = self.inputs.rows(self.positions)
        values = at_least_float32(row.per_query_head(row.value))  # (B, H, T, D)
        for weights in at_least_float32(row.probabilities()).unbind(dim=2):  # (B, H, T)
            yield (weights[..., None] * values).transpose(1, 2).flatten(start_dim=2)


def run_again(
    layer: torch.nn.Module,
    given: Sequence[Any],
    named: Mapping[str, Any],
    probe: Any,
    hidden: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return a decoder layer's output (B, T, d), called as before but for probe and input."""
    named = {**named, "probe": probe}
    if hidden is not None and given:
        given = (hidden, *given[1:])
    elif hidden is not None:
        named["hidden_states"] = hidden
    output = layer(*given, **named)
    return output[0] if isinstance(output, tuple) else output


@dataclass(frozen=True)
class LayerForm:
    """How to compute what a layer would give at one position if it had not attended to a token."""

    # Gives the modules of a layer that run, which have to compute in float32.
    parts: Callable[[torch.nn.Module], list[torch.nn.Module]]
    # Gives, of a call, the number of the position and what each token contributes there
    # (B, T, H·D), first the outputs without each token, (B, T, d), and behind them on the same
    # axis, once or T times, the output as it is.
    outputs: Callable[[LayerCall, int, torch.Tensor], torch.Tensor]


TAIL = ("self_attn.o_proj", "post_attention_layernorm", "mlp")  # what layer_output runs


def layer_output(
    layer: torch.nn.Module, residual: torch.Tensor, attended: torch.Tensor
) -> torch.Tensor:
    """Return the output (…, d) of a pre-norm decoder layer, as Llama and Mistral have them.

    Args:
        residual: its input at the same positions, (…, d).
        attended: its attention output before the output projection, (…, H·D).
    """
    parts: Any = layer
    hidden = residual + parts.self_attn.o_proj(attended)
    fed = parts.mlp(parts.post_attention_layernorm(hidden))
    return hidden + (fed[0] if isinstance(fed, tuple) else fed)  # gpt-oss: with its router's scores


@contextmanager
def checkpointed_layers(model: LanguageModel) -> Iterator[None]:
    """Keep only the inputs of decoder layers for the backward pass, which computes the rest again.

    Gradients are the same to the bit, also those of what a probe has recorded inside a layer; each
    backward pass costs a forward on top. Backward passes must run inside the context. It is not
    left to transformers, which checkpoints in training mode alone.
    """
    modules: Iterator[Any] = model.decoder.modules()
    layers = [module for module in modules if isinstance(module, GradientCheckpointingLayer)]
    # The backward pass begins with the last layer, so nothing would be gained there; and hooks of
    # `next_token_logits`, which are gone by then, change what it computes.
    forwards = [(layer, layer.forward) for layer in layers[:-1]]
    for layer, forward in forwards:
        layer.forward = partial(checkpoint, forward, use_reentrant=False, preserve_rng_state=False)
    try:
        yield
    finally:
        for layer, forward in forwards:
            layer.forward = forward


def _closed_outputs(call: LayerCall, step: int, removed: torch.Tensor) -> torch.Tensor:
    # The clean output is the row of a token that contributes nothing: from the same matrix product,
    # so that rounding does not set it apart.
    removed = torch.nn.functional.pad(removed, (0, 0, 0, 1))
    attended = call.attended[:, step, None] - removed
    return layer_output(call.layer, call.residual[:, step, None], attended)


def _forward_outputs(call: LayerCall, step: int, removed: torch.Tensor) -> torch.Tensor:
    """Compute the outputs with the layer's forward: each position is the step without one token.

    After attention a layer treats each position separately, so earlier positions do not matter.
    """
    hidden = call.residual[:, step, None].expand(-1, removed.shape[1], -1)
    attended = call.attended[:, step, None].expand_as(removed)
    heads = call.inputs.query.shape[1]

    def with_output(output: torch.Tensor) -> torch.Tensor:
        by_head = output.unflatten(-1, (heads, -1))  # (B, T, H, D)
        return call.again(lambda inputs, _: by_head.to(inputs.value.dtype), hidden)

    return torch.cat([with_output(attended - removed), with_output(attended)], dim=1)


CLOSED_FORM = LayerForm(lambda layer: [*map(layer.get_submodule, TAIL)], _closed_outputs)
LAYER_FORWARD = LayerForm(lambda layer: [layer], _forward_outputs)


def _zeroing(token: int | None, inputs: AttentionInputs, _: object) -> torch.Tensor:
    """Return attention output with the value of one token zeroed; of none if it is None."""
    value = inputs.value.clone()
    if token is not None:
        value[:, :, token] = 0
    return replace(inputs, value=value).weighted_values(inputs.probabilities())


@torch.no_grad()
def visit_layers(
    model: LanguageModel,
    embeddings: torch.Tensor,
    positions: torch.Tensor,
    visit: Callable[[LayerCall], None],
) -> torch.Tensor:
    """Return the final hidden states (B, T, d) of a forward that visits every decoder layer once.

    Args:
        embeddings: its input, (B, T, d).
        positions: chosen positions, (B, S).
        visit: called with each layer's call; it may run the layer again.
    """
    rows = torch.arange(len(positions), device=positions.device)[:, None]
    arguments: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
    visiting = False

    def note_arguments(_: object, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        nonlocal arguments
        if not visiting:
            arguments = given, named

    def probe(inputs: AttentionInputs, default: Callable[[], torch.Tensor]) -> torch.Tensor:
        nonlocal visiting
        output = default()
        layer, (given, named) = model.blocks[inputs.layer], arguments
        hidden = given[0] if given else named["hidden_states"]
        visiting = True
        try:
            visit(
                LayerCall(
                    layer=layer,
                    again=partial(run_again, layer, given, named),
                    inputs=inputs,
                    positions=positions,
                    residual=at_least_float32(hidden[rows, positions]),
                    attended=at_least_float32(output[rows, positions].flatten(start_dim=2)),
                )
            )
        finally:
            visiting = False
        return output

    with ExitStack() as stack:
        for layer in model.blocks:
            hook = layer.register_forward_pre_hook(note_arguments, with_kwargs=True)
            stack.callback(hook.remove)
        return model.hidden_states(embeddings, probe=probe)


def layer_form(model: LanguageModel) -> LayerForm:
    """Return the fastest form whose outputs equal those with the values of single tokens zeroed.

    Raises:
        BenchmarkError: no form does, or the decoder's layers cannot be found.
    """
    kind = layer_class(model)
    problem = ""
    for form in (CLOSED_FORM, LAYER_FORWARD):
        problem = problem_of(partial(_differs_from_zeroing, model, form))
        if not problem:
            return form
    raise BenchmarkError(
        f"its decoder layers ({kind}) do not let the attention output be changed at one position: "
        f"{problem}"
    )


def require_closed_form(model: LanguageModel) -> None:
    """Raise a BenchmarkError unless :func:`layer_output` is what the decoder layers compute.

    It is tried on a dozen tokens.
    """
    kind = layer_class(model)
    if problem := missing_modules(model, TAIL) or problem_of(
        partial(_differs_from_zeroing, model, CLOSED_FORM)
    ):
        raise BenchmarkError(f"its decoder layers ({kind}) are not Llama's: {problem}")


def layer_class(model: LanguageModel) -> str:
    """Return the class of the decoder layers; raise if none of them can be run by itself."""
    if not model.blocks:
        raise BenchmarkError("its decoder has no list of its layers")
    kind = type(model.blocks[0]).__name__
    if model.layer_width:
        raise BenchmarkError(
            f"its decoder layers ({kind}) embed every token once more in each layer, so that no "
            "position can stand for another one"
        )
    return kind


def missing_modules(model: LanguageModel, names: Sequence[str]) -> str:
    """Return in words which modules of these names a decoder layer lacks; nothing if none."""
    for index, layer in enumerate(model.blocks):
        modules = dict(layer.named_modules())
        if missing := [name for name in names if name not in modules]:
            return f"layer {index} has no {', '.join(missing)}"
    return ""


@torch.no_grad()
def _differs_from_zeroing(model: LanguageModel, form: LayerForm) -> str:
    """Describe where a form's outputs are wrong on the trial's tokens; empty if nowhere."""
    seen, wrong = [], []

    def compare(call: LayerCall) -> None:
        seen.append(call.inputs.layer)
        (contributions,) = call.contributions()
        outputs = form.outputs(call, 0, contributions)
        clean = outputs[:, contributions.shape[1]]
        zeroed = torch.stack([outputs[:, token] for token in ZEROED])
        repeated, *without = (
            call.again(partial(_zeroing, token))[:, -1] for token in (None, *ZEROED)
        )
        expected = torch.stack(without)
        if not (
            close(repeated, clean, tolerance=1e-3)
            and close(expected - repeated, zeroed - clean, tolerance=1e-2)
        ):
            wrong.append(call.inputs.layer)

    with whole_in_float32(model.network, model.blocks):
        embeddings = model.embed(trial_ids(model))
        last = torch.tensor([[embeddings.shape[1] - 1]], device=model.device)
        visited = visit_layers(model, embeddings, last, compare)
        if not close(model.hidden_states(embeddings), visited, tolerance=1e-3):
            return "running a layer again changes those behind it"
    if seen != list(range(model.layers)):
        return "not every layer has attention that is seen exactly once"
    return f"not what zeroing values gives in layer {wrong[0]}" if wrong else ""


@torch.no_grad()
def modules_behind(model: LanguageModel) -> Sequence[torch.nn.Module]:
    """Return the modules that lead from the last layer's output to the final hidden states.

    Raises:
        BenchmarkError: there is more than modules, one behind the other.
    """
    ran: list[torch.nn.Module] = []
    outputs: list[torch.Tensor] = []

    def begin(_: torch.nn.Module, __: Any, output: Any) -> None:
        ran.clear()
        outputs.append(output[0] if isinstance(output, tuple) else output)

    def note(part: torch.nn.Module, _: Any, __: Any) -> None:
        ran.append(part)

    with ExitStack() as stack:
        stack.callback(model.blocks[-1].register_forward_hook(begin).remove)
        for part in model.decoder.children():
            stack.callback(part.register_forward_hook(note).remove)
        stack.enter_context(whole_in_float32(model.network, model.blocks))
        final = model.hidden_states(model.embed(trial_ids(model)))
        behind, hidden = list(ran), outputs[0]
        for part in behind:
            hidden = part(hidden)
    if not close(final, hidden, tolerance=1e-3):
        raise BenchmarkError("its last decoder layer is followed by more than a norm")
    return behind
