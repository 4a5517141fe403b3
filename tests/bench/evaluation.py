"""Speed of the evaluator, as ratios measured in one run: `make bench`.

Prints a table and writes results/bench/evaluation.json, a list of
{name, value, unit, peer, ratio, aim, met}.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch

from measuring import LAYERS, VOCABULARY, WIDTH, best_seconds, build_network, report, row
from pisoft.faithfulness.distances import hellinger, root_probabilities
from pisoft.faithfulness.soft import PerturbationTarget, SoftPerturber
from pisoft.lm.attention import ATTENTION_NAME
from pisoft.lm.model import LanguageModel

LENGTHS = (48, 128, 256)
TOKEN_BUDGET = 1024  # the catalogue's default, which suits a CPU's caches
SHARE_OF_PEAK_AIM, SPEED_UP_AIM = 0.75, 2.0


def peak_flops(size: int = 1536) -> float:
    """Return the machine's own matrix-multiply rate in float32, FLOP/s."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    return 2 * size**3 / best_seconds(lambda: a @ b, 8)


def forward_flops(model: LanguageModel, length: int) -> float:
    """Return the FLOPs of one forward with logits, and the last MLP, at the last position only."""
    blocks = sum(p.numel() for layer in model.decoder.layers for p in layer.parameters())
    last = sum(p.numel() for p in model.decoder.layers[-1].mlp.parameters())
    attention = 2 * LAYERS * WIDTH * length * (length + 1)
    return 2 * blocks * length - 2 * last * (length - 1) + 2 * VOCABULARY * WIDTH + attention


def one_mask_at_a_time(model: LanguageModel, ids: list[int], masks: np.ndarray) -> torch.Tensor:
    """Evaluate masks by a plain loop: one forward per mask, last logits only, no cache."""
    embeddings = model.embed(torch.tensor([ids]))
    factors = torch.from_numpy(masks).to(embeddings.dtype)[..., None]
    with torch.inference_mode():
        clean = model.network(inputs_embeds=embeddings, use_cache=False, logits_to_keep=1)
        roots = root_probabilities(clean.logits[:, -1])
        found = []
        for factor in factors:
            output = model.network(
                inputs_embeds=embeddings * factor, use_cache=False, logits_to_keep=1
            )
            found.append(hellinger(roots, root_probabilities(output.logits[:, -1])))
    return torch.cat(found)


def measure(model: LanguageModel, length: int, draws: int, peak: float) -> list[dict[str, Any]]:
    """Return the rows of one prompt length."""
    rng = np.random.default_rng(length)
    ids = rng.integers(0, VOCABULARY, length).tolist()
    masks = rng.random((draws, length)) < 0.5
    target = PerturbationTarget(ids, np.arange(length))

    def batched() -> np.ndarray:
        return SoftPerturber(model, target, TOKEN_BUDGET).distances(masks)

    difference = np.abs(batched() - one_mask_at_a_time(model, ids, masks).numpy()).max()
    if difference > 1e-4:
        raise RuntimeError(f"batched and looped distances differ by {difference}")
    rate = draws / best_seconds(batched, 3)
    loop_rate = draws / best_seconds(lambda: one_mask_at_a_time(model, ids, masks), 3)
    achieved = rate * forward_flops(model, length)
    return [
        row(
            f"forwards per second, {length} tokens",
            rate,
            "1/s",
            f"one mask at a time: {loop_rate:.0f}/s",
            rate / loop_rate,
            SPEED_UP_AIM if length == LENGTHS[0] else None,
        ),
        row(
            f"FLOP/s, {length} tokens",
            achieved / 1e9,
            "GFLOP/s",
            f"matrix multiply: {peak / 1e9:.0f} GFLOP/s",
            achieved / peak,
            SHARE_OF_PEAK_AIM,
        ),
    ]


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=96, help="masks per measurement")
    parser.add_argument("--output", type=Path, default=Path("results/bench/evaluation.json"))
    arguments = parser.parse_args()
    model = LanguageModel(build_network(ATTENTION_NAME), "bench")
    rows = []
    for length in LENGTHS:  # the peak is measured beside each length, as machines drift
        rows += measure(model, length, arguments.draws, peak_flops())
    report(rows, arguments.output)


if __name__ == "__main__":
    main()
