"""Comparing a model family with its own eager attention: a row of the page of families."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from helpers.attributions import build
from helpers.eager_reference import BY_HAND, NAME, EagerModel, embedded, logits, observed
from helpers.evaluations import distances
from helpers.families import FAMILIES, network
from helpers.modified_backward_reference import MODIFIED
from helpers.random_models import VOCABULARY
from helpers.tiny_tokenizers import numbered_tokenizer
from pisoft.attribution import available_methods
from pisoft.attribution.base import AttributionMethod
from pisoft.config.jobs.fields import LoadedModel
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.perturbation import PerturbationTarget
from pisoft.models.attention import AttentionRecorder
from pisoft.models.generation import continue_greedily
from pisoft.models.loading import load_model
from pisoft.models.model import Batch, ExplainedSample, LanguageModel

METHODS = available_methods()
PROTOCOLS = ("dynamic", "fixed")
HIDE = "hide"
GENERATION = "generation"
EVERYTHING = (*PROTOCOLS, HIDE, GENERATION, *METHODS)
BOUND = 1e-5  # eager attention uses a float32 softmax even in a float64 model
PROMPT = [1, 40, 41, 8, 9, 10, 33, 71, 5, 64, 12, 77, 28, 53, 6, 90, 19, 45, 82, 30]
# On both sides of every length at which a tiny model's arithmetic changes.
PROMPTS = (PROMPT[:3], PROMPT)
CONTINUED = (PROMPT, PROMPT[:3], PROMPT[:14])  # new tokens exceed such lengths
TARGET = 17
# By length. Tokens before the first are a shared prefix, which LongRoPE forbids in long inputs.
PERTURBABLE = {3: [1, 2], 20: [4, 9, 17, 18]}
# Each zeroes a token of the short prompt and one in the last window of the long one.
MASKS = np.array([[0, 1, 0, 1], [1, 0, 0, 0], [0, 0, 0, 0], [1, 0, 1, 0]], dtype=bool)
OPTIONS = {  # the defaults take as long as all other methods
    "reagent": {"max_probe_steps": 3},
    "integrated_gradients": {"steps": 4},
    "mask_regression": {"forwards": 12},
}
NEW_TOKENS, TOKEN_BUDGET = 5, 1000
NO = "–"


@dataclass
class Row:
    """Results of one family."""

    family: str
    cells: dict[str, str] = field(default_factory=dict)  # by protocol and method
    refusals: dict[str, list[str]] = field(default_factory=dict)  # methods or protocols, by message
    notes: list[str] = field(default_factory=list)

    def refuse(self, who: str, error: BenchmarkError) -> None:
        """Record the message of a refusal."""
        self.cells[who] = NO
        message = str(error)
        for kind in ("protocol", "operator", "method"):
            message = message.removeprefix(f"{kind} '{who}': ")
        self.refusals.setdefault(message, []).append(who)

    def table_line(self) -> str:
        """Return the family's line of the table."""
        stem, _ = FAMILIES[self.family]
        cells = [
            self.family,
            f"`{stem}`",
            *(self.cells[who] for who in EVERYTHING),
        ]
        return f"| {' | '.join([*cells, *self.notes])} |"

    def refusal_lines(self) -> list[str]:
        """Return the refusals with their messages."""
        return [
            f"- {self.family}: {'everything' if len(who) > len(METHODS) else ', '.join(who)}: "
            f"`{message}`"
            for message, who in self.refusals.items()
        ]


@cache
@torch.no_grad()
def row_of(family: str) -> Row:
    """Load one family like the workflow, and compare all its results with eager attention.

    Raises:
        AssertionError: a result differs.
    """
    row = Row(family)
    try:
        model = _loaded(network(family, "eager"), family)
    except BenchmarkError as error:
        for who in EVERYTHING:
            row.refuse(who, error)
        row.notes = [NO] * 4
        return row
    plain = network(family, "eager" if "attention" in model._refusals else NAME)
    for protocol in PROTOCOLS:
        _try(row, protocol, partial(_protocol_error, model, plain, protocol))
    _try(row, HIDE, partial(_hidden_error, model, plain))
    _try(row, GENERATION, partial(_generation_error, model, plain), (CONTINUED,))
    for name in METHODS:
        _try(row, name, partial(_method_error, model, plain, name))
    padded = "yes" if model.generates_padded else "no"
    row.notes = [padded, _keeps_nothing(model), _keeps_experts(model, plain), _has_window(model)]
    return row


