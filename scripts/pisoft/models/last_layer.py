"""The last decoder layer, whose feed-forward block runs only where logits are read.

Shapes: B samples, T positions, S chosen positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch

from pisoft.models.decoder import Decoder, answering, call_of
from pisoft.models.precision import close
from pisoft.models.trial import problem_of, trial_ids

CHOSEN = ((0, 7), (11, 4))  # positions of two inputs of the trial


class _Rows:
    """Chosen positions (B, S) of inputs of one length; positions may repeat."""

    def __init__(self, positions: torch.Tensor, length: int, elsewhere: float = 0.0) -> None:
        self._index = (torch.arange(len(positions), device=positions.device)[:, None], positions)
        self._shape = (len(positions), length)
        self._elsewhere = elsewhere  # a part's output at all other positions
        # Gradients reach a position once: through its first row.
        self._repeats = (positions[:, :, None] == positions[:, None]).tril(-1).any(dim=-1)  # (B, S)

    def take(self, value: Any) -> Any:
        """Return the rows (B, S, …) of a tensor (B, T, …); other values unchanged."""
        return value[self._index] if self._is_by_position(value) else value

    def run(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a part on the chosen rows; spread its output to (B, T, …).

        Raises:
            TypeError: no argument is a tensor (B, T, …).
        """
        if not any(map(self._is_by_position, (*args, *kwargs.values()))):
            raise TypeError("called without a tensor of positions")
        output = call(*map(self.take, args), **{k: self.take(v) for k, v in kwargs.items()})
        if isinstance(output, tuple):  # experts and their router's output
            return (self._spread(output[0]), *output[1:])
        return self._spread(output)

    def _spread(self, rows: torch.Tensor) -> torch.Tensor:
        repeats = self._repeats.view(*self._repeats.shape, *[1] * (rows.dim() - 2))
        whole = rows.new_full((*self._shape, *rows.shape[2:]), self._elsewhere)
        return whole.index_put(self._index, rows.where(~repeats, rows.detach()))

    def _is_by_position(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.shape[:2] == self._shape


@contextmanager
def running_at(
    positions: torch.Tensor, length: int, parts: Iterable[torch.nn.Module]
) -> Iterator[None]:
    """Run parts of a network only at chosen positions (B, S) of T; they output zeros elsewhere."""
    rows = _Rows(positions, length)
    with ExitStack() as stack:
        for part in parts:
            stack.enter_context(answering(part, partial(rows.run, call_of(part))))
        yield


@torch.no_grad()
def independent_parts(model: Decoder) -> Sequence[torch.nn.Module]:
    """Return the parts of the last layer that may run at chosen positions only.

    This is usually its feed-forward block. It is tested on a dozen tokens in float32.
    """
    ids = trial_ids(model)
    ids = torch.cat([ids, ids.flip(-1)])
    positions = torch.tensor(CHOSEN, device=model.device)
    rows = _Rows(positions, ids.shape[1], elsewhere=torch.nan)  # spoils all readers
    calls: list[tuple[torch.nn.Module, Callable[[], Any]]] = []

    def logits(parts: Sequence[torch.nn.Module] = ()) -> torch.Tensor:
        with running_at(positions, ids.shape[1], parts):
            return model.logits_at(model.hidden_states(model.embed(ids)), positions)

    def note(layer: torch.nn.Module, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        calls.append((layer, partial(layer, *args, **kwargs)))

    with model.in_float32():
        with ExitStack() as stack:
            for last in model.blocks[-1:]:
                stack.enter_context(last.register_forward_pre_hook(note, with_kwargs=True))
            whole = logits()
        parts = [
            part
            for layer, call in calls
            for part in layer.children()
            if any(parameter.dim() > 1 for parameter in part.parameters())
            and not problem_of(partial(_depends, part, call, rows))
        ]
        return parts if parts and close(whole, logits(parts), tolerance=1e-4) else ()


def _depends(part: torch.nn.Module, layer: Callable[[], Any], rows: _Rows) -> str:
    """Describe how a part depends on positions that are not chosen; empty if it does not."""
    compute = call_of(part)
    alike = []

    def compare(*args: Any, **kwargs: Any) -> Any:
        whole, chosen = compute(*args, **kwargs), rows.run(compute, *args, **kwargs)
        alike.append(_close_at(rows, whole, chosen))
        return chosen

    whole = layer()
    with answering(part, compare):
        alike.append(_close_at(rows, whole, layer()))
    return "" if alike == [True, True] else "it reads other positions, or is read there"


def _close_at(rows: _Rows, *outputs: Any) -> bool:
    """Return whether outputs of a part are equal at chosen positions, up to rounding."""
    first, second = (rows.take(out[0] if isinstance(out, tuple) else out) for out in outputs)
    return close(first, second, tolerance=1e-5)
