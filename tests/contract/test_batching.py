"""Every stage that batches: the same rows whatever the token budget and the memory."""

from functools import partial

import numpy as np
import pytest

from helpers.attributions import build
from helpers.explained_rows import of_samples
from helpers.limited_memory import Memory
from helpers.loaded_models import local_model
from helpers.random_models import samples, twins
from pisoft.attribution import available_methods
from pisoft.attribution.engine import attribute_block
from pisoft.config.evaluation import EvaluationSettings, RankingSettings
from pisoft.config.jobs.cells import InspectJob
from pisoft.faithfulness.cell import evaluations_of_sample
from pisoft.faithfulness.inspection import Inspector
from pisoft.faithfulness.perturbation import Perturber
from pisoft.faithfulness.ranking import RankingEvaluator
from pisoft.faithfulness.soft import METRICS, measure_draws
from pisoft.models.generation import classify, continue_greedily
from pisoft.store.parquet import OK, TOO_LONG_FOR_MEMORY

LARGE = 10_000  # tokens: all in one batch
# Without the prompt of equal tokens, of which Grad-ELLM's λ is a quotient of rounding errors.
LONG, *OTHERS = of_samples(sample for sample in samples() if sample.sample_id != "same")
GRID = (0.2, 0.7)
FEWER = {"integrated_gradients": {"steps": 3}, "gradient_shap": {"draws": 3}}


def scores(prompt, step=0):
    raw = np.random.default_rng(len(prompt["input_ids"]) + step).normal(
        size=len(prompt["input_ids"])
    )
    return {
        "sample_id": prompt["sample_id"], "step": step, "raw_scores": raw.tolist(), "status": OK,
    }  # fmt: skip


def classified(model, block, budget):
    return classify(model, [prompt for prompt, _ in block], budget)


def continued(model, block, budget):
    return continue_greedily(model, [prompt for prompt, _ in block], budget, 5, 2)


def attributed(method, model, block, budget):
    chosen = build(method, token_budget=budget, **FEWER.get(method, {}))
    for row in attribute_block(chosen, model, block):
        yield {name: value for name, value in row.items() if name != "seconds"}


def softly_evaluated(protocol, operator, sampler, model, block, budget):
    settings = EvaluationSettings(pi_grid=GRID, draws=2, sampler=sampler)
    steps = [
        step
        for prompt, answer in block
        for step in evaluations_of_sample(
            model, prompt, answer, [scores(prompt, step) for step in answer["steps"]], settings, 1
        )
    ]
    measure_draws(
        Perturber(model, budget, protocol, operator), steps, dict.fromkeys(METRICS, range(2))
    )
    return [row for step in steps for row in step.rows()]


def ranked(operator, model, block, budget):
    evaluator = RankingEvaluator(model, RankingSettings(operator=operator), "content", 1, budget)
    return evaluator.evaluate_block([(*pair, scores(pair[0])) for pair in block])


def inspected(model, block, budget):
    settings = InspectJob(
        model=local_model(dtype="float64"),
        protocol="dynamic", operators=("zero", "hide"), scope="content", pi_grid=GRID, draws=2,
        seed=1, token_budget=None, step_interval=None,
    )  # fmt: skip
    inspector = Inspector(model, settings, budget)
    return [row for pair in block for row in inspector.rows(*pair)]


STAGES = {
    "classification": classified,
    "generation": continued,
    **{f"attribution by {name}": partial(attributed, name) for name in available_methods()},
    "soft evaluation": partial(softly_evaluated, "dynamic", "zero", "iid"),
    "soft evaluation of counted masks that hide": partial(
        softly_evaluated, "dynamic", "hide", "count"
    ),
    "soft evaluation with fixed routing": partial(softly_evaluated, "fixed", "mean", "latin"),
    "ranking that removes": partial(ranked, "remove"),
    "ranking that zeroes": partial(ranked, "zero"),
    "inspection": inspected,
}


SLOW = ("deeplift", "gradient_shap", "input_x_gradient", "inseq", "reagent")
CASES = [
    pytest.param(stage, marks=pytest.mark.slow if stage.endswith(SLOW) else ()) for stage in STAGES
]


@pytest.fixture(scope="module")
def model():
    return twins("llama-gqa")[0]


def sorted_rows(stage, model, block, budget):
    keys = ("sample_id", "step", "curve", "operator", "pi")
    rows = STAGES[stage](model, block, budget)
    return sorted(rows, key=lambda row: [str(row.get(name)) for name in keys])


def longest(block):
    return max(len(prompt["input_ids"]) + max(answer["steps"]) for prompt, answer in block)


def assert_same(found, expected):
    assert len(found) == len(expected)
    for row, other in zip(found, expected, strict=True):
        for name, value in other.items():
            if np.asarray(value).dtype == float:
                np.testing.assert_allclose(row[name], value, rtol=1e-5, atol=1e-7)
                continue
            assert row[name] == value, name


@pytest.mark.parametrize("stage", CASES)
def test_any_budget_and_any_memory_that_holds_one_sample_give_the_same_rows(stage, model):
    block = [LONG, *OTHERS]
    expected = sorted_rows(stage, model, block, LARGE)
    assert {row["status"] for row in expected} == {OK}
    assert_same(sorted_rows(stage, model, block, 1), expected)
    with Memory() as alone:
        assert_same(sorted_rows(stage, model, block[::-1], longest(block)), expected)
    with Memory(1.2 * alone.peak):
        assert_same(sorted_rows(stage, model, block, LARGE), expected)


@pytest.mark.parametrize("stage", [s for s in STAGES if not s.startswith("attribution")])
def test_a_sample_that_never_fits_is_a_row_and_the_others_go_on(stage, model):
    """Of attribution, whose layers may be computed again, test_engine.py tells the same."""
    sorted_rows(stage, model, OTHERS, longest(OTHERS))  # a process allocates more the first time
    with Memory() as alone:
        expected = sorted_rows(stage, model, OTHERS, longest(OTHERS))
    with Memory(1.05 * alone.peak):
        found = sorted_rows(stage, model, [LONG, *OTHERS], LARGE)
    rows = [row for row in found if row["sample_id"] == "long"]
    assert {row["status"] for row in rows} == {TOO_LONG_FOR_MEMORY}
    assert_same([row for row in found if row["sample_id"] != "long"], expected)
