"""Scores of a whole answer against its log-probability in full forwards."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from helpers.attributions import attribute, build
from helpers.random_models import EAGER, model_and_network, samples
from helpers.stages import LONG as PAIR
from pisoft.attribution import available_methods, load_method
from pisoft.attribution.engine import attribute_block
from pisoft.cost.lengths import Lengths, SampleLengths
from pisoft.cost.tokens import attribution_work
from pisoft.models.ablation import baseline_embeddings
from pisoft.models.gradients import path_integrals
from pisoft.models.model import Batch

SPANS = [name for name in available_methods() if load_method(name).explains_spans]
LONG, SHORT = (replace(sample, spanned=True) for sample in samples()[:2])


def log_probability(network, sample, embeddings):
    """Return the explained tokens' log-probability from a full forward of embeddings (1, T, d)."""
    logits = network(inputs_embeds=embeddings, use_cache=False).logits[0].log_softmax(dim=-1)
    first = len(sample.prompt_ids) - 1
    pairs = zip(sample.steps, sample.target_ids, strict=True)
    return sum(logits[first + step, target] for step, target in pairs)


def embedded(network, sample):
    return network.get_input_embeddings()(torch.tensor([sample.read_ids])).detach()


def test_gradients_equal_those_of_the_log_probability():
    model, network = model_and_network("llama-gqa")
    for sample, scores in zip(
        (LONG, SHORT), attribute("saliency", model, [LONG, SHORT]), strict=True
    ):
        x = embedded(network, sample).requires_grad_(True)
        (gradients,) = torch.autograd.grad(log_probability(network, sample, x), x)
        expected = gradients[0, : len(sample.prompt_ids)].norm(dim=-1)
        torch.testing.assert_close(scores[0], expected, **EAGER)


def test_integrated_gradients_sum_to_the_change_of_log_probability():
    model, network = model_and_network("llama-gqa")
    batch = Batch([LONG], model.device)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    path = (torch.from_numpy(v)[None] for v in ((nodes + 1) / 2, weights / 2))
    baseline = baseline_embeddings(model, batch.input_ids, "reference")
    (integral,) = path_integrals(model, batch, "probability", baseline, *path, rows=50)
    x = embedded(network, LONG)
    change = log_probability(network, LONG, x) - log_probability(network, LONG, baseline)
    torch.testing.assert_close(integral.sum(), change.detach(), **EAGER)


@torch.no_grad()
def test_occlusion_is_the_change_of_log_probability():
    model, network = model_and_network("llama-gqa")
    (scores,) = attribute("occlusion", model, [LONG], baseline="zero", signed=True)
    x = embedded(network, LONG)
    for token in range(len(LONG.prompt_ids)):
        without = x.clone()
        without[0, token] = 0
        change = log_probability(network, LONG, x) - log_probability(network, LONG, without)
        torch.testing.assert_close(scores[0, token], change, **EAGER)


@pytest.mark.parametrize("name", SPANS)
def test_scores_do_not_depend_on_other_samples(name):
    model, _ = model_and_network("llama-gqa")
    together = attribute(name, model, [LONG, SHORT])
    for sample, scores in zip((LONG, SHORT), together, strict=True):
        (alone,) = attribute(name, model, [sample])
        torch.testing.assert_close(scores[0], alone[0])
        assert len(sample.prompt_ids) == len(alone[0])


@pytest.mark.parametrize("name", ["saliency", "occlusion"])
def test_every_step_has_its_row(name):
    prompt, answer = PAIR
    model, _ = model_and_network("llama-gqa")
    rows = attribute_block(build(name), model, [(prompt, {**answer, "spanned": True})])
    scores = [row["raw_scores"] for row in rows]
    assert [row["step"] for row in rows] == answer["steps"]
    assert len(scores) == 2
    assert scores[0] == scores[1]


def test_the_plan_counts_one_backward_pass():
    lengths = Lengths((SampleLengths(20, 5, 10, 8, (0, 4, 7), (0,)),), "")
    (sample,) = lengths.as_spans().samples
    assert attribution_work(sample, build("saliency")).tokens == 2 * 27
