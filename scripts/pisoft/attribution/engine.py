"""Running a method over a block of samples."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch

from pisoft.attribution.base import AttributionMethod
from pisoft.contracts import NONFINITE_ATTRIBUTION, OK
from pisoft.errors import BenchmarkError
from pisoft.lm.batching import token_batches
from pisoft.lm.model import Batch, ExplainedSample, LanguageModel

Row = dict[str, Any]


def attribute_block(
    method: AttributionMethod,
    model: LanguageModel,
    block: Sequence[tuple[Row, Row]],
    token_budget: int,
) -> list[Row]:
    """Return `attributions` rows for a block of samples, in their order.

    A sample that failed before gives one row with its status, at step 0.

    Args:
        method: the method, with its options.
        model: the explained model.
        block: rows of `prompts` and `generations`, pairwise.
        token_budget: prompt tokens per batch.

    Raises:
        BenchmarkError: prompts and generations do not belong together, a token id is outside the
            vocabulary, or the method breaks its contract.
    """
    samples = {
        prompt["sample_id"]: explained_sample(prompt, generation, model)
        for prompt, generation in block
    }
    usable = [sample for sample in samples.values() if sample is not None]
    attributed: dict[str, list[Row]] = {}
    for batch in token_batches(usable, lambda sample: len(sample.read_ids), token_budget):
        attributed |= _attribute_batch(method, model, batch)
    return [
        row
        for _, generation in block
        for row in attributed.get(generation["sample_id"], [_failed_row(generation)])
    ]


def explained_sample(prompt: Row, generation: Row, model: LanguageModel) -> ExplainedSample | None:
    """Join a prompt with its generation; None if there is nothing to explain."""
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
    )
    model.check_ids([*sample.read_ids, *sample.target_ids], f"sample {sample.sample_id}")
    return sample


def _attribute_batch(
    method: AttributionMethod, model: LanguageModel, samples: Sequence[ExplainedSample]
) -> dict[str, list[Row]]:
    """Return the rows of every sample of one batch, by sample id."""
    begin = time.perf_counter()
    scores = [s.detach() for s in method.attribute(model, Batch(samples, model.device))]
    if model.device.type == "cuda":
        torch.cuda.synchronize(model.device)
    seconds = (time.perf_counter() - begin) / sum(len(sample.steps) for sample in samples)
    rows = {}
    for sample, of_sample in zip(samples, scores, strict=True):
        expected = (len(sample.steps), len(sample.prompt_ids))
        if tuple(of_sample.shape) != expected:
            raise BenchmarkError(
                f"method '{type(method).__module__}': sample {sample.sample_id}: scores have "
                f"shape {tuple(of_sample.shape)}, expected (steps, prompt tokens) = {expected}"
            )
        rows[sample.sample_id] = [
            _row(method, sample.sample_id, step, raw, seconds)
            for step, raw in zip(sample.steps, of_sample.float().cpu(), strict=True)
        ]
    return rows


def _row(
    method: AttributionMethod, sample_id: str, step: int, raw: torch.Tensor, seconds: float
) -> Row:
    return {
        "sample_id": sample_id,
        "step": step,
        "raw_scores": raw.tolist(),
        "converged": (sample_id, step) not in method.unconverged if method.iterative else None,
        "seconds": seconds,
        "status": OK if bool(raw.isfinite().all()) else NONFINITE_ATTRIBUTION,
    }


def _failed_row(generation: Row) -> Row:
    return {
        "sample_id": generation["sample_id"],
        "step": 0,
        "raw_scores": None,
        "converged": None,
        "seconds": None,
        "status": generation["status"],
    }
