"""Running a method: failures become rows or one clear error."""

import pytest
import torch

from pisoft.attribution import load_method
from pisoft.attribution.base import AttributionMethod, Context, MethodOptions
from pisoft.attribution.engine import attribute_block
from pisoft.errors import BenchmarkError
from random_models import twins


class Fixed(AttributionMethod):
    label, family, reference = "Fixed", "baseline", "test"

    def __init__(self, scores):
        super().__init__(MethodOptions(), Context(seed=0))
        self.scores = scores

    def attribute(self, model, batch):
        return [self.scores for _ in batch.samples]


def pair(ids=(4, 5, 6), status="ok", sample_id="a", other_id="a"):
    generation = {
        "sample_id": other_id,
        "status": status,
        "output_ids": [7],
        "steps": [0],
        "target_ids": [7],
    }
    return {"sample_id": sample_id, "input_ids": list(ids)}, generation


@pytest.fixture(scope="module")
def model():
    return twins("llama-gqa")[0]


def test_nan_scores_are_kept_with_their_status(model):
    scores = torch.tensor([[0.0, float("nan"), 1.0]])
    (row,) = attribute_block(Fixed(scores), model, [pair()], 100)
    assert row["status"] == "nonfinite_attribution"
    assert row["raw_scores"][2] == 1.0


def test_an_earlier_failure_is_passed_on(model):
    rows = attribute_block(Fixed(None), model, [pair(status="empty_generation")], 100)
    assert [(row["step"], row["status"], row["raw_scores"]) for row in rows] == [
        (0, "empty_generation", None)
    ]


def test_scores_of_a_wrong_shape_are_refused(model):
    with pytest.raises(BenchmarkError, match=r"sample a: scores have shape \(1, 2\), expected .*3"):
        attribute_block(Fixed(torch.zeros(1, 2)), model, [pair()], 100)


def test_a_token_outside_the_vocabulary_is_named(model):
    with pytest.raises(BenchmarkError, match=r"sample a: token id 500 .* \(allowed: 0 to 96\)"):
        attribute_block(Fixed(torch.zeros(1, 3)), model, [pair(ids=(4, 500, 6))], 100)


def test_prompts_and_generations_of_different_samples_are_refused(model):
    with pytest.raises(BenchmarkError, match="do not belong together"):
        attribute_block(Fixed(torch.zeros(1, 3)), model, [pair(other_id="b")], 100)


def test_unknown_methods_name_the_nearest_match():
    with pytest.raises(BenchmarkError, match="did you mean 'saliency'"):
        load_method("salency")
