"""The benchmark's numbers for a model, prompts, and a method or scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from pisoft.api.attribution import (
    Function,
    Scorer,
    SeededSettings,
    answers,
    checked_method,
    scored_rows,
)
from pisoft.api.models import AnyModel, load
from pisoft.api.prompts import Messages, Prompt, prompt_rows
from pisoft.api.scores import Scores
from pisoft.attribution.base import Context
from pisoft.config.base import Protocol
from pisoft.config.cells import Cell
from pisoft.config.jobs.summaries import ResamplingJob
from pisoft.config.run_file import GenerationSettings
from pisoft.config.studies import HIDE
from pisoft.config.validation import validate
from pisoft.errors import BenchmarkError, in_one_line
from pisoft.faithfulness.cell import Sample, evaluations_of_cell, measure_cell
from pisoft.faithfulness.perturbation import Perturber
from pisoft.figures.pi_curves_all import by_method
from pisoft.models.batching import blocks
from pisoft.models.device import token_budget
from pisoft.models.masked import MaskedLanguageModel
from pisoft.models.model import LanguageModel
from pisoft.statistics.estimates import estimate
from pisoft.statistics.metrics import CURVE_METRICS, METRICS
from pisoft.statistics.samples import Samples, sample_matrix
from pisoft.statistics.soft import summarise_cells
from pisoft.statistics.soft_files import usable_steps
from pisoft.store.parquet import OK
from pisoft.store.schemas import SCHEMAS

NUMBERS = ("auc_pi_soft_ns", "auc_pi_soft_nc", "soft_ns", "soft_nc")
LABELS = {name: METRICS[name].label for name in NUMBERS} | CURVE_METRICS
PROMPTS = "prompts"  # what stands for the dataset's name
COLUMNS = ["protocol", "model", "method", "metric", "label", "pi"]
COLUMNS += ["value", "low", "high", "n", "n_failed", "failures"]


class Settings(SeededSettings, GenerationSettings):
    """Keyword settings of :func:`evaluate`: those of a run file, plus the number of steps."""

    protocol: Protocol = "dynamic"
    max_new_tokens: int = Field(1, gt=0)
    step_interval: int = Field(1, gt=0)
    block_size: int = Field(16, gt=0)
    token_budget: int | None = Field(None, gt=0)

    @model_validator(mode="after")
    def _operator_fits(self) -> Settings:
        if self.operator == HIDE and self.protocol == "fixed":
            raise ValueError(
                "protocol: 'fixed' is not allowed with operator 'hide', because hidden keys change "
                "the attention that it holds; allowed with it is 'dynamic'"
            )
        return self


@in_one_line
def evaluate(
    model: AnyModel,
    prompts: Iterable[Messages | Prompt],
    method_or_scores: str | Function | Iterable[ArrayLike | Scores],
    *,
    tokenizer: Any = None,
    options: dict[str, Any] | None = None,
    masked: MaskedLanguageModel | None = None,
    **settings: Any,
) -> pd.DataFrame:
    """Return the faithfulness of scores: curves over π, areas under them, and original metrics.

    Each row is a mean over prompts with its 95 % interval. Failed prompts are excluded from the
    mean and counted in `n_failed`; `failures` gives the reasons. Higher is better for every metric.

    Args:
        model: folder, name on the hub, or a model of transformers; see :func:`pisoft.load`.
        prompts: a list of what :func:`pisoft.prompt` returns or takes: texts or lists of messages.
        method_or_scores: name of an attribution method; a function of the input ids and the
            explained token's id that returns one score per input id; or, for each prompt, an array
            with one score per token, or what :func:`pisoft.attribute` returns.
        tokenizer: tokenizer of a model of transformers.
        options: options of a method given by name.
        masked: see :func:`pisoft.load_masked`, for methods that need one.
        settings: keys of `evaluation` in a run file (`pi_grid`, `draws`, `scope`, …), and
            `protocol` (`dynamic` or `fixed` routing), `seed` (of masks and methods),
            `max_new_tokens` and `step_interval` (number of generated tokens, and the interval of
            explained ones; by default only the next token), `block_size` and `token_budget`
            (prompts and tokens at once).

    Returns:
        Rows by `metric`: `auc_pi_soft_ns`, `auc_pi_soft_nc`, `soft_ns`, `soft_nc`, and
        `pi_soft_ns` and `pi_soft_nc` at every `pi`.

    Raises:
        BenchmarkError: an invalid argument, or a model that cannot be evaluated.
    """
    evaluation = validate(Settings, settings, "evaluate")
    loaded = load(model, tokenizer)
    rows = prompt_rows(loaded, prompts, reserved=evaluation.max_new_tokens - 1)
    budget = token_budget(evaluation.token_budget, loaded.device)
    context = Context(evaluation.seed, budget, masked, scope=evaluation.scope)
    if isinstance(method_or_scores, str):
        scorer: Scorer = checked_method(method_or_scores, options or {}, context, loaded)
        name = method_or_scores
    else:
        if options:
            raise BenchmarkError(f"options: only a method given by name has any, got {options}")
        scorer = _scores(method_or_scores, len(rows))
        name = getattr(scorer, "__name__", "scores")
    steps = (evaluation.max_new_tokens, evaluation.step_interval)
    explained = answers(loaded, rows, context.token_budget, *steps, evaluation.block_size)
    if isinstance(scorer, list):
        for index, (row, one) in enumerate(zip(rows, scorer, strict=True)):
            if isinstance(one, Scores):
                if [*one.prompt["input_ids"]] != [*row["input_ids"]]:
                    raise BenchmarkError(f"method_or_scores: item {index} is of another prompt")
                explained[index] = one.answer
    samples = list(zip(rows, explained, strict=True))
    attributions: dict[str, list[dict[str, Any]]] = {row["sample_id"]: [] for row in rows}
    for scored in scored_rows(loaded, samples, scorer, evaluation.block_size):
        attributions[scored["sample_id"]].append(scored)
    whole = [(*sample, attributions[sample[0]["sample_id"]]) for sample in samples]
    measured = _measured(loaded, whole, evaluation, context.token_budget)
    return _summary(
        measured, evaluation, Cell(evaluation.protocol, "", loaded.name, "", name, PROMPTS)
    )


@in_one_line
def plot(answer: pd.DataFrame) -> Figure:
    """Draw π-Soft-NS and π-Soft-NC over π with their 95 % intervals, a panel per method.

    Args:
        answer: the result of :func:`pisoft.evaluate`, or several joined by `pandas.concat`.

    Raises:
        BenchmarkError: it has no such rows, or several models or protocols.
    """
    is_answer = isinstance(answer, pd.DataFrame) and {*COLUMNS} <= {*answer.columns}
    if not is_answer or not answer["metric"].isin(CURVE_METRICS).any():
        raise BenchmarkError(
            "answer: has no curves; pass what `evaluate` returns, several by `pandas.concat`"
        )
    rows = answer[answer["metric"].isin(CURVE_METRICS)].rename(columns={"pi": "position"})
    cells = rows[["model", "protocol"]].drop_duplicates().to_numpy().tolist()
    if len(cells) > 1:
        raise BenchmarkError(f"answer: must be of one model and protocol, got {cells}")
    repeated = rows["method"][rows.duplicated(["method", "metric", "position"])].unique()
    if len(repeated):
        raise BenchmarkError(
            f"answer: has two curves of method '{repeated[0]}'; name one of them by "
            "`answer.assign(method=…)`"
        )
    title = "{}, {} routing".format(*cells[0])
    return by_method(title, rows, {name: name for name in rows["method"].unique()})


def _scores(method_or_scores: Any, prompts: int) -> Function | list[Any]:
    """Return a function unchanged, or a list of scores by prompt."""
    if callable(method_or_scores):
        return method_or_scores
    if not isinstance(method_or_scores, Iterable) or isinstance(method_or_scores, Scores | Mapping):
        raise BenchmarkError(
            "method_or_scores: expected a method's name, a function, or a list with scores for "
            f"each prompt, got {type(method_or_scores).__name__}"
        )
    scores = list(method_or_scores)
    if len(scores) != prompts:
        raise BenchmarkError(f"method_or_scores: {len(scores)} items do not fit {prompts} prompts")
    return scores


def _measured(
    model: LanguageModel, samples: Sequence[Sample], evaluation: Settings, budget: int
) -> pa.Table:
    """Return rows of contract `soft`: the measures of every draw."""
    in_blocks = blocks(samples, evaluation.block_size)
    evaluations = evaluations_of_cell(model, in_blocks, evaluation, evaluation.seed)
    perturber, in_float32 = (
        Perturber(model, tokens, evaluation.protocol, evaluation.operator)
        for tokens in (budget, max(1, budget // 2))
    )
    measure_cell(perturber, in_float32, evaluations, evaluation.draws)
    rows = [row for block in evaluations for step in block for row in step.rows()]
    return pa.Table.from_pylist(rows, schema=SCHEMAS["soft"])


def _summary(measured: pa.Table, evaluation: Settings, cell: Cell) -> pd.DataFrame:
    """Return the answer: means over samples with their intervals, n and failures."""
    steps = usable_steps(Path("evaluate"), measured, evaluation.minimum_h0)
    tables = summarise_cells([(cell, steps)], evaluation.clamp)
    samples, curves = (table.to_pandas() for table in tables[:2])
    values = sample_matrix(samples[samples["metric"].isin(NUMBERS)], ["metric"])[[*NUMBERS]]
    # Of no resamples, which these intervals do not need.
    without_resamples = ResamplingJob(seed=evaluation.seed, resamples=0)
    numbers = estimate({PROMPTS: Samples.for_means(values)}, without_resamples)[PROMPTS].table()
    failed = Counter(steps.status[steps.status != OK])
    rows = pd.concat([numbers, curves.rename(columns={"position": "pi"})], ignore_index=True)
    return rows.assign(
        protocol=cell.protocol,
        model=cell.model,
        method=cell.method,
        label=rows["metric"].map(LABELS),
        failures=", ".join(f"{count} {status}" for status, count in failed.items()),
    )[COLUMNS]
