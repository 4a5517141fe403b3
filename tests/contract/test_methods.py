"""Contract of every attribution method; a new file in the folder is tested automatically."""

import gc
import weakref
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from helpers.attributions import attribute
from helpers.quick_cases import one_quick
from helpers.random_models import SHAPES, random_model, samples
from pisoft.attribution import available_methods, load_method
from pisoft.models.layers import checkpointed_layers
from pisoft.models.model import ExplainedSample

METHODS = available_methods()
UNORDERED = (  # on a GPU, if an index repeats
    torch.ops.aten.index_add,
    torch.ops.aten.index_add_,
    torch.ops.aten.scatter_reduce,
)
MAY_VANISH = {"grad_ellm_inseq"}  # possibly no token passes the ReLU of its only layer


@pytest.fixture(params=one_quick(SHAPES), scope="module")
def model(request):
    return random_model(request.param)


@pytest.fixture(scope="module")
def any_model():
    """Return a model for tests that depend only on the method."""
    return random_model("llama-gqa")


@cache
def scores_of(name, model):
    return attribute(name, model, samples())


class NoUnorderedSums(TorchDispatchMode):
    """Rejects operations whose sums have no fixed order on a GPU."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert func.overloadpacket not in UNORDERED
        return func(*args, **(kwargs or {}))


@pytest.fixture
def deterministic():
    """Make torch reject non-deterministic operations."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("name", METHODS)
class TestEveryMethod:
    def test_declares_label_reference_and_family(self, name):
        method = load_method(name)
        assert method.label
        assert method.reference
        assert method.family in ("baseline", "attention", "gradient", "perturbation")

    def test_gives_one_finite_score_per_step_and_prompt_token(self, name, model):
        varied = []
        for sample, scores in zip(samples(), scores_of(name, model), strict=True):
            assert tuple(scores.shape) == (len(sample.steps), len(sample.prompt_ids))
            assert scores.isfinite().all()
            if load_method(name).non_negative:
                assert (scores >= 0).all()
            if sample.sample_id in ("long", "short"):
                varied += (scores.amax(dim=1) > scores.amin(dim=1)).tolist()
        assert any(varied) if name in MAY_VANISH else all(varied)

    def test_scores_do_not_depend_on_the_batch(self, name, model):
        reordered = attribute(name, model, samples()[::-1])[::-1]
        for sample, in_batch, other in zip(
            samples(), scores_of(name, model), reordered, strict=True
        ):
            (single,) = attribute(name, model, [sample])
            torch.testing.assert_close(in_batch, single, rtol=1e-7, atol=1e-10)
            torch.testing.assert_close(other, single, rtol=1e-7, atol=1e-10)

    @pytest.mark.usefixtures("deterministic")
    def test_sums_have_a_fixed_order_on_a_gpu(self, name, model):
        with NoUnorderedSums():
            attribute(name, model, samples())

    def test_scores_are_bit_identical_if_repeated_or_checkpointed(self, name, model):
        """Layers are checkpointed for samples that would not fit into memory otherwise."""
        again = attribute(name, model, samples())
        with checkpointed_layers(model):
            recomputed = attribute(name, model, samples())
        for one, *others in zip(scores_of(name, model), again, recomputed, strict=True):
            assert all(torch.equal(one, other) for other in others)

    def test_steps_are_explained_independently(self, name, model):
        sample, scores = samples()[0], scores_of(name, model)[0]
        for row, (step, target) in enumerate(zip(sample.steps, sample.target_ids, strict=True)):
            single = ExplainedSample(
                sample.sample_id, sample.prompt_ids, sample.output_ids, [step], [target]
            )
            (separate,) = attribute(name, model, [single])
            torch.testing.assert_close(scores[row], separate[0], rtol=1e-7, atol=1e-10)

    def test_foils_change_scores_only_if_they_have_a_target(self, name, any_model):
        sample = samples()[1]
        plain, one, other = (
            attribute(name, any_model, [replace(sample, foil_ids=foils)])[0]
            for foils in ((), [30], [31])
        )
        equal = [torch.equal(plain, one), torch.equal(one, other)]
        assert equal == [not load_method(name).has_target] * 2

    def test_float32_is_close_to_float64(self, name, model):
        single = attribute(name, random_model(model.name, torch.float32), samples()[:2])
        for a, b in zip(scores_of(name, model)[:2], single, strict=True):
            torch.testing.assert_close(b.double(), a, rtol=1e-3, atol=1e-4 * a.max().item())

    def test_16_bit_models_match_their_exact_weights(self, name, model):
        """Up to rounding of activations, and at least in float32."""
        rounded, exact = (random_model(model.name, torch.bfloat16), random_model(model.name))
        exact.network.load_state_dict(rounded.network.state_dict())
        exact_scores = attribute(name, exact, samples()[:2])
        largest = max(scores.abs().max().item() for scores in exact_scores)
        for computed, expected in zip(
            attribute(name, rounded, samples()[:2]), exact_scores, strict=True
        ):
            assert computed.dtype in (torch.float32, torch.float64)
            if not load_method(name).iterative:  # rounding may end a probe a step earlier
                torch.testing.assert_close(
                    computed.double(), expected, rtol=0.1, atol=0.05 * largest
                )

    def test_leaves_no_gradients_and_no_graph_behind(self, name, any_model):
        scores = attribute(name, any_model, samples())
        assert all(parameter.grad is None for parameter in any_model.network.parameters())
        reference = weakref.ref(scores[0])
        del scores
        gc.collect()
        assert reference() is None

    def test_the_seed_matters_only_if_declared(self, name, any_model):
        other = attribute(name, any_model, samples(), seed=2)
        same = all(
            torch.equal(a, b) for a, b in zip(scores_of(name, any_model), other, strict=True)
        )
        assert same != load_method(name).seeded
