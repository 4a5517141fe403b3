"""Testing what a model supports, on a dozen tokens when it is loaded.

The reference is the network's own forward with the eager attention of its class, not a list of
classes. Everything runs in float32 or better, so that tolerances are tight for any dtype; 16-bit
models then run once more in their own dtype, to check that they run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import torch

from pisoft.datasets.hub import first_line
from pisoft.errors import BenchmarkError
from pisoft.models.attention import (
    ATTENTION_NAME,
    AttentionInputs,
    AttentionProbe,
    AttentionRecorder,
    AttentionReplay,
    attention_implementation,
)
from pisoft.models.batching import is_out_of_memory
from pisoft.models.decoder import Decoder
from pisoft.models.precision import close

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Capability = Literal["attention", "fixed routing", "hidden keys"]

NO_INTERFACE = (
    "its class does not use the attention interface of transformers, which the attention probe "
    "needs"
)
LENGTH = 12  # tokens of the trial
PREFIX = 3  # tokens of the prefix
QUERIES_AND_KEYS = ("q_proj", "k_proj")
PADDED = (2, 6, 7)  # tokens of the prompts that are padded
WINDOW = 5  # tokens visible to layers with a window or chunks
# Relative to the largest logit. Eager attention uses a float32 softmax even in a float64 model.
TOLERANCES = {torch.float32: 1e-3, torch.float64: 1e-5}


def try_model(model: Decoder) -> dict[Capability, str]:
    """Return the capabilities that a model lacks, with reasons.

    A model whose class does not use the attention interface of transformers, or whose attention is
    not reproduced by ours, runs as its class defines it, without probe or shared prefix; if ours
    fails, with eager attention.

    Raises:
        BenchmarkError: the model's own logits are not reproduced.
    """
    problem, refusals = _tried(model)
    unseen = "" if model.network._supports_attention_backend else NO_INTERFACE
    if problem and model.network.config._attn_implementation == ATTENTION_NAME:
        unseen = unseen or problem
        # Some classes read it only from there.
        model.network.config._attn_implementation = "eager"
        model.turning_points = ()
        problem, refusals = _tried(model)
    if problem:
        raise BenchmarkError(
            f"model '{model.name}': class {type(model.network).__name__} cannot be followed: "
            f"{problem}"
        )
    if unseen:
        model.caches_prefixes = False
        refusals |= {"attention": unseen, "fixed routing": unseen}
    return refusals


@torch.no_grad()
def _tried(model: Decoder) -> tuple[str, dict[Capability, str]]:
    """Return why a model is unusable with its current attention, and the capabilities it lacks."""
    trials = [_Trial(model)]
    if model.network.get_input_embeddings().weight.dtype not in TOLERANCES:
        trials.append(_Trial(model, compared=False))
    refusals: dict[Capability, str] = {}
    for trial in trials:
        with ExitStack() as stack:
            if trial.compared:
                stack.enter_context(model.in_float32())
                stack.enter_context(_narrow_windows(model.network))
            if problem := trial.problem():
                return problem, {}
            refusals = trial.refusals() | refusals
    return "", refusals


def trial_ids(model: Decoder) -> torch.Tensor:
    """Return token ids spread over the vocabulary, (1, T)."""
    step = model.vocabulary_size / LENGTH
    return (torch.arange(LENGTH, device=model.device) * step).long()[None]


@torch.no_grad()
def padding_differs(model: Decoder) -> str:
    """Describe how padding on the left changes generation, in float32; empty if it does not."""
    ids = trial_ids(model).expand(1 + len(PADDED), -1)
    seen = torch.ones_like(ids)
    for row, length in enumerate(PADDED, start=1):
        seen[row, :-length] = 0

    def generated(ids: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        """Return the logits at every step, (B, steps, V)."""
        output = model.generate(
            ids, seen, max_new_tokens=6, output_logits=True, return_dict_in_generate=True
        )
        return torch.stack(output.logits, dim=1)

    with model.in_float32():
        plain = [generated(ids[:1, -length:], seen[:1, -length:]) for length in PADDED]
        padded = generated(ids, seen)[1:]
    return (
        "" if close(torch.cat(plain), padded, tolerance=1e-3) else "its answers depend on padding"
    )


@contextmanager
def _narrow_windows(network: PreTrainedModel) -> Iterator[None]:
    """Make attention windows and chunks shorter than the trial within the context."""
    config = network.config.get_text_config(decoder=True)
    with ExitStack() as stack:
        for name in ("sliding_window", "attention_chunk_size"):
            if (getattr(config, name, None) or 0) > WINDOW:
                stack.callback(setattr, config, name, getattr(config, name))
                setattr(config, name, WINDOW)
        yield


def _original_contexts(settings: Mapping[str, Any]) -> set[int]:
    """Return the original training lengths of the rotary embeddings in a configuration."""
    inner = (value for value in settings.values() if isinstance(value, Mapping))
    length = settings.get("original_max_position_embeddings")
    return set().union({length} if length else (), *map(_original_contexts, inner))


@dataclass
class _Trial:
    """Runs of one model on the same tokens: clean, and with some zeroed or halved."""

    model: Decoder
    compared: bool = True  # with eager attention

    def problem(self) -> str:
        """Describe why the model is unusable; empty if it is usable."""
        problems = map(
            problem_of,
            (
                self._none_is_finite,
                self._looks_ahead,
                self._plain_differs,
                self._prefix_is_lost,
                self._far_differs,
            ),
        )
        return next(filter(None, problems), "")

    def refusals(self) -> dict[Capability, str]:
        """Return the missing capabilities, with reasons."""
        refusals: dict[Capability, str] = {}
        if problem := problem_of(self._keys_are_seen):
            refusals["hidden keys"] = problem
        if problem := problem_of(self._recording_differs):
            return refusals | {"attention": problem, "fixed routing": problem}
        if problem := problem_of(self._replay_fails):
            refusals["fixed routing"] = problem
        return refusals

    @cached_property
    def _inputs(self) -> torch.Tensor:
        """Embeddings, clean and perturbed after the prefix, (2, T, d)."""
        inputs = self.model.embed(trial_ids(self.model)).repeat(2, 1, 1)
        inputs[1, PREFIX::2] /= 2  # not the embedding of any token
        inputs[1, PREFIX::4] = 0
        return inputs

    @cached_property
    def _expected(self) -> torch.Tensor:
        """The network's own logits, (2, T, V)."""
        network = self.model.network
        with self._eager():
            clean = network(input_ids=trial_ids(self.model), use_cache=False).logits
            perturbed = network(**self.model.inputs(self._inputs[1:]), use_cache=False).logits
        return torch.cat([clean, perturbed])

    def _eager(self) -> AbstractContextManager[None]:
        """Switch the network to the eager attention of its class, if results are compared."""
        network = self.model.network
        return attention_implementation(network, "eager") if self.compared else nullcontext()

    @property
    def _start(self) -> int:
        """Number of tokens read as a prefix."""
        return self.model.shareable(PREFIX, LENGTH)

    def _logits(self, start: int = 0, **options: Any) -> torch.Tensor:
        """Return logits (2, T - start, V); tokens before the start are read as a prefix."""
        prefix = self.model.read_prefix(self._inputs[:1, :start])
        hidden = self.model.hidden_states(self._inputs[:, start:], prefix=prefix, **options)
        return self.model.logits(hidden)

    def _none_is_finite(self) -> str:
        if not self.compared or self._expected.isfinite().any():
            return ""  # half precision may overflow for some prompts, which get a status
        return "none of its logits is finite: its weights may hold NaN or infinity"

    def _looks_ahead(self) -> str:
        clean, perturbed = self._expected[:, :PREFIX]
        differs = self._difference(perturbed, clean)
        return differs and "its prediction at a token depends on later tokens"

    def _plain_differs(self) -> str:
        return self._difference(self._logits(), self._expected)

    def _prefix_is_lost(self) -> str:
        """Turn off prefix caching if keys and values are not all of the model's state."""
        self.model.caches_prefixes &= not problem_of(self._prefix_differs)
        return ""

    def _prefix_differs(self) -> str:
        return self._difference(self._logits(PREFIX), self._expected[:, PREFIX:])

    def _far_differs(self) -> str:
        """Compare logits at positions within and beyond the original training lengths.

        A few tokens suffice, because position embeddings depend only on position ids.
        """
        seen = torch.ones(2, LENGTH, dtype=torch.long, device=self.model.device)
        for length in sorted(_original_contexts(self.model.network.config.to_dict())):
            within = torch.linspace(0, length - 1, LENGTH, device=self.model.device).long()[None]
            beyond = within.clone()
            beyond[:, -1] = length
            read = []
            for positions in (within, beyond):
                read.append(self._logits(attention_mask=seen, position_ids=positions))
                if problem := self._difference(read[-1], self._hidden(seen, positions)):
                    return f"at {length} tokens, {problem}"
            first, second = (logits[:, :-1] for logits in read)
            if self.compared and not close(first, second, tolerance=1e-5):
                self.model.turning_points += (length,)
        return ""

    def _keys_are_seen(self) -> str:
        """Compare runs without and with hidden tokens, which are the only perturbed ones."""
        positions = torch.arange(LENGTH, device=self.model.device)[None]
        seen = torch.ones(2, LENGTH, dtype=torch.long, device=self.model.device)
        start = self._start
        options = {"position_ids": positions[:, start:]}
        if problem := self._difference(
            self._logits(start, attention_mask=seen, **options), self._expected[:, start:]
        ):
            return f"with a mask that hides nothing, {problem}"
        seen[:, PREFIX::2] = 0
        visible = seen[0, start:].bool()
        logits = self._logits(start, attention_mask=seen, **options)[:, visible]
        if problem := self._difference(logits[1:], logits[:1]):
            return f"hidden tokens change its answer: {problem}"
        if problem := self._difference(
            logits, self._hidden(seen, positions)[:, start:][:, visible]
        ):
            return problem
        with self._eager():
            without = self.model.network(
                **self.model.inputs(self._inputs[:, seen[0].bool()]), use_cache=False
            ).logits[:, -1:]
        if self.compared and not self._difference(logits[:, -1:], without):
            return "hidden tokens leave no gap: the tokens around them become adjacent"
        return ""

    def _hidden(self, seen: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Return the network's own logits with hidden keys, (2, T, V)."""
        with self._eager():
            return self.model.network(
                **self.model.inputs(self._inputs),
                attention_mask=seen,
                position_ids=positions,
                use_cache=False,
            ).logits

    def _recording_differs(self) -> str:
        self._recorder = AttentionRecorder(layers=range(self.model.layers), by_maps=True)
        self._recorded, problem = self._counted(self._recorder)
        return problem or self._difference(self._recorded, self._expected[:, self._start :])

    def _replay_fails(self) -> str:
        clean = {
            layer: inputs.sample(0, LENGTH - self._start)
            for layer, inputs in self._recorder.inputs.items()
        }
        replay = AttentionReplay([(slice(None), clean)])
        replayed, problem = self._counted(replay)
        if problem:
            return problem
        if problem := self._difference(replayed[:1], self._recorded[:1]):
            return f"replayed on the input it was recorded of, {problem}"
        if torch.equal(replayed[1], self._recorded[1]):
            return "with its attention held, it answers as with its attention free"
        self.model.unread = self._queries_and_keys()
        if problem_of(lambda: self._queries_are_read(replay, replayed)):
            self.model.unread = ()
        return ""

    def _counted(self, probe: AttentionProbe) -> tuple[torch.Tensor, str]:
        """Return the logits with a probe, and why it was not called once per layer, or nothing."""
        layers: list[int] = []

        def counted(inputs: AttentionInputs, default: Callable[[], torch.Tensor]) -> torch.Tensor:
            layers.append(inputs.layer)
            return probe(inputs, default)

        logits = self._logits(self._start, probe=counted)
        wrong = [layer for layer in range(self.model.layers) if layers.count(layer) != 1]
        if not wrong:
            return logits, ""
        if not layers:
            return logits, "its layers do not pass the probe on to their attention"
        listed = ", ".join(map(str, wrong))
        return logits, f"the probe does not see these layers' attention exactly once: {listed}"

    def _queries_and_keys(self) -> Sequence[torch.nn.Module]:
        """Return the query and key projections of all layers; none if a layer has others."""
        parts = [
            getattr(inputs.module, name, None)
            for inputs in self._recorder.inputs.values()
            for name in QUERIES_AND_KEYS
        ]
        linear = [part for part in parts if isinstance(part, torch.nn.Linear)]
        return linear if len(linear) == len(parts) else ()

    def _queries_are_read(self, replay: AttentionReplay, replayed: torch.Tensor) -> str:
        """Check if another part, such as a gate of attention, reads the same projections."""
        logits = self._logits(self._start, probe=replay)
        return "" if torch.equal(logits, replayed) else "more than attention reads queries and keys"

    def _difference(self, logits: torch.Tensor, expected: torch.Tensor) -> str:
        """Describe how far logits are off; empty if within rounding."""
        if not self.compared:
            return ""
        finite = expected.isfinite()
        if not torch.equal(logits.isfinite(), finite):
            return "its logits are finite where those of its own eager attention are not"
        largest = float(expected[finite].abs().max())
        off = float((logits - expected)[finite].abs().max()) / (largest or 1)
        if off <= TOLERANCES[torch.promote_types(logits.dtype, torch.float32)]:
            return ""
        return f"its logits differ from its own eager attention's by {off:.2g} of the largest"


def problem_of(attempt: Callable[[], str]) -> str:
    """Return the problem that an attempt finds, in one line; exceptions are problems."""
    try:
        return attempt()
    except Exception as error:  # from any class of transformers, or its dependencies
        if is_out_of_memory(error):
            raise
        if isinstance(error, BenchmarkError):
            return str(error)
        return f"{type(error).__name__}: {first_line(error)}"
