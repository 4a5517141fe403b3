"""Running a method over a block of samples."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from time import perf_counter
from typing import Any

import torch

from pisoft.attribution.base import AttributionMethod
from pisoft.errors import BenchmarkError
from pisoft.models.batching import attempt, fitted_batches, warn_too_long
from pisoft.models.device import synchronise
from pisoft.models.layers import checkpointed_layers
from pisoft.models.model import Batch, ExplainedSample, LanguageModel
from pisoft.store.parquet import NONFINITE_ATTRIBUTION, OK, TOO_LONG_FOR_MEMORY
from pisoft.store.scope import perturbable_positions

Row = dict[str, Any]

logger = logging.getLogger(__name__)


def warm_up(
    method: AttributionMethod, model: LanguageModel, pairs: Sequence[tuple[Row, Row]]
) -> None:
    """Attribute the shortest sample of a job and discard the result.

    The first attribution includes lazy loading and compilation, which would distort its timing.

    Raises:
        BenchmarkError: as :func:`attribute_block`, for any of the samples.
    """
    usable = usable_samples(method, model, pairs)
    if usable:
        _attribute_samples(method, model, [min(usable, key=_tokens_read)])


def attribute_block(
    method: AttributionMethod, model: LanguageModel, block: Sequence[tuple[Row, Row]]
) -> list[Row]:
    """Return rows for a block of samples, in their order: `attributions`, and `seconds` of each.

    A sample that failed before gives one row with its status, at step 0. Batches keep to the token
    budget of the method's context; running out of memory lowers it permanently. A sample that does
    not fit on its own is retried with checkpointed layers, which gives bit-identical scores. If it
    still does not fit, the row of every step says so; methods without gradients always fail again.

    Args:
        block: rows of `prompts` and `generations`, pairwise.

    Raises:
        BenchmarkError: prompts and generations do not belong together, a token id is outside the
            vocabulary, a sample is longer than the model's context, or the method breaks its
            contract.
    """
    attributed = _attribute_samples(method, model, usable_samples(method, model, block))
    return [
        row
        for _, generation in block
        for row in attributed.get(generation["sample_id"], [_failed_row(generation, 0)])
    ]


def scores_row(row: Row) -> Row:
    """Return a row of :func:`attribute_block` without its time: the reproducible part."""
    measured = ("seconds", "float32_agreement")
    return {name: value for name, value in row.items() if name not in measured}


def time_row(row: Row) -> Row:
    """Return the time of a row of :func:`attribute_block`, for contract `attribution_times`."""
    tokens = None if row["raw_scores"] is None else len(row["raw_scores"])
    kept = {name: row[name] for name in ("sample_id", "step", "seconds", "status")}
    return {**kept, "prompt_tokens": tokens, "float32_agreement": row.get("float32_agreement")}


def explained_sample(
    method: AttributionMethod, model: LanguageModel, prompt: Row, generation: Row
) -> ExplainedSample | None:
    """Join a prompt with its generation; None if no step is explained."""
    if prompt["sample_id"] != generation["sample_id"]:
        raise BenchmarkError(
            f"prompts and generations do not belong together: sample {prompt['sample_id']} "
            f"stands beside {generation['sample_id']}"
        )
    if generation["status"] != OK:
        return None
    sample = ExplainedSample(
        sample_id=prompt["sample_id"],
        prompt_ids=prompt["input_ids"],
        output_ids=generation["output_ids"],
        steps=generation["steps"],
        target_ids=generation["target_ids"],
        content_mask=prompt["content_mask"],
        scope=perturbable_positions(prompt, method.context.scope).tolist(),
        foil_ids=generation.get("foil_ids", ()),
        spanned=generation.get("spanned", False),
    )
    ids = [*sample.read_ids, *sample.target_ids, *sample.foil_ids]
    model.check_ids(ids, f"sample {sample.sample_id}")
    if model.context is not None and _tokens_read(sample) > model.context:
        raise BenchmarkError(
            f"method '{method.name}': sample {sample.sample_id}: prompt and generated tokens, "
            f"{_tokens_read(sample)}, exceed the context of model '{model.name}', "
            f"{model.context}; lower the option prompts.max_tokens"
        )
    return sample


def usable_samples(
    method: AttributionMethod, model: LanguageModel, pairs: Sequence[tuple[Row, Row]]
) -> list[ExplainedSample]:
    """Return the samples with a step to explain."""
    samples = (explained_sample(method, model, *pair) for pair in pairs)
    return [sample for sample in samples if sample is not None]


def _tokens_read(sample: ExplainedSample) -> int:
    return len(sample.read_ids)


def _attribute_samples(
    method: AttributionMethod, model: LanguageModel, samples: Sequence[ExplainedSample]
) -> dict[str, list[Row]]:
    """Return the rows of every sample by id; the method keeps a lowered token budget."""

    def work(batch: Sequence[ExplainedSample], token_budget: int) -> dict[str, list[Row]]:
        method.context = replace(method.context, token_budget=token_budget)
        return _attribute_batch(method, model, batch)

    give_up = partial(_attribute_alone, method, model)
    budget = method.context.token_budget
    parts = [part for sample in samples for part in sample.apart(model.arithmetic)]
    rows: dict[str, list[Row]] = defaultdict(list)
    for batch_rows in fitted_batches(parts, _tokens_read, budget, work, give_up, model.arithmetic):
        for sample_id, part_rows in batch_rows.items():
            rows[sample_id] = sorted(rows[sample_id] + part_rows, key=itemgetter("step"))
    return rows


def _attribute_alone(
    method: AttributionMethod, model: LanguageModel, sample: ExplainedSample
) -> dict[str, list[Row]]:
    """Return the rows of a sample that does not fit on its own, using checkpointed layers.

    The method reads one sequence at a time, even short ones that share a prefix.
    """
    name = f"method '{method.name}', model '{model.name}': sample {sample.sample_id}"
    context = method.context
    method.context = replace(context, token_budget=1)
    try:
        with checkpointed_layers(model):
            rows = attempt(partial(_attribute_batch, method, model, [sample]))
    finally:
        method.context = context
    if rows is None:
        warn_too_long(name, _tokens_read(sample))
        failed = {"sample_id": sample.sample_id, "status": TOO_LONG_FOR_MEMORY}
        return {sample.sample_id: [_failed_row(failed, step) for step in sample.steps]}
    logger.info("%s fits: one sequence at a time, layers recomputed in backward passes", name)
    return rows


def _attribute_batch(
    method: AttributionMethod, model: LanguageModel, samples: Sequence[ExplainedSample]
) -> dict[str, list[Row]]:
    synchronise(model.device)
    begin = perf_counter()
    scores = [s.detach() for s in method.attribute(model, Batch(samples, model.device))]
    synchronise(model.device)
    seconds = perf_counter() - begin
    tokens = sum(len(sample.prompt_ids) + step for sample in samples for step in sample.steps)
    rows = {}
    for sample, sample_scores in zip(samples, scores, strict=True):
        if sample.spanned:  # one row for all of them
            sample_scores = sample_scores[:1].expand(len(sample.steps), -1)
        expected = (len(sample.steps), len(sample.prompt_ids))
        if tuple(sample_scores.shape) != expected:
            raise BenchmarkError(
                f"method '{method.name}': sample {sample.sample_id}: scores have "
                f"shape {tuple(sample_scores.shape)}, expected (steps, prompt tokens) = {expected}"
            )
        rows[sample.sample_id] = [
            _row(method, sample, step, raw, seconds / tokens)
            for step, raw in zip(sample.steps, sample_scores.float().cpu(), strict=True)
        ]
    return rows


def _row(
    method: AttributionMethod,
    sample: ExplainedSample,
    step: int,
    raw: torch.Tensor,
    seconds_per_token: float,
) -> Row:
    stopped = (sample.sample_id, step) not in method.unconverged
    return {
        "sample_id": sample.sample_id,
        "step": step,
        "raw_scores": raw.tolist(),
        "converged": stopped if method.iterative else None,
        "seconds": seconds_per_token * (len(sample.prompt_ids) + step),
        "status": OK if bool(raw.isfinite().all()) else NONFINITE_ATTRIBUTION,
    }


def _failed_row(sample: Row, step: int) -> Row:
    return {
        "sample_id": sample["sample_id"],
        "step": step,
        "raw_scores": None,
        "converged": None,
        "seconds": None,
        "status": sample["status"],
    }
