"""Hidden states as sums of one component per token and one of all biases.

Attention maps, norm statistics, expert choices and neuron activations are fixed at the clean
forward's, so every layer maps components to components that sum to its output (DePass, arXiv
2510.18462). Layers run their own forward on components, stacked as rows of a position; an extra row
of zeros shows the constant that biases add to every row.
Shapes: T tokens, C = 1 + T components, biases first; R = 1 + C rows, zeros first; S chosen
positions, H heads, G key-value heads, D head width, d hidden width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

import torch
from torch.nn import Module
from torch.nn.functional import pad

from pisoft.errors import BenchmarkError
from pisoft.models.attention import AttentionInputs, AttentionProbe
from pisoft.models.flow import attention_writes
from pisoft.models.layers import LayerCall, modules_behind, visit_layers
from pisoft.models.model import LanguageModel
from pisoft.models.precision import at_least_float32, close, computing_in_float32
from pisoft.models.recognition import ModuleCall, RecognisedParts, recognised_parts
from pisoft.models.trial import LENGTH, problem_of, trial_ids

TOLERANCE = 1e-3  # for sums of components

Answers = dict[Module, Callable[..., Any]]  # replacements for the calls of modules


class _Reached(Exception):
    """Ends a layer's forward once the requested values are computed."""


