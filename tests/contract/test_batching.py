"""Every stage that batches: the same rows whatever the token budget and the memory."""

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
def test_any_budget_and_any_memory_that_holds_one_sample_give_the_same_rows(stage, model):
    block = [LONG, *OTHERS]
    expected = sorted_rows(STAGES[stage], model, block, LARGE)
    assert {row["status"] for row in expected} == {OK}
    assert_same(sorted_rows(STAGES[stage], model, block, 1), expected)
    with Memory() as alone:
        assert_same(sorted_rows(STAGES[stage], model, block[::-1], longest(block)), expected)
    with Memory(1.2 * alone.peak):
        assert_same(sorted_rows(STAGES[stage], model, block, LARGE), expected)


@pytest.mark.parametrize("stage", [s for s in STAGES if not s.startswith("attribution")])
def test_a_sample_that_never_fits_is_a_row_and_the_others_go_on(stage, model):
    """Of attribution, whose layers may be computed again, test_engine.py tells the same."""
    sorted_rows(
        STAGES[stage], model, OTHERS, longest(OTHERS)
    )  # a process allocates more the first time
    with Memory() as alone:
        expected = sorted_rows(STAGES[stage], model, OTHERS, longest(OTHERS))
    with Memory(1.05 * alone.peak):
        all_rows = sorted_rows(STAGES[stage], model, [LONG, *OTHERS], LARGE)
    rows = [row for row in all_rows if row["sample_id"] == "long"]
    assert {row["status"] for row in rows} == {TOO_LONG_FOR_MEMORY}
    assert_same([row for row in all_rows if row["sample_id"] != "long"], expected)
