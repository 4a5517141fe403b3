"""The benchmark's pieces from Python, without a workflow: `from pisoft import api as pisoft`.

Everything is computed by the functions that the workflow's scripts call, for one prompt and one
explained token at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch

from pisoft.attribution import load_method
from pisoft.attribution.base import AttributionMethod, Context
from pisoft.attribution.engine import attribute_block
from pisoft.config.base import Clamp, Normalisation, Protocol, Scope
from pisoft.config.datasets import Message
from pisoft.config.evaluation import EvaluationSettings
from pisoft.config.jobs import LoadedModel, PromptJob, loaded_model
from pisoft.config.models import ModelEntry
from pisoft.config.validation import validate
from pisoft.errors import BenchmarkError, did_you_mean
from pisoft.faithfulness import calibration
from pisoft.faithfulness.metrics import soft_nc, soft_ns
from pisoft.faithfulness.perturbation import PerturbationTarget, Perturber
from pisoft.faithfulness.scope import perturbable_positions
from pisoft.faithfulness.scores import normalise
from pisoft.faithfulness.soft import METRICS, StepEvaluation, measure_draws
from pisoft.models.generation import continue_greedily, empty_row
from pisoft.models.loading import load_model
from pisoft.models.masked import MaskedLanguageModel, load_masked_model
from pisoft.models.model import LanguageModel
from pisoft.prompts.build import build_prompts
from pisoft.store.parquet import OK, STATUSES, TOO_LONG_FOR_MEMORY

Prompt = dict[str, Any]  # row of kind `prompts`
TOKEN_BUDGET = 1024  # tokens per forward batch


def load(
    source: str | Path,
    *,
    revision: str = "main",
    dtype: str = "float32",
    quantization: str = "none",
    device: str = "auto",
) -> LanguageModel:
    """Load a model from a folder, or from the Hugging Face hub if there is no such folder.

    Args:
        source: folder, or `owner/name` on the hub.
        revision: branch, tag or commit on the hub.
        dtype: `float32`, `bfloat16`, `float16` or `float64`.
        quantization: `none` or `nf4` (4-bit weights).
        device: `auto`, `cpu` or `cuda`.

    Raises:
        BenchmarkError: the model cannot be found, read, or followed.
    """
    resources = {"gpu": int(device == "cuda")}
    options = {"dtype": dtype, "quantization": quantization, "device": device}
    return load_model(*_located(source, revision, **options, resources=resources))


def load_masked(source: str | Path, *, revision: str = "main") -> MaskedLanguageModel:
    """Load a masked language model for methods that replace tokens, onto the CPU.

    Args:
        source: folder, or `owner/name` on the hub, such as `FacebookAI/roberta-base`.
        revision: branch, tag or commit on the hub.

    Raises:
        BenchmarkError: the model cannot be found or read, or predicts no masked tokens.
    """
    named, folder = _located(source, revision, device="cpu")
    return load_masked_model(named, folder, torch.device("cpu"))


def _located(source: str | Path, revision: str, **entry: Any) -> tuple[LoadedModel, Path | None]:
    """Return what names a model that is to be loaded, and its folder if it has one."""
    folder = Path(source) if Path(source).is_dir() else None
    hub = {"kind": "hub", "repository": str(source), "revision": revision}
    place = {"kind": "local", "path": str(source)} if folder else hub
    entry |= {"label": str(source), "source": place}
    return loaded_model(str(source), validate(ModelEntry, entry, f"model '{source}'")), folder


def prompt(model: LanguageModel, messages: str | Sequence[Mapping[str, str]]) -> Prompt:
    """Build a prompt; what the user says is its content, which perturbations may touch.

    Args:
        model: the model that will read it.
        messages: turns with `role` (`system` or `user`) and `content`, put into the model's chat
            template; or plain text, for models without a template.

    Returns:
        A row of contract kind `prompts`: `input_ids`, `content_mask`, `prompt_text` and others.

    Raises:
        BenchmarkError: a wrong message, no content, or more tokens than the model can read.
    """
    plain = isinstance(messages, str)
    given = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
    turns = [
        validate(Message, turn, f"prompt: message {index}") for index, turn in enumerate(given)
    ]
    if not any(turn.role == "user" and turn.content.strip() for turn in turns):
        raise BenchmarkError("prompt: there is no user message with text")
    fields = {f"text{index}": turn.content for index, turn in enumerate(turns)}
    said = "\n".join(f"{turn.role} {turn.content}" for turn in turns)
    key = blake2b(said.encode(), digest_size=8).hexdigest()
    record = {"sample_id": key, "fields": fields, "evidence": None, "label": None, "status": OK}
    unused = dict.fromkeys(("dtype", "quantization", "device"), "")
    settings = PromptJob(
        model=LoadedModel(name=model.name, repository=None, revision=None, **unused),
        chat_template="plain" if plain else "tokenizer",
        dataset="prompt",
        messages=tuple(_with_field(turn, name) for turn, name in zip(turns, fields, strict=True)),
        label_words=(),
        truncate=None,
        max_tokens=None,
        reserved_tokens=0,
    )
    (row,) = build_prompts([record], settings, model.tokenizer, context=None)
    if row["status"] != OK:
        raise BenchmarkError(f"prompt: cannot be built: {row['status']}")
    _check_length(model, row["input_ids"], "prompt")
    return row


def attribute(
    model: LanguageModel,
    prompt: Prompt,
    method: str,
    /,
    *,
    generated: Sequence[int] = (),
    target: int | None = None,
    seed: int = 1,
    masked: MaskedLanguageModel | None = None,
    **options: Any,
) -> np.ndarray:
    """Return raw scores of the prompt's tokens for one next token, (prompt tokens,) float32.

    Args:
        model: the explained model.
        prompt: see :func:`prompt`.
        method: name of an attribution method.
        generated: ids of tokens that follow the prompt and precede the explained one.
        target: id of the explained token; None: the one that the model would generate.
        seed: of methods that draw random numbers.
        masked: see :func:`load_masked`, for methods that need one.
        options: options of the method.

    Raises:
        BenchmarkError: an unknown method or option, more tokens than the model can read, or no
            token to explain.
    """
    attribution = _method(method, options, Context(seed, TOKEN_BUDGET, masked))
    attribution.check(model)
    read = [*prompt["input_ids"], *generated]
    _check_length(model, read, f"method '{method}': option generated")
    if target is None:
        target = _next_token(model, {**prompt, "input_ids": read})
    answer = {
        **empty_row(prompt, OK),
        "output_ids": [*generated, target],
        "steps": [len(generated)],
        "target_ids": [target],
    }
    (row,) = attribute_block(attribution, model, [(prompt, answer)])
    if row["raw_scores"] is None:
        raise BenchmarkError(f"method '{method}': no scores: {STATUSES[row['status']]}")
    return np.array(row["raw_scores"], dtype=np.float32)


def calibrate(
    scores: np.ndarray, pi: float, *, normalisation: Normalisation = "minmax"
) -> np.ndarray:
    """Return probabilities of keeping each token, with mean π, (m,): normalised scores to a power.

    Args:
        scores: raw scores of the perturbable tokens (m,), such as
            `scores[prompt["content_mask"]]`.
        pi: target retaining probability, in (0, 1).
        normalisation: how raw scores become scores in [0, 1].

    Raises:
        BenchmarkError: π outside (0, 1), or scores that are not finite.
    """
    chosen = _evaluation(pi, normalisation=normalisation)
    _check_scores(scores, "calibrate")
    normalised, floor = normalise(scores, chosen.normalisation), chosen.score_floor
    solved = calibration.calibrate(normalised, np.array(chosen.pi_grid), floor)
    return calibration.clip_scores(normalised, floor) ** solved.alpha[0]


def soft_scores(
    model: LanguageModel,
    prompt: Prompt,
    scores: np.ndarray,
    pi: float,
    *,
    generated: Sequence[int] = (),
    scope: Scope = "content",
    normalisation: Normalisation = "minmax",
    draws: int = 15,
    clamp: Clamp = "draw",
    seed: int = 1,
    protocol: Protocol = "dynamic",
) -> tuple[float, float]:
    """Return π-Soft-NS and π-Soft-NC of scores.

    Args:
        model: the explained model.
        prompt: see :func:`prompt`.
        scores: raw scores of all prompt tokens; see :func:`attribute`.
        pi: target retaining probability, in (0, 1).
        generated: the same as was given to :func:`attribute`.
        scope: which tokens are perturbed.
        normalisation: how raw scores become scores in [0, 1].
        draws: Monte Carlo masks.
        clamp: where π-Soft-NS is clamped at 0; see :func:`pisoft.faithfulness.metrics.soft_ns`.
        seed: of the masks.
        protocol: `dynamic`, attention computed anew, or `fixed`, that of the clean input replayed.

    Raises:
        BenchmarkError: a wrong setting, as many scores as there are not tokens, or a prompt that
            cannot be evaluated (its status is named).
    """
    if protocol not in get_args(Protocol):
        raise BenchmarkError(
            f"soft_scores: protocol: unknown '{protocol}'"
            + did_you_mean(protocol, get_args(Protocol))
        )
    chosen = _evaluation(pi, scope=scope, normalisation=normalisation, draws=draws, clamp=clamp)
    _check_scores(scores, "soft_scores")
    if len(scores) != len(prompt["input_ids"]):
        raise BenchmarkError(
            f"soft_scores: {len(scores)} scores do not fit {len(prompt['input_ids'])} prompt tokens"
        )
    row = {
        "sample_id": prompt["sample_id"],
        "step": len(generated),
        "raw_scores": scores,
        "status": OK,
    }
    read = [*prompt["input_ids"], *generated]
    _check_length(model, read, "soft_scores: option generated")
    # No target is given: what happens to its probability is not asked for.
    perturbed = PerturbationTarget(read, perturbable_positions(prompt, chosen.scope), target_id=0)
    step = StepEvaluation(row, perturbed, chosen, seed, model.width)
    perturber = Perturber(model, TOKEN_BUDGET, protocol)
    measure_draws(perturber, [step], dict.fromkeys(METRICS, range(draws)))
    _, measured = step.rows()
    if measured["status"] != OK:
        raise BenchmarkError(f"soft_scores: the prompt cannot be evaluated: {measured['status']}")
    ns = soft_ns(measured["h0"], measured["ns_distances"], clamp)
    return float(ns), float(soft_nc(measured["h0"], measured["nc_distances"]))


def _with_field(turn: Message, name: str) -> Message:
    """Return a turn whose content is the field if the user speaks, else literal text."""
    literal = turn.content.replace("{", "{{").replace("}", "}}")
    content = f"{{{name}}}" if turn.role == "user" else literal
    return turn.model_copy(update={"content": content})


def _method(name: str, options: Mapping[str, Any], context: Context) -> AttributionMethod:
    """Return a method with its options checked."""
    method = load_method(name)
    checked = validate(method.Options, dict(options), f"method '{name}': options")
    if method.needs_masked_model and context.masked is None:
        raise BenchmarkError(f"method '{name}': option masked: a masked language model is needed")
    return method(checked, context)


def _next_token(model: LanguageModel, read: Prompt) -> int:
    (answer,) = continue_greedily(model, [read], TOKEN_BUDGET, max_new_tokens=1, step_interval=1)
    if answer["status"] == TOO_LONG_FOR_MEMORY:
        raise BenchmarkError(f"model '{model.name}': no answer: {STATUSES[TOO_LONG_FOR_MEMORY]}")
    if not answer["output_ids"]:
        raise BenchmarkError(
            f"model '{model.name}' ends its answer here, so there is no token to explain; "
            "give its id as `target`"
        )
    return answer["output_ids"][0]


def _evaluation(pi: float, **values: Any) -> EvaluationSettings:
    """Return evaluation settings with one π."""
    if not 0 < pi < 1:
        raise BenchmarkError(f"pi: {pi} is not allowed; it must be in (0, 1)")
    # The grid of a workflow has two points at least, which its curves need.
    checked = validate(EvaluationSettings, values, "evaluation")
    return checked.model_copy(update={"pi_grid": (pi,)})


def _check_length(model: LanguageModel, ids: Sequence[int], where: str) -> None:
    if model.context is not None and len(ids) > model.context:
        raise BenchmarkError(
            f"{where}: {len(ids)} tokens are more than the {model.context} that model "
            f"'{model.name}' can read"
        )


def _check_scores(scores: np.ndarray, where: str) -> None:
    if len(scores) == 0 or not np.isfinite(scores).all():
        raise BenchmarkError(f"{where}: scores must be finite and at least one")
