"""What every attribution method promises; a new file in the folder is tested without a new line."""

import gc
import weakref

import pytest
import torch

from helpers.attributions import attribute, build
from helpers.random_models import SHAPES, samples, twins
from pisoft.attribution import available_methods, load_method
from pisoft.attribution.engine import attribute_block
from pisoft.models.layers import checkpointed_layers
from pisoft.models.model import ExplainedSample

METHODS = available_methods()


@pytest.fixture(params=SHAPES)
def model(request):
    return twins(request.param)[0]


@pytest.mark.parametrize("name", METHODS)
class TestEveryMethod:
    def test_says_who_it_is(self, name):
        method = load_method(name)
        assert method.label
        assert method.reference
        assert method.family in ("baseline", "attention", "gradient", "perturbation")

    def test_gives_one_finite_score_per_step_and_prompt_token(self, name, model):
        for sample, scores in zip(samples(), attribute(name, model, samples()), strict=True):
            assert tuple(scores.shape) == (len(sample.steps), len(sample.prompt_ids))
            assert scores.isfinite().all()
            if load_method(name).non_negative:
                assert (scores >= 0).all()

    def test_does_not_give_the_same_score_to_every_token(self, name, model):
        scores = attribute(name, model, samples()[:2])
        assert all((step.max() > step.min()).item() for of_sample in scores for step in of_sample)

    def test_is_the_same_alone_and_in_any_batch(self, name, model):
        together = attribute(name, model, samples())
        reordered = attribute(name, model, samples()[::-1])[::-1]
        for sample, found, other in zip(samples(), together, reordered, strict=True):
            (alone,) = attribute(name, model, [sample])
            torch.testing.assert_close(found, alone, rtol=1e-7, atol=1e-10)
            torch.testing.assert_close(other, alone, rtol=1e-7, atol=1e-10)

    def test_is_the_same_when_run_again(self, name, model):
        first, second = (attribute(name, model, samples()) for _ in range(2))
        assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))

    def test_is_the_same_to_the_bit_with_layers_computed_again(self, name, model):
        """As samples are that do not fit into memory otherwise."""
        expected = attribute(name, model, samples())
        with checkpointed_layers(model):
            found = attribute(name, model, samples())
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))

    def test_explains_each_step_as_if_it_were_the_only_one(self, name, model):
        sample = samples()[0]
        (scores,) = attribute(name, model, [sample])
        for row, (step, target) in enumerate(zip(sample.steps, sample.target_ids, strict=True)):
            single = ExplainedSample(
                sample.sample_id, sample.prompt_ids, sample.output_ids, [step], [target]
            )
            (alone,) = attribute(name, model, [single])
            torch.testing.assert_close(scores[row], alone[0], rtol=1e-7, atol=1e-10)

    @pytest.mark.parametrize("shape", SHAPES)
    def test_float32_is_close_to_float64(self, name, shape):
        exact = attribute(name, twins(shape)[0], samples()[:2])
        single = attribute(name, twins(shape, torch.float32)[0], samples()[:2])
        for a, b in zip(exact, single, strict=True):
            torch.testing.assert_close(b.double(), a, rtol=1e-3, atol=1e-4 * a.max().item())

    @pytest.mark.parametrize("shape", SHAPES)
    def test_16_bit_models_give_the_scores_of_their_weights(self, name, shape):
        """Within what rounding of the activations costs, and in float32 at least."""
        rounded = twins(shape, torch.bfloat16)[0]
        exact = twins(shape)[0]
        exact.network.load_state_dict(rounded.network.state_dict())
        for found, expected in zip(
            attribute(name, rounded, samples()[:2]),
            attribute(name, exact, samples()[:2]),
            strict=True,
        ):
            assert found.dtype in (torch.float32, torch.float64)
            if not load_method(name).iterative:  # rounding may end a probe a step earlier
                largest = expected.abs().max().item()
                torch.testing.assert_close(found.double(), expected, rtol=0.1, atol=0.05 * largest)

    def test_leaves_no_gradients_and_no_graph_behind(self, name, model):
        scores = attribute(name, model, samples())
        assert all(parameter.grad is None for parameter in model.network.parameters())
        reference = weakref.ref(scores[0])
        del scores
        gc.collect()
        assert reference() is None

    def test_runs_through_the_engine(self, name, model):
        block = [
            (
                {
                    "sample_id": sample.sample_id,
                    "input_ids": sample.prompt_ids,
                    "content_mask": [True] * len(sample.prompt_ids),
                },
                {
                    "sample_id": sample.sample_id,
                    "status": "ok",
                    "output_ids": sample.output_ids,
                    "steps": sample.steps,
                    "target_ids": sample.target_ids,
                },
            )
            for sample in samples()
        ]
        small, large = (
            attribute_block(build(name, token_budget=size), model, block) for size in (1, 1000)
        )
        expected = [(s.sample_id, step) for s in samples() for step in s.steps]
        assert [(row["sample_id"], row["step"]) for row in small] == expected
        for a, b in zip(small, large, strict=True):
            assert a["status"] == b["status"] == "ok"
            torch.testing.assert_close(
                torch.tensor(a["raw_scores"]), torch.tensor(b["raw_scores"]), rtol=1e-5, atol=1e-7
            )

    def test_the_seed_matters_only_if_declared(self, name, model):
        one, two = (attribute(name, model, samples(), seed=seed) for seed in (1, 2))
        same = all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
        assert same != load_method(name).seeded
