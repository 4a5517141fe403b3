"""Re-initialising a model's last layers, for sanity checks of attributions."""

from __future__ import annotations

import torch

from pisoft.models.model import LanguageModel
from pisoft.seeds import keyed_generator


@torch.no_grad()
def randomise_last_layers(model: LanguageModel, count: int, seed: int) -> None:
    """Re-initialise the last decoder layers, or all if there are fewer, in place.

    Parameters are drawn from a normal distribution with their own mean and standard deviation, so
    that activations keep their scale. Draws depend only on seed, layer and parameter name, so
    they are the same for any count. Embeddings, output head and last norm are kept.
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
