"""Every batched stage returns the same rows for any token budget and memory limit."""

import pytest

from helpers.limited_memory import Memory
from helpers.random_models import random_model
from helpers.stages import LONG, OTHERS, STAGES, assert_same, sorted_rows
from pisoft.store.parquet import OK, TOO_LONG_FOR_MEMORY

LARGE = 10_000  # tokens: all in one batch
SLOW = ("deeplift", "gradient_shap", "input_x_gradient", "inseq")
CASES = [
    pytest.param(stage, marks=pytest.mark.slow if stage.endswith(SLOW) else ()) for stage in STAGES
]


@pytest.fixture(scope="module")
def model():
    return random_model("llama-gqa")


def longest(block):
    return max(len(prompt["input_ids"]) + max(answer["steps"]) for prompt, answer in block)


@pytest.mark.parametrize("stage", CASES)
def test_rows_do_not_depend_on_budget_or_memory(stage, model):
    block = [LONG, *OTHERS]
    expected = sorted_rows(STAGES[stage], model, block, LARGE)
    assert {row["status"] for row in expected} == {OK}
    assert_same(sorted_rows(STAGES[stage], model, block, 1), expected)
    with Memory() as unlimited:
        assert_same(sorted_rows(STAGES[stage], model, block[::-1], longest(block)), expected)
    with Memory(1.2 * unlimited.peak):
        assert_same(sorted_rows(STAGES[stage], model, block, LARGE), expected)


@pytest.mark.parametrize("stage", [s for s in STAGES if not s.startswith("attribution")])
def test_a_sample_too_long_for_memory_does_not_stop_the_others(stage, model):
    """Attribution may recompute layers instead; test_engine.py tests it."""
    sorted_rows(STAGES[stage], model, OTHERS, longest(OTHERS))  # the first call allocates more
    with Memory() as unlimited:
        expected = sorted_rows(STAGES[stage], model, OTHERS, longest(OTHERS))
    with Memory(1.05 * unlimited.peak):
        all_rows = sorted_rows(STAGES[stage], model, [LONG, *OTHERS], LARGE)
    rows = [row for row in all_rows if row["sample_id"] == "long"]
    assert {row["status"] for row in rows} == {TOO_LONG_FOR_MEMORY}
    assert_same([row for row in all_rows if row["sample_id"] != "long"], expected)