def _loaded(plain: PreTrainedModel, family: str) -> LanguageModel:
    """Save a network and load it like a job."""
    settings = LoadedModel(name=family, dtype="float64", device="cpu")
    with tempfile.TemporaryDirectory() as folder:
        plain.save_pretrained(folder)
        model = load_model(settings, Path(folder))
    model._load_tokenizer = lambda: numbered_tokenizer(VOCABULARY)
    return model


def _try(
    row: Row, who: str, error_of: Callable[[Any], float], inputs: Sequence[Any] = PROMPTS
) -> None:
    for item in inputs:
        try:
            error = error_of(item)
        except BenchmarkError as refusal:
            row.refuse(who, refusal)
            return
        assert error <= BOUND, f"{row.family}: {who} is off by {error:.2g} for {item}"
    row.cells[who] = "✓"


def target_of(prompt: list[int]) -> PerturbationTarget:
    """Return a prompt with its perturbed tokens."""
    return PerturbationTarget(prompt, np.array(PERTURBABLE[len(prompt)]), TARGET)


def masks_of_target(target: PerturbationTarget) -> np.ndarray:
    """Return masks of a target's perturbable tokens, (N, m)."""
    return MASKS[:, : len(target.perturbable)]


def _perturbed(
    target: PerturbationTarget, table: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """Return a prompt's embeddings under every mask, (N, T, d)."""
    inputs = table(torch.tensor([target.token_ids])).repeat(len(MASKS), 1, 1)
    inputs[:, target.perturbable] *= torch.from_numpy(masks_of_target(target))[..., None]
    return inputs


def _protocol_error(
    model: LanguageModel, plain: PreTrainedModel, protocol: str, prompt: list[int]
) -> float:
    """Return the error of distances in one batch after a prefix, against single forwards."""
    target = target_of(prompt)
    measured = distances(model, target, masks_of_target(target), protocol=protocol)
    held = observed(plain, prompt).maps if protocol == "fixed" else None
    clean = logits(plain, embedded(plain, torch.tensor([prompt]))).softmax(-1)
    expected = [
        (1 - (clean * logits(plain, row[None], held=held).softmax(-1)).sqrt().sum()).sqrt()
        for row in _perturbed(target, partial(embedded, plain))
    ]
    return _error(torch.from_numpy(measured).double(), torch.stack(expected))


def _hidden_error(model: LanguageModel, plain: PreTrainedModel, prompt: list[int]) -> float:
    """Return the error of distances with hidden keys, against the network's own padding."""
    target = target_of(prompt)
    measured = distances(model, target, masks_of_target(target), operator=HIDE)
    visible = torch.ones(len(MASKS) + 1, len(prompt), dtype=torch.long)  # last: the clean input
    visible[:-1, target.perturbable] = torch.from_numpy(masks_of_target(target)).long()
    position_ids = torch.arange(len(prompt))[None]
    logits = [
        plain(
            input_ids=torch.tensor([prompt]),
            attention_mask=attention_mask[None],
            position_ids=position_ids,
            use_cache=False,
        ).logits[0, -1]
        for attention_mask in visible
    ]
    *perturbed, clean = (row.softmax(-1) for row in logits)
    expected = [(1 - (clean * row).sqrt().sum()).sqrt() for row in perturbed]
    return _error(torch.from_numpy(measured).double(), torch.stack(expected))


def _method_error(
    model: LanguageModel, plain: PreTrainedModel, name: str, prompt: list[int]
) -> float:
    """Return the error of a method's scores."""
    method, eager_method = _checked(name, model)
    batch = Batch([ExplainedSample("sample", prompt, [TARGET], [0], [TARGET])], model.device)
    with torch.enable_grad():
        scores = method.attribute(model, batch)[0][0].detach()
        if by_hand := (BY_HAND | MODIFIED).get(name):
            expected = by_hand(plain, prompt, TARGET)
        else:
            eager = EagerModel(plain, model.name, model._load_tokenizer)
            expected = eager_method.attribute(eager, batch)[0][0].detach()
    return _error(scores.double(), expected.double())


@lru_cache(maxsize=1)  # for both prompts
def _checked(name: str, model: LanguageModel) -> tuple[AttributionMethod, AttributionMethod]:
    """Return a method checked for a model, and another instance for eager attention."""
    method, eager_method = (build(name, **OPTIONS.get(name, {})) for _ in range(2))
    method.check(model)
    return method, eager_method


def _generation_error(
    model: LanguageModel, plain: PreTrainedModel, batch: Sequence[list[int]]
) -> float:
    """Return 1 if batching changes the continuation of a prompt, else 0."""
    model.network.generation_config.eos_token_id = None
    prompts = [
        {"sample_id": str(index), "input_ids": prompt, "label": None}
        for index, prompt in enumerate(batch)
    ]
    for row in continue_greedily(model, prompts, TOKEN_BUDGET, NEW_TOKENS, 1):
        ids = batch[int(row["sample_id"])]
        for token in row["output_ids"]:
            expected = plain(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()
            if token != expected:
                return 1.0
            ids = [*ids, token]
    return 0.0


def _error(values: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the largest error, relative to the largest expected value, which may be 0."""
    largest = expected.abs().max().clamp(min=torch.finfo(expected.dtype).tiny)
    return float((values - expected).abs().max() / largest)


def _keeps_nothing(model: LanguageModel) -> str:
    """Check if the first layer's value vector of a zeroed token is zero."""
    if "attention" in model._refusals:
        return NO
    recorder = AttentionRecorder(layers=[0])
    target = target_of(PROMPT)
    model.hidden_states(_perturbed(target, model.embed), probe=recorder)
    value = recorder.inputs[0].value[2]
    return "yes" if bool((value[:, target.perturbable] == 0).all()) else "no"


@contextmanager
def chosen_experts(network: PreTrainedModel) -> Iterator[list[torch.Tensor]]:
    """Record the experts chosen by routers, in one tensor (tokens, …) per call."""
    chosen: list[torch.Tensor] = []

    def note(_: torch.nn.Module, __: object, output: object) -> None:
        """Record chosen experts by index, or by weights that are zero for all others."""
        tensors = output if isinstance(output, tuple) else (output,)
        marks = [x == 0 if x.is_floating_point() else x.sort(dim=-1).values for x in tensors]
        chosen.append(torch.cat(marks, dim=-1))

    with ExitStack() as stack:
        for module in network.modules():
            if type(module).__name__.endswith(("Router", "Gate")):
                stack.callback(module.register_forward_hook(note).remove)
        yield chosen


def _keeps_experts(model: LanguageModel, plain: PreTrainedModel) -> str:
    """Check if perturbed inputs go to the same experts while attention is fixed."""
    if "fixed routing" in model._refusals:
        return NO
    with chosen_experts(plain) as chosen:
        held = observed(plain, PROMPT).maps
        clean = chosen.copy()
        for row in _perturbed(target_of(PROMPT), partial(embedded, plain)):
            logits(plain, row[None], held=held)
    if not clean:
        return NO
    perturbed = chosen[len(clean) :]
    same = map(torch.equal, clean * len(MASKS), perturbed)
    return "yes" if all(same) else "no"


def _has_window(model: LanguageModel) -> str:
    """Check if some layer does not see all earlier tokens."""
    if "attention" in model._refusals:
        return NO
    recorder = AttentionRecorder(layers=range(model.layers))
    model.hidden_states(model.embed(torch.tensor([PROMPT])), probe=recorder)
    pairs = [inputs.visible().sum() for inputs in recorder.inputs.values()]
    return "yes" if min(pairs) < len(PROMPT) * (len(PROMPT) + 1) // 2 else "no"
