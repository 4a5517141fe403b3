"""All steps of a cell: setting up their evaluations and measuring their draws."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from pisoft.config.evaluation import DrawBudget, DrawSettings
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.budget import first_draws, further_draws
from pisoft.faithfulness.perturbation import PerturbationTarget, Perturber
from pisoft.faithfulness.repetition import is_repeated
from pisoft.faithfulness.scores import evaluated
from pisoft.faithfulness.soft import StepEvaluation, measure_draws, measure_in_float32
from pisoft.models.model import LanguageModel
from pisoft.progress import progress
from pisoft.store.scope import perturbable_positions

Row = Mapping[str, Any]
Sample = tuple[Row, Row, Sequence[Row]]
"""Its rows of contracts `prompts`, `generations` and `attributions`; the latter one per step."""


def evaluations_of_cell(
    model: LanguageModel,
    blocks: Iterable[Iterable[Sample]],
    settings: DrawSettings,
    seed: int,
    first_sample: int = 0,
) -> list[list[StepEvaluation]]:
    """Return the evaluations of every block of samples; see :func:`evaluations_of_sample`.

    `first_sample` is the index of the first sample in its dataset.
    """
    sample_indices = count(first_sample)
    return [
        [
            step
            for sample in block
            for step in evaluations_of_sample(model, *sample, settings, seed, next(sample_indices))
        ]
        for block in blocks
    ]


def evaluations_of_sample(
    model: LanguageModel,
    prompt: Row,
    generation: Row,
    attributions: Sequence[Row],
    settings: DrawSettings,
    seed: int,
    sample_index: int = 0,
) -> list[StepEvaluation]:
    """Return an evaluation for every evaluated step of a sample, nothing measured yet.

    Args:
        prompt, generation: rows of contracts `prompts` and `generations`.
        attributions: the sample's rows of contract `attributions`.
        settings, seed: as for :class:`StepEvaluation`.
        sample_index: index of the sample in its dataset.

    Raises:
        BenchmarkError: no attribution, or a token id outside the vocabulary.
    """
    name = f"sample {prompt['sample_id']}"
    if not attributions:
        raise BenchmarkError(f"{name}: has no row of attributions")
    positions = perturbable_positions(prompt, settings.scope)
    target_ids = dict(zip(generation["steps"], generation["target_ids"], strict=True))
    evaluations = []
    for index, row in enumerate(evaluated(attributions, settings)):
        read = [*prompt["input_ids"], *generation["output_ids"][: row["step"]]]
        model.check_ids(read, name)
        target = PerturbationTarget(read, positions, target_ids.get(row["step"], 0), name)
        step = StepEvaluation(row, target, settings, seed, model.width, (sample_index, index))
        evaluations.append(step)
    return evaluations


def measure_cell(
    perturber: Perturber,
    in_float32: Perturber,
    blocks: Sequence[Sequence[StepEvaluation]],
    draws: int | DrawBudget,
    first_block: int = 0,
) -> None:
    """Measure all blocks, repeatedly while a budget of draws asks for more.

    For a model in half precision, some steps are repeated in float32.

    Args:
        in_float32: runs the repetitions; see :func:`measure_in_float32`.
        blocks: the steps of every block of samples.
        first_block: index in the dataset of a shard's first block.
    """
    steps = [step for block in blocks for step in block]
    draw_ranges = first_draws(draws)
    while any(draw_ranges.values()):
        for block in progress(blocks, len(steps), "evaluating", "steps"):
            measure_draws(perturber, block, draw_ranges)
        draw_ranges = further_draws(draws, steps, draw_ranges)
    for index, block in enumerate(blocks, first_block):
        if perturber.model.is_half_precision and is_repeated(index):
            measure_in_float32(in_float32, block)
