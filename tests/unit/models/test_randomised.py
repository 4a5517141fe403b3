"""Re-initialised layers: which weights change, their distribution and seed."""

import pytest
import torch

from helpers.random_models import model_and_network
from pisoft.models.randomised import randomise_last_layers


@pytest.fixture
def weights():
    """A function that returns the weights of a model by name, with some layers re-initialised."""

    def of(count, seed=1):
        model, _ = model_and_network("llama-gqa", torch.float32)
        if count:
            randomise_last_layers(model, count, seed)
        return {name: value.clone() for name, value in model.network.named_parameters()}

    return of


def changed(before, after):
    return {name for name in before if not torch.equal(before[name], after[name])}


def test_only_the_last_layers_are_re_initialised(weights):
    whole = weights(0)
    last = max(int(name.split(".")[2]) for name in whole if ".layers." in name)
    matrices = {name for name, value in whole.items() if value.std(correction=0) > 0}
    for count in (1, 2):
        names = {f".layers.{last - place}." for place in range(count)}
        expected = {name for name in matrices if any(layer in name for layer in names)}
        assert changed(whole, weights(count)) == expected
    everything = {name for name in matrices if ".layers." in name}
    assert changed(whole, weights(99)) == everything


def test_weights_keep_their_mean_and_standard_deviation(weights):
    whole, drawn = weights(0), weights(99)
    for name in changed(whole, drawn):
        n = drawn[name].numel()
        spread = whole[name].std(correction=0).item()
        assert drawn[name].mean() == pytest.approx(
            whole[name].mean().item(), abs=4.5 * spread / n**0.5
        )
        assert drawn[name].std() == pytest.approx(spread, rel=4.5 / (2 * n) ** 0.5)


def test_re_initialised_weights_depend_on_the_seed_and_not_on_the_count(weights):
    whole, one, two = weights(0), weights(1), weights(2)
    last = changed(whole, one)
    assert all(torch.equal(one[name], two[name]) for name in last)
    assert changed(one, weights(1, seed=2)) == last
    assert not changed(one, weights(1))
