"""Running decoder layers again with another attention output.

Shapes: B samples, T positions, S chosen positions, H query heads, D head width, d hidden width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from pisoft.errors import BenchmarkError
from pisoft.models.attention import AttentionInputs, AttentionProbe
from pisoft.models.decoder import answering, call_of
from pisoft.models.model import LanguageModel
from pisoft.models.precision import at_least_float32, close
from pisoft.models.trial import problem_of, trial_ids

ZEROED = (0, 5, 11)  # tokens of the trial whose values are zeroed for comparison


@dataclass(frozen=True)
class LayerCall:
    """One call of a decoder layer, captured inside its attention."""

    layer: torch.nn.Module
    args: Sequence[Any]  # positional arguments
    kwargs: Mapping[str, Any]  # keyword arguments
    inputs: AttentionInputs  # of its attention
    before: Mapping[torch.nn.Module, Any]  # outputs of its modules before attention
    positions: torch.Tensor  # chosen positions, (B, S)
    residual: torch.Tensor  # the layer's input there, (B, S, d), float32 or better
    attended: torch.Tensor  # unprojected attention output there, (B, S, H·D), float32 or better

    def contributions(self) -> Iterator[torch.Tensor]:
        """Yield every token's part of the attention output, (B, T, H·D), per chosen position."""
        row = self.inputs.rows(self.positions)
        values = at_least_float32(row.per_query_head(row.value))  # (B, H, T, D)
        for weights in at_least_float32(row.probabilities()).unbind(dim=2):  # (B, H, T)
            yield (weights[..., None] * values).transpose(1, 2).flatten(start_dim=2)

    def again(self, probe: AttentionProbe) -> torch.Tensor:
        """Return the layer's output (B, T, d) with another probe."""
        return run_again(self.layer, self.args, self.kwargs, probe)

    def rows(
        self,
        positions: torch.Tensor,
        hidden: torch.Tensor,
        probe: AttentionProbe | None,
        answers: Mapping[torch.nn.Module, Callable[..., Any]],
    ) -> torch.Tensor:
        """Return the layer's output (N, R, d) for R rows at each of N positions.

        Outside attention, a layer treats positions independently. So the batch axis holds the
        positions, and the sequence axis the rows to run at each.

        Args:
            positions: (N,): one of each sample, or several of a single sample.
            hidden: the layer's input, (N, R, d).
            probe: returns its attention output.
            answers: replacements for the calls of its modules.
        """
        length, rows = self.inputs.query.shape[2], hidden.shape[1]
        args = _at(tuple(self.args), length, positions, rows)
        kwargs = {name: _at(arg, length, positions, rows) for name, arg in self.kwargs.items()}
        with ExitStack() as stack:
            for part, answer in answers.items():
                stack.enter_context(answering(part, answer))
            return run_again(self.layer, args, kwargs, probe, hidden)

    def without_tokens(self, step: int, removed: torch.Tensor) -> torch.Tensor:
        """Return the outputs (B, T + 1, d) at a chosen position: without each token, then clean.

        The clean output is computed in the same matrix product, so that its rounding is no
        different.

        Args:
            step: index of the position.
            removed: contributions of the tokens there, (B, T, H·D).
        """
        positions, length = self.positions[:, step], removed.shape[1]
        removed = torch.nn.functional.pad(removed, (0, 0, 0, 1))
        attended = self.attended[:, step, None] - removed
        hidden = self.residual[:, step, None].expand(-1, length + 1, -1)

        def answer(output: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
            return at_least_float32(_at(output, length, positions, length + 1))

        answers = {part: partial(answer, output) for part, output in self.before.items()}
        return self.rows(positions, hidden, self.giving(attended), answers)

    def giving(self, attended: torch.Tensor) -> AttentionProbe:
        """Return a probe with a fixed attention output (N, R, H·D)."""
        output = attended.unflatten(-1, (self.inputs.query.shape[1], -1))
        return lambda *_: output


def _at(value: Any, length: int, positions: torch.Tensor, rows: int) -> Any:
    """Return a value at positions (N,), repeated for every row, (N, R, …); others unchanged."""
    if isinstance(value, tuple):
        return tuple(_at(item, length, positions, rows) for item in value)
    if isinstance(value, MutableMapping):  # keys and values that later layers share
        return copy(value)
    if not isinstance(value, torch.Tensor):
        return value
    if value.dim() == 4 and value.shape[1:3] == (1, length):  # a mask, which no row needs
        return value.new_ones(len(positions), 1, rows, rows)
    if value.shape[1:2] != (length,):
        return value
    samples = value.expand(len(positions), *value.shape[1:])
    chosen = samples[torch.arange(len(positions), device=positions.device), positions]
    return chosen[:, None].expand(-1, rows, *chosen.shape[1:])


def run_again(
    layer: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    probe: Any,
    hidden: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return a decoder layer's output (B, T, d) for a call with another probe and input."""
    kwargs = {**kwargs, "probe": probe}
    if hidden is not None and args:
        args = (hidden, *args[1:])
    elif hidden is not None:
        kwargs["hidden_states"] = hidden
    output = layer(*args, **kwargs)
    return output[0] if isinstance(output, tuple) else output


@contextmanager
def checkpointed_layers(model: LanguageModel) -> Iterator[None]:
    """Keep only the inputs of decoder layers for the backward pass, which recomputes the rest.

    Gradients are bit-identical, even at tensors that a probe recorded inside a layer; each backward
    pass costs an extra forward. Backward passes must run inside the context. The checkpointing of
    transformers works in training mode only.
    """
    modules: Iterator[Any] = model.decoder.modules()
    layers = [module for module in modules if isinstance(module, GradientCheckpointingLayer)]
    # Not the last layer: the backward pass begins there, so it would save nothing, and the
    # positions chosen by `next_token_logits` are no longer known.
    with ExitStack() as stack:
        for layer in layers[:-1]:
            checkpointed = partial(
                checkpoint, call_of(layer), use_reentrant=False, preserve_rng_state=False
            )
            stack.enter_context(answering(layer, checkpointed))
        yield


def _zeroing(token: int | None, inputs: AttentionInputs, _: object) -> torch.Tensor:
    """Return attention output with the value of one token zeroed, or of none."""
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
        embeddings: input, (B, T, d).
        positions: chosen positions, (B, S).
        visit: called with each layer's call; it may run the layer again.
    """
    samples = torch.arange(len(positions), device=positions.device)[:, None]
    arguments: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
    before: dict[torch.nn.Module, torch.Tensor] = {}
    visiting = False

    def note_arguments(_: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        nonlocal arguments
        if not visiting:
            arguments = args, kwargs
            before.clear()

    def note_output(part: torch.nn.Module, _: object, output: Any) -> None:
        by_position = isinstance(output, torch.Tensor) and output.shape[:2] == embeddings.shape[:2]
        if by_position and not visiting:
            before[part] = output

    def probe(inputs: AttentionInputs, default: Callable[[], torch.Tensor]) -> torch.Tensor:
        nonlocal visiting
        output = default()
        layer, (args, kwargs) = model.blocks[inputs.layer], arguments
        hidden = args[0] if args else kwargs["hidden_states"]
        if hidden.dim() != 3:
            raise BenchmarkError("its decoder layers have more than one residual stream")
        visiting = True
        try:
            visit(
                LayerCall(
                    layer=layer,
                    args=args,
                    kwargs=kwargs,
                    inputs=inputs,
                    before=dict(before),
                    positions=positions,
                    residual=at_least_float32(hidden[samples, positions]),
                    attended=at_least_float32(output[samples, positions].flatten(start_dim=2)),
                )
            )
        finally:
            visiting = False
        return output

    with ExitStack() as stack:
        for layer in model.blocks:
            stack.enter_context(layer.register_forward_pre_hook(note_arguments, with_kwargs=True))
            for part in _inner_parts(layer):
                stack.enter_context(part.register_forward_hook(note_output))
        return model.hidden_states(embeddings, probe=probe)


def _inner_parts(layer: torch.nn.Module) -> list[torch.nn.Module]:
    """Return the leaf modules of a layer's attention and feed-forward block."""
    parts = (part for child in layer.children() for part in child.modules() if part is not child)
    return [part for part in parts if next(part.children(), None) is None]


def require_rows(model: LanguageModel) -> None:
    """Raise a BenchmarkError unless rows of layers agree with zeroing values of tokens.

    This is tested on a dozen tokens.
    """
    require_layers(model)
    if problem := problem_of(partial(_differs_from_zeroing, model)):
        raise BenchmarkError(
            f"its decoder layers ({type(model.blocks[0]).__name__}) do not let the attention "
            f"output be changed at one position: {problem}"
        )


def require_layers(model: LanguageModel) -> None:
    """Raise a BenchmarkError if the decoder's layers cannot be found."""
    if not model.blocks:
        raise BenchmarkError("its decoder has no list of its layers")


@torch.no_grad()
def _differs_from_zeroing(model: LanguageModel) -> str:
    """Describe where rows are wrong on the trial's tokens; empty if not."""
    seen, wrong = [], []

    def compare(call: LayerCall) -> None:
        seen.append(call.inputs.layer)
        (contributions,) = call.contributions()
        outputs = call.without_tokens(0, contributions)
        clean = outputs[:, -1]
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

    with model.in_float32():
        embeddings = model.embed(trial_ids(model))
        last = torch.tensor([[embeddings.shape[1] - 1]], device=model.device)
        visited = visit_layers(model, embeddings, last, compare)
        if not close(model.hidden_states(embeddings), visited, tolerance=1e-3):
            return "re-running a layer changes later layers"
    if seen != list(range(model.layers)):
        return "the probe does not see the attention of every layer exactly once"
    return f"not what zeroing values gives in layer {wrong[0]}" if wrong else ""


@torch.no_grad()
def modules_behind(model: LanguageModel) -> Sequence[torch.nn.Module]:
    """Return the modules between the last layer's output and the final hidden states, in order.

    Raises:
        BenchmarkError: they are not a plain sequence of modules.
    """
    ran: list[torch.nn.Module] = []
    outputs: list[torch.Tensor] = []

    def begin(_: torch.nn.Module, __: Any, output: Any) -> None:
        ran.clear()
        outputs.append(output[0] if isinstance(output, tuple) else output)

    def note(part: torch.nn.Module, _: Any, __: Any) -> None:
        ran.append(part)

    with ExitStack() as stack:
        stack.enter_context(model.blocks[-1].register_forward_hook(begin))
        for part in model.decoder.children():
            stack.enter_context(part.register_forward_hook(note))
        stack.enter_context(model.in_float32())
        final = model.hidden_states(model.embed(trial_ids(model)))
        modules, hidden = list(ran), outputs[0]
        for part in modules:
            hidden = part(hidden)
    if not close(final, hidden, tolerance=1e-3):
        raise BenchmarkError("its last decoder layer is followed by more than a norm")
    return modules