class ComponentForward:
    """A forward pass that tracks every token's component of the hidden states.

    Raises:
        BenchmarkError: part of a layer is not recognised, or components of a dozen tokens do not
            sum to the hidden states; the message says which.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._trying = True
        if problem := problem_of(self._try_on_tokens):
            raise BenchmarkError(f"its hidden states cannot be decomposed: {problem}")
        self._trying = False

    def _try_on_tokens(self) -> str:
        """Recognise the parts of layers; describe how components miss the states, if they do."""
        self._writes = attention_writes(self._model)
        self._parts = recognised_parts(self._model)
        self._behind = modules_behind(self._model)
        with self._model.in_float32():
            components, hidden = self.components(trial_ids(self._model), range(LENGTH), LENGTH)
        if not close(hidden, components.sum(dim=1), TOLERANCE):
            return "components do not sum to them"
        biased = any(name.endswith("bias") for name, _ in self._model.network.named_parameters())
        return "" if biased or not components[:, 0].any() else "there is a part that no token has"

    @torch.no_grad()
    def components(
        self, input_ids: torch.Tensor, positions: Any, token_budget: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return components (S, C, d) and the final hidden states (S, d) that they sum to.

        Components are float32 or better; the sum is exact up to the model's rounding.

        Args:
            input_ids: of one sample, (1, T).
            positions: chosen positions, (S,).
            token_budget: vectors of the hidden width per block of components.
        """
        model, length = self._model, input_ids.shape[1]
        all_positions = torch.arange(length, device=model.device)
        size = max(1, token_budget // (1 + length))
        blocks = [slice(start, min(start + size, length)) for start in range(0, length, size)]
        rows: torch.Tensor | None = None  # (T, R, d)
        reached = torch.eye(length, dtype=torch.bool, device=model.device)

        def add_layer(call: LayerCall) -> None:
            nonlocal rows, reached
            if rows is None:
                rows = torch.diag_embed(call.residual[0].T).permute(1, 2, 0)  # (T, T, d)
                rows = pad(rows, (0, 0, 2, 0))
            before, visible = reached, call.inputs.visible().reshape(length, length)
            reached = before | (visible.float() @ before.float() > 0)  # by the residual or a key
            write = self._writes[call.inputs.layer]
            read = before if write.beside else reached
            not_read, not_there = (~pad(mask, (2, 0), value=True) for mask in (read, reached))
            with computing_in_float32(call.layer):
                layer = _DecomposedLayer(
                    call, write.project, self._parts, model.unread, self._trying
                )
                layer.pass_on(rows, blocks, not_read, not_there)

        with _one_expert_at_a_time(model.network):
            final = visit_layers(model, model.embed(input_ids), all_positions[None], add_layer)
        assert rows is not None
        return self._pass_behind(rows[positions])[:, 1:], final[0, positions]

    def _pass_behind(self, rows: torch.Tensor) -> torch.Tensor:
        """Return rows (S, R, d) after the decoder's final modules, usually a norm."""
        inputs = rows.sum(dim=1, keepdim=True)
        with computing_in_float32(*self._behind):
            for part in self._behind:
                output = part(inputs)
                if form := self._parts.norms.get(part):
                    rows = form.linear(part, inputs, output, rows)
                else:
                    rows = part(rows)
                inputs = output
        return _without_constant(rows)


class _DecomposedLayer:
    """A decoder layer that maps components of its input to components of its output.

    With constant norm statistics, it is affine before the neurons and affine after them.

    Args:
        call: of the layer.
        project: the output projection of its attention.
        parts: of the decoder.
        unread: query and key projections.
        trying: whether to check that components of neuron inputs sum to them.
    """

    def __init__(
        self,
        call: LayerCall,
        project: Module,
        parts: RecognisedParts,
        unread: Iterable[Module],
        trying: bool,
    ) -> None:
        self._call, self._project, self._parts, self._trying = call, project, parts, trying
        self._clean: dict[Module, ModuleCall] = {}  # positions as samples
        ran, inside = self._run_clean(), {*call.layer.modules()}
        self._unread = inside & {*unread}
        self._attention = next(part for part in call.layer.children() if project in part.modules())
        neurons = [part for part in ran if part in parts.activations]
        entering = _storages(self._clean[part].args[0] for part in neurons)
        # Linear parts whose output enters neurons, and other readers of the same input: routers,
        # and the branch that is multiplied by the activated gate.
        self._gates = {part for part in ran if _storages([self._clean[part].output]) & entering}
        read = _storages(self._clean[part].args[0] for part in self._gates)
        readers = {part for part in ran if _storages(self._clean[part].args[:1]) & read}
        self._aside = (readers | inside & {*parts.routers}) - self._gates
        # Experts have their gates inside, so the second run gives them the clean input instead.
        blocks = inside & {*parts.gated}
        self._experts = [block for block in blocks if not {*block.modules()} & self._gates]
        # Activation calls after which the first run may end; None: depends on the experts hit.
        self._calls = None if self._experts else len(neurons)

    def _run_clean(self) -> list[Module]:
        """Record the calls of all parts; return the leaf modules after attention except norms."""
        call, ran = self._call, list[Module]()

        def note(part: Module, args: Any, kwargs: dict[str, Any], output: Any) -> None:
            self._clean[part] = ModuleCall(args, kwargs, output)
            if part not in self._parts.norms and next(part.children(), None) is None:
                ran.append(part)

        def probe(*inputs: Any) -> torch.Tensor:
            ran.clear()
            return clean(*inputs)

        clean = call.giving(call.attended[0, :, None])
        with _hooks(call.layer.modules(), Module.register_forward_hook, note, with_kwargs=True):
            call.rows(call.positions[0], call.residual[0, :, None], probe, {})
        return ran

    def pass_on(
        self,
        rows: torch.Tensor,
        blocks: Sequence[slice],
        not_read: torch.Tensor,
        not_there: torch.Tensor,
    ) -> None:
        """Replace rows (T, R, d) of the layer's input by rows of its output, in place.

        Args:
            rows: rows of later tokens are zero and skipped.
            blocks: positions computed at a time.
            not_read: tokens that cannot have reached what neurons read, (T, R).
            not_there: tokens that cannot have reached the layer's output, (T, R).
        """
        inputs = self._call.inputs
        groups, width = inputs.value.shape[1], inputs.value.shape[3]
        maps = at_least_float32(inputs.probabilities()[0]).unflatten(0, (groups, -1))
        values = rows.new_zeros(*rows.shape[:2], groups * width)
        for block in blocks:
            used = slice(2 + block.stop)
            values[block, used] = _without_constant(self._values(block, rows[block, used]))
        for block in blocks:
            used = slice(2 + block.stop)
            read = values[: block.stop, used].unflatten(-1, (groups, width))
            kept = maps[:, :, block, : block.stop]
            attended = torch.einsum("ghtk,krgd->trghd", kept, read).flatten(2)
            # NaN marks rows to leave out, and follows them when experts reorder rows.
            marked = rows[block, used].masked_fill(not_read[block, used, None], torch.nan)
            projected = self._project(attended)
            shares = self._shares(block, marked, projected)
            outputs = self._outputs(block, rows[block, used], projected, shares)
            outputs = _without_constant(outputs).masked_fill(not_there[block, used, None], 0)
            rows[block, used] = outputs

    def _values(self, block: slice, rows: torch.Tensor) -> torch.Tensor:
        """Return value vectors (S, R, G·D) of rows (S, R, d) of the layer's input."""
        values: list[torch.Tensor] = []

        def probe(inputs: AttentionInputs, _: object) -> torch.Tensor:
            values.append(inputs.value)
            raise _Reached

        with suppress(_Reached):
            self._run(block, rows, self._answers(self._unread, block, rows.shape[1]), probe)
        return values[0].transpose(1, 2).flatten(2)

    def _shares(
        self, block: slice, rows: torch.Tensor, projected: torch.Tensor
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Return each row's share of the neurons and part of their input, by activation call.

        Shares are the softmax of the parts over components.
        """
        shares: list[tuple[torch.Tensor, torch.Tensor]] = []

        def divide(entering: torch.Tensor) -> torch.Tensor:
            adding = _without_constant(self._by_position(entering, rows.shape[1]))
            absent = adding.isnan()
            absent[:, 1] = ~adding[:, 1].any(dim=-1, keepdim=True)  # no biases so far
            absent[:, 0] = True
            shares.append((adding.masked_fill(absent, -torch.inf).softmax(dim=1), adding))
            if len(shares) == self._calls:
                raise _Reached
            return entering

        answers = self._answers(self._aside, block, rows.shape[1])
        answers |= dict.fromkeys(self._parts.activations, divide)
        with suppress(_Reached):
            self._behind_attention(block, rows, projected, answers)
        return iter(shares)

    def _outputs(
        self,
        block: slice,
        rows: torch.Tensor,
        projected: torch.Tensor,
        shares: Iterator[tuple[torch.Tensor, torch.Tensor]],
    ) -> torch.Tensor:
        """Return the layer's output (S, R, d) of rows with given shares of the clean neurons."""
        count = rows.shape[1]

        def weigh(activation: Any, entering: torch.Tensor) -> torch.Tensor:
            share, adding = next(shares)
            clean = self._by_position(entering, count)[:, :1]  # all rows are equal
            if self._trying and not close(clean[:, 0], adding.nansum(dim=1), TOLERANCE):
                raise BenchmarkError("what enters neurons is not the sum of its components")
            return (activation.forward(clean) * share).view_as(entering)

        def read_clean(part: Module, _: object) -> Any:
            return self._at(self._clean[part].args, block, count)

        answers = self._answers(self._aside | self._gates, block, count)
        answers |= {part: partial(weigh, part) for part in self._parts.activations}
        with _hooks(self._experts, Module.register_forward_pre_hook, read_clean):
            return self._behind_attention(block, rows, projected, answers)

    def _behind_attention(
        self, block: slice, rows: torch.Tensor, projected: torch.Tensor, answers: Answers
    ) -> torch.Tensor:
        """Return the layer's output (S, R, d) of rows of its input and of projected attention."""
        output = self._clean[self._attention].output
        outputs = (projected, *output[1:]) if isinstance(output, tuple) else projected
        return self._run(block, rows, answers | {self._attention: lambda *_, **__: outputs})

    def _run(
        self,
        block: slice,
        rows: torch.Tensor,
        answers: Answers,
        probe: AttentionProbe | None = None,
    ) -> torch.Tensor:
        """Return the layer's output (S, R, d), using the norm statistics of the clean forward."""

        def norm(part: Any, x: torch.Tensor) -> torch.Tensor:
            clean = self._clean[part]
            pair = self._at((clean.args[0], clean.output), block, rows.shape[1])
            if x.shape != pair[0].shape:  # queries in the norm of keys
                return part.forward(x)
            inputs, output = (x[:, :1] if x.dim() > 2 else x for x in pair)
            return self._parts.norms[part].linear(part, inputs, output, x)

        norms = {*self._call.layer.modules()} & self._parts.norms.keys()
        answers = {part: partial(norm, part) for part in norms} | answers
        return self._call.rows(self._call.positions[0, block], rows, probe, answers)

    def _answers(self, held: Iterable[Module], block: slice, count: int) -> Answers:
        """Return calls that repeat outputs of the clean forward, for rows."""

        def answer(output: Any, *_: Any, **__: Any) -> Any:
            return output

        outputs = {part: self._at(self._clean[part].output, block, count) for part in held}
        return {part: partial(answer, output) for part, output in outputs.items()}

    def _at(self, value: Any, block: slice, count: int) -> Any:
        """Return a value at chosen positions, repeated for each of their rows.

        It has shape (T, 1, …), or (N·T, …) with positions among the rows of a matrix.
        """
        if not isinstance(value, torch.Tensor):
            return tuple(self._at(item, block, count) for item in value)
        length = self._call.positions.shape[1]
        if value.shape[:2] == (length, 1):
            return value[block].expand(-1, count, *value.shape[2:])
        chosen = value.unflatten(0, (-1, length))[:, block]
        return chosen.repeat_interleave(count, dim=1).flatten(0, 1)

    @staticmethod
    def _by_position(entering: torch.Tensor, count: int) -> torch.Tensor:
        """Return neuron inputs as (N, R, neurons): rows of a position stay together."""
        return entering.reshape(-1, count, entering.shape[-1])


@contextmanager
def _one_expert_at_a_time(network: Any) -> Iterator[None]:
    """Run experts in a loop, which keeps tokens in order; faster implementations do not."""
    configured = network.config._experts_implementation
    if configured in (None, "eager"):
        yield
        return
    network.set_experts_implementation("eager")
    try:
        yield
    finally:
        network.set_experts_implementation(configured)


@contextmanager
def _hooks(
    parts: Iterable[Module], register: Callable[..., Any], hook: Callable[..., Any], **options: Any
) -> Iterator[None]:
    with ExitStack() as stack:
        for part in parts:
            stack.enter_context(register(part, hook, **options))
        yield


def _storages(tensors: Iterable[Any]) -> set[int]:
    """Return ids of the tensors' storages; addresses would be 0 on the meta device."""
    return {x.untyped_storage()._cdata for x in tensors if isinstance(x, torch.Tensor)}


def _without_constant(rows: torch.Tensor) -> torch.Tensor:
    """Subtract the constant added by biases from rows (S, R, …), except the row of biases."""
    components = rows - rows[:, :1]
    components[:, 1] = rows[:, 1]
    return components
