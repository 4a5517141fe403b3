"""The model's answers to prompts, and scores of their tokens, computed or imported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from pisoft.api.models import AnyModel, load
from pisoft.api.prompts import Messages, Prompt, check_length, usable_prompt
from pisoft.api.scores import Scores, as_array
from pisoft.attribution import load_method
from pisoft.attribution.base import AttributionMethod, Context
from pisoft.attribution.engine import attribute_block
from pisoft.config.base import Scope
from pisoft.config.evaluation import EvaluationSettings
from pisoft.config.validation import validate
from pisoft.errors import BenchmarkError, in_one_line
from pisoft.models.batching import blocks
from pisoft.models.device import token_budget
from pisoft.models.generation import answers_of_block, classify, continue_greedily, empty_row
from pisoft.models.masked import MaskedLanguageModel
from pisoft.models.model import LanguageModel
from pisoft.progress import progress
from pisoft.store.parquet import EMPTY_GENERATION, OK, STATUSES

Row = dict[str, Any]
Function = Callable[[list[int], int], ArrayLike]
"""From the token ids that are read and the id of the explained token to one score per id read."""
Scorer = AttributionMethod | Function | Sequence[Any]


class SeededSettings(EvaluationSettings):
    """`evaluation` of a run file, with the run's seed."""

    seed: int = Field(1, ge=0)


@in_one_line
def attribute(
    model: AnyModel,
    prompt: Messages | Prompt,
    method: str | Function,
    /,
    *,
    generated: Sequence[int] = (),
    target: int | None = None,
    foil: int | None = None,
    scope: Scope = "content",
    seed: int = 1,
    masked: MaskedLanguageModel | None = None,
    **options: Any,
) -> Scores:
    """Return raw scores of a prompt's tokens for one next token.

    Args:
        model: the explained model; see :func:`pisoft.load`.
        prompt: what :func:`pisoft.prompt` returns or takes.
        method: name of an attribution method, or a function of token ids and the target's id.
        generated: ids of tokens that follow the prompt and precede the explained one.
        target: id of the explained token; None: the one that the model would generate.
        foil: id of a token to contrast the target with: the difference of their logits is
            explained. Functions do not receive it. None: no contrast.
        scope: the tokens that perturbation methods perturb, like `evaluation.scope` of a run file;
            these methods score all others 0.
        seed: seed of methods that draw random numbers.
        masked: see :func:`pisoft.load_masked`, for methods that need one.
        options: options of the method.

    Raises:
        BenchmarkError: an unknown method or option, too many tokens for the model, an id outside
            its vocabulary, a foil equal to the target, or no token to explain.
    """
    if not isinstance(method, str) and (options or not callable(method)):
        raise BenchmarkError(
            "method: expected a method's name, or a function without options, got "
            f"{type(method).__name__} with options {options}"
        )
    model = load(model)
    row = usable_prompt(model, prompt)
    if not isinstance(generated, Iterable):
        raise BenchmarkError(
            f"method '{method}': option generated: expected a list of token ids, got {generated!r}"
        )
    read = [*row["input_ids"], *generated]
    check_length(model, read, f"method '{method}': option generated")
    model.check_ids(generated, f"method '{method}': option generated")
    if target is not None:
        model.check_ids([target], f"method '{method}': option target")
    settings = validate(SeededSettings, {"scope": scope, "seed": seed}, "attribute")
    budget = token_budget(None, model.device)
    context = Context(settings.seed, budget, masked, scope=settings.scope)
    scorer = checked_method(method, options, context, model) if isinstance(method, str) else method
    if target is None:
        target = _preferred(model, {**row, "input_ids": read}, budget)
    explained = {"output_ids": [*generated, target], "steps": [len(generated)]}
    answer = {**empty_row(row, OK), **explained, "target_ids": [target]}
    if foil is not None:
        model.check_ids([foil], f"method '{method}': option foil")
        if foil == target:
            raise BenchmarkError(f"method '{method}': option foil: {foil} is the target itself")
        answer["foil_ids"] = [foil]
    (scored,) = scored_rows(model, [(row, answer)], scorer)
    if scored["raw_scores"] is None:
        raise BenchmarkError(f"method '{method}': no scores: {STATUSES[scored['status']]}")
    return Scores(row, answer, np.array(scored["raw_scores"], dtype=np.float32))


