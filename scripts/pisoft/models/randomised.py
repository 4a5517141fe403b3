"""A model whose last layers are reinitialised: for sanity checks of attributions."""

from __future__ import annotations

import torch

from pisoft.models.model import LanguageModel
from pisoft.seeds import keyed_generator


@torch.no_grad()
def randomise_last_layers(model: LanguageModel, count: int, seed: int) -> None:
    """Re-initialise the last decoder layers, or all if there are fewer, in place.

    Each parameter gets normal numbers of its own mean and standard deviation, so that activations
    keep their size. They depend on the seed and the parameter's place alone: with more layers,
    those that were drawn before are the same. Embeddings, output head and last norm stay.
    Source: Adebayo et al. (2018), cascading randomisation.
    """
    layers = list(model.blocks)
    for layer in range(max(0, len(layers) - count), len(layers)):
        for name, weights in layers[layer].named_parameters():
            source = torch.Generator().manual_seed(
                int(keyed_generator(seed, "randomised", layer, name).integers(2**63))
            )
            drawn = torch.randn(weights.shape, generator=source)
            spread = weights.float().std(correction=0).item()
            weights.copy_(drawn * spread + weights.float().mean().item())
