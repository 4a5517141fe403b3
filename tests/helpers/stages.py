"""Every stage that runs a model in batches, on the same few samples."""

from functools import partial

import numpy as np

from helpers.attributions import build
from helpers.explained_rows import explained_samples
from helpers.loaded_models import local_model
from helpers.random_models import samples
from pisoft.attribution import available_methods
from pisoft.attribution.engine import attribute_block
from pisoft.attribution.repetition import compare_with_float32
from pisoft.config.evaluation import EvaluationSettings, RankingSettings
from pisoft.config.jobs.cells import InspectJob
from pisoft.faithfulness.cell import evaluations_of_cell, evaluations_of_sample, measure_cell
from pisoft.faithfulness.inspection import Inspector
from pisoft.faithfulness.perturbation import Perturber
from pisoft.faithfulness.ranking import RankingEvaluator
from pisoft.faithfulness.soft import METRICS, measure_draws
from pisoft.models.generation import classify, continue_greedily
from pisoft.store.parquet import OK

# Without the prompt of equal tokens, where Grad-ELLM's λ is a ratio of rounding errors.
LONG, *OTHERS = explained_samples(sample for sample in samples() if sample.sample_id != "same")
GRID = (0.2, 0.7)
FEWER = {
    "integrated_gradients": {"steps": 3},
    "gradient_shap": {"draws": 3},
    "reagent": {"max_probe_steps": 3},
}


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


def softly_evaluated(protocol, operator, sampler, model, block, budget, draws=2):
    settings = EvaluationSettings(pi_grid=GRID, draws=draws, sampler=sampler)
    steps = [
        step
        for prompt, answer in block
        for step in evaluations_of_sample(
            model, prompt, answer, [scores(prompt, step) for step in answer["steps"]], settings, 1
        )
    ]
    measure_draws(
        Perturber(model, budget, protocol, operator), steps, dict.fromkeys(METRICS, range(draws))
    )
    return [row for step in steps for row in step.rows()]


def ranked(operator, model, block, budget, steps=10):
    settings = RankingSettings(operator=operator, steps=steps)
    evaluator = RankingEvaluator(model, settings, "content", 1, budget)
    return evaluator.evaluate_block([(*pair, [scores(pair[0])]) for pair in block])


def inspected(protocol, operators, model, block, budget):
    settings = InspectJob(
        model=local_model(dtype="float64"),
        protocol=protocol, operators=operators, scope="content", pi_grid=GRID, draws=2,
        seed=1, token_budget=None, step_interval=None,
    )  # fmt: skip
    inspector = Inspector(model, settings, budget)
    return [row for pair in block for row in inspector.rows(*pair)]


def repeated_in_float32(model, block, budget):
    """Return float32 results of a half-precision model: H₀ and rank agreement of scores."""
    saliency = build("saliency", token_budget=budget)
    rows = list(attribute_block(saliency, model, block))
    compare_with_float32(saliency, model, [[pair] for pair in block], rows)
    sample_rows = {}
    for row in rows:
        sample_rows.setdefault(row["sample_id"], []).append(row)
    samples = [(*pair, sample_rows[pair[0]["sample_id"]]) for pair in block]
    steps = evaluations_of_cell(model, [samples], EvaluationSettings(pi_grid=GRID, draws=1), 1)
    measure_cell(Perturber(model, budget), Perturber(model, budget), steps, 1)
    noisy = [row for step in steps[0] for row in step.rows() if row["h0_noise"] is not None]
    h0 = [row["h0"] - row["h0_noise"] for row in noisy]
    ranks = [row["float32_agreement"] for row in rows if row.get("float32_agreement") is not None]
    return h0 + ranks


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
    "inspection": partial(inspected, "dynamic", ("zero", "hide")),
}


def sorted_rows(stage, model, block, budget):
    keys = ("sample_id", "step", "curve", "operator", "pi")
    rows = stage(model, block, budget)
    return sorted(rows, key=lambda row: [str(row.get(name)) for name in keys])


def assert_same(rows, expected):
    assert len(rows) == len(expected)
    for row, other in zip(rows, expected, strict=True):
        for name, value in other.items():
            if np.asarray(value).dtype == float:
                np.testing.assert_allclose(row[name], value, rtol=1e-5, atol=1e-7)
                continue
            assert row[name] == value, name