def _preferred(model: LanguageModel, prompt: Prompt, budget: int) -> int:
    """Return the id of the first token of the model's answer."""
    (answer,) = answers(model, [prompt], budget)
    if answer["status"] != OK:
        ended = answer["status"] == EMPTY_GENERATION  # else no score of a target can be had either
        advice = "; give the id of the token to explain as `target`" if ended else ""
        raise BenchmarkError(
            f"model '{model.name}': no answer: {STATUSES[answer['status']]}{advice}"
        )
    return answer["output_ids"][0]


def checked_method(
    name: str, options: Mapping[str, Any], context: Context, model: LanguageModel
) -> AttributionMethod:
    """Return a method that suits the model, with its options.

    Raises:
        BenchmarkError: an unknown method or option, or one that does not suit the model.
    """
    try:
        method_class = load_method(name)
    except BenchmarkError as error:
        raise BenchmarkError(f"method: {error}") from error
    checked = validate(method_class.Options, options, f"method '{name}': options")
    masked = context.masked
    if method_class.needs_masked_model and not isinstance(masked, MaskedLanguageModel):
        raise BenchmarkError(
            f"method '{name}': option masked: a masked language model is needed, of "
            f"`pisoft.load_masked`; got {type(masked).__name__}"
        )
    method = method_class(checked, context)
    method.check(model)
    return method


def answers(
    model: LanguageModel,
    prompts: Sequence[Prompt],
    budget: int,
    max_new_tokens: int = 1,
    step_interval: int = 1,
    block_size: int = 1,
) -> list[Row]:
    """Return rows of contract `generations`: preferred label words, or greedy continuations."""

    def answer(usable: Sequence[Prompt]) -> list[Row]:
        labelled = [row for row in usable if row["label_token_ids"]]
        open_text = [row for row in usable if not row["label_token_ids"]]
        continued = continue_greedily(model, open_text, budget, max_new_tokens, step_interval)
        return [*classify(model, labelled, budget), *continued]

    for row in prompts:
        model.check_ids([*row["input_ids"], *row["label_token_ids"]], f"prompt {row['sample_id']}")
    in_blocks = progress(blocks(prompts, block_size), len(prompts), "generating")
    return [row for block in in_blocks for row in answers_of_block(block, answer)]


def scored_rows(
    model: LanguageModel, samples: Sequence[tuple[Prompt, Row]], scorer: Scorer, block_size: int = 1
) -> list[Row]:
    """Return rows of contract `attributions` of prompts and their answers, one for every step.

    Args:
        model: the explained model.
        samples: rows of `prompts` and `generations`.
        scorer: a method; a function; or scores of every sample, (prompt tokens,) or (steps, prompt
            tokens).
        block_size: samples that a method gets at once.

    Raises:
        BenchmarkError: scores that do not fit their prompt.
    """
    if isinstance(scorer, AttributionMethod):
        in_blocks = progress(blocks(samples, block_size), len(samples), "attributing")
        return [row for block in in_blocks for row in attribute_block(scorer, model, block)]
    rows = []
    for index, (prompt, answer) in enumerate(progress(samples, len(samples), "attributing")):
        item = f"scores of prompt {index}"
        row = {"sample_id": prompt["sample_id"], "status": answer["status"]}
        if answer["status"] != OK:
            rows.append({**row, "step": 0, "raw_scores": None})
            continue
        if callable(scorer):
            scores = _called(scorer, prompt, answer, item)
        else:
            shape = len(answer["steps"]), len(prompt["input_ids"])
            scores = _array(scorer[index], item, shape, shape[1:])
            scores = np.broadcast_to(scores, shape)
        steps = zip(answer["steps"], scores, strict=True)
        rows += [{**row, "step": step, "raw_scores": raw} for step, raw in steps]
    return rows


def _called(function: Function, prompt: Prompt, answer: Row, where: str) -> np.ndarray:
    """Return a function's scores of the prompt's tokens at every step, (steps, tokens)."""
    scores = []
    for step, target in zip(answer["steps"], answer["target_ids"], strict=True):
        read = [*prompt["input_ids"], *answer["output_ids"][:step]]
        step_scores = _array(function(read, target), where, (len(read),))
        scores.append(step_scores[: len(prompt["input_ids"])])
    return np.stack(scores)


def _array(scores: Any, where: str, *shapes: tuple[int, ...]) -> np.ndarray:
    """Return scores as float32, checked to have one of the shapes."""
    array = as_array(scores, where, np.float32)
    if array.shape not in shapes:
        allowed = " or ".join(map(str, shapes))
        raise BenchmarkError(f"{where}: shape {array.shape} is not allowed; expected {allowed}")
    return array
