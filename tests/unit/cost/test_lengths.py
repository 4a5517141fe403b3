"""Lengths: measured from prompts and answers if present, else estimated from the catalogue."""

from __future__ import annotations

import pytest

from helpers import explained_rows
from helpers.planned_run import run_of
from pisoft.cost.lengths import (
    BEFORE,
    BEHIND,
    ESTIMATED,
    MEASURED,
    PROMPTS_MEASURED,
    sample_lengths,
)
from pisoft.errors import BenchmarkError
from pisoft.store.parquet import write_rows


def prompt_row(sample_id, tokens, first, perturbable, status="ok"):
    content, of_user = range(first, first + perturbable), [place >= 2 for place in range(tokens)]
    return explained_rows.prompt_of_ids(
        sample_id, range(tokens), content, user_mask=of_user, status=status
    )


def answer_row(sample_id, output, steps, status="ok"):
    texts = {"output_ids": [1] * output, "output_token_texts": ["x"] * output}
    return explained_rows.answer(sample_id, steps=steps, status=status) | texts


PROMPTS = [
    prompt_row("a", 30, 9, 15),
    prompt_row("b", 50, 11, 30),
    prompt_row("c", 0, 0, 0, "prompt_too_long"),
    prompt_row("d", 20, 8, 4),
]
ANSWERS = [
    answer_row("a", 7, [0, 5]),
    answer_row("b", 11, [0, 5, 10]),
    answer_row("c", 0, [], "prompt_too_long"),
    answer_row("d", 0, [], "empty_generation"),
]


def write(results, kind, dataset, rows):
    write_rows(results / "data" / kind / "small" / f"{dataset}.parquet", kind, rows, {})


def lengths_of(results, dataset, entries=None, **changes):
    return sample_lengths(run_of(entries, **changes), "small", dataset, results)


def test_existing_prompts_are_measured_and_failed_samples_cost_nothing(tmp_path):
    """With prompts only, answers count at full length."""
    write(tmp_path, "prompts", "stories", PROMPTS)
    lengths = lengths_of(tmp_path, "stories")
    assert lengths.origin == PROMPTS_MEASURED
    assert [(s.prompt, s.output, s.steps) for s in lengths.samples] == [
        (tokens, 11, (0, 5, 10)) for tokens in (30, 50, 20)
    ]
    write(tmp_path, "generations", "stories", ANSWERS)
    lengths = lengths_of(tmp_path, "stories")
    assert lengths.origin == MEASURED
    assert [(s.prompt, s.first, s.perturbable, s.output, s.steps) for s in lengths.samples] == [
        (30, 9, 15, 7, (0, 5)), (50, 11, 30, 11, (0, 5, 10)),
    ]  # fmt: skip
    assert lengths.mean(lambda sample: sample.prompt) == 40


def test_explained_and_evaluated_steps_are_counted_separately():
    evaluation = {"draws": 4, "step_interval": 5}
    generation = {"max_new_tokens": 11, "step_interval": 1}
    (story,) = set(
        lengths_of(None, "stories", generation=generation, evaluation=evaluation).samples
    )
    assert (story.steps, story.evaluated) == (tuple(range(11)), (0, 5, 10))


def test_label_answers_need_no_generations(tmp_path):
    write(tmp_path, "prompts", "reviews", PROMPTS)
    lengths = lengths_of(tmp_path, "reviews")
    assert lengths.origin == MEASURED
    assert {(s.output, s.steps) for s in lengths.samples} == {(1, (0,))}


@pytest.mark.parametrize(
    ("scope", "expected"),
    [("content", (9, 15)), ("user_turn", (2, 28)), ("all_but_bos", (1, 29)), ("all", (0, 30))],
)
def test_the_scope_sets_the_perturbable_tokens(scope, expected, tmp_path):
    write(tmp_path, "prompts", "reviews", PROMPTS[:1])
    evaluation = {"draws": 4, "pi_grid": [0.2, 0.5], "scope": scope}
    (review,) = lengths_of(tmp_path, "reviews", evaluation=evaluation).samples
    assert (review.first, review.perturbable) == expected


def test_estimates_add_the_template_to_the_catalogues_mean(tmp_path):
    lengths = lengths_of(tmp_path, "reviews")
    (review,) = set(lengths.samples)
    assert lengths.origin == ESTIMATED
    assert (len(lengths.samples), review.first, review.perturbable) == (40, BEFORE, 20)
    assert (review.prompt, review.output, review.steps) == (BEFORE + 20 + BEHIND, 1, (0,))
    stories = lengths_of(tmp_path, "stories").samples
    story = stories[0]
    assert stories == (story,) * 7
    assert (story.perturbable, story.output) == (30, 11)
    assert story.steps == (0, 5, 10)
    everything = {"draws": 4, "scope": "all"}
    (whole,) = set(lengths_of(tmp_path, "reviews", evaluation=everything).samples)
    assert (whole.first, whole.perturbable) == (0, whole.prompt)


@pytest.mark.parametrize(("limit", "longest"), [(BEFORE + BEHIND + 12, 12), (500, 30)])
def test_estimates_are_truncated_like_prompts(limit, longest, tmp_path):
    (story,) = set(lengths_of(tmp_path, "stories", prompts={"max_tokens": limit}).samples)
    assert (story.perturbable, story.prompt) == (longest, BEFORE + longest + BEHIND)


def test_missing_estimates_name_dataset_and_key(tmp_path):
    unknown = {"datasets.reviews": {"expected": None}}
    with pytest.raises(BenchmarkError, match=r"'reviews': expected\.content_tokens: not set"):
        lengths_of(tmp_path, "reviews", unknown)
    write(tmp_path, "prompts", "reviews", PROMPTS)
    assert len(lengths_of(tmp_path, "reviews", unknown).samples) == 3
