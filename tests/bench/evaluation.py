"""Speed of the evaluator, as ratios measured in one run: `make bench`.

Prints a table and writes results/bench/evaluation.json, a list of
{name, value, unit, peer, ratio, aim, met}.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from pisoft.faithfulness.distances import hellinger, root_probabilities
from pisoft.faithfulness.soft import PerturbationTarget, SoftPerturber
from pisoft.lm.attention import ATTENTION_NAME
from pisoft.lm.model import LanguageModel

LENGTHS = (48, 128, 256)
TOKEN_BUDGET = 1024  # the catalogue's default, which suits a CPU's caches
LAYERS, WIDTH, HEADS, VOCABULARY = 6, 288, 6, 4096
SHARE_OF_PEAK_AIM, SPEED_UP_AIM = 0.75, 2.0


def build_model() -> LanguageModel:
    """Return a random Llama with 6 layers and about 7 million parameters."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=832,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    )
    network = LlamaForCausalLM._from_config(config, attn_implementation=ATTENTION_NAME)
    return LanguageModel(network, "bench")


def best_seconds(work: Callable[[], Any], repetitions: int) -> float:
    """Return the shortest time of several runs, after one warm-up."""
    work()
    times = []
    for _ in range(repetitions):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def peak_flops(size: int = 1536) -> float:
    """Return the machine's own matrix-multiply rate in float32, FLOP/s."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    return 2 * size**3 / best_seconds(lambda: a @ b, 8)


def forward_flops(model: LanguageModel, length: int) -> float:
    """Return the FLOPs of one forward with logits at the last position only."""
    blocks = sum(p.numel() for layer in model.decoder.layers for p in layer.parameters())
    attention = 2 * LAYERS * WIDTH * length * (length + 1)
    return 2 * blocks * length + 2 * VOCABULARY * WIDTH + attention


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


def row(
    name: str, value: float, unit: str, peer: str, ratio: float, aim: float | None
) -> dict[str, Any]:
    """Return one line of the report; without an aim, `met` is null."""
    met = None if aim is None else ratio >= aim
    return {
        "name": name,
        "value": value,
        "unit": unit,
        "peer": peer,
        "ratio": ratio,
        "aim": aim,
        "met": met,
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=96, help="masks per measurement")
    parser.add_argument("--output", type=Path, default=Path("results/bench/evaluation.json"))
    arguments = parser.parse_args()
    model = build_model()
    rows = []
    for length in LENGTHS:  # the peak is measured beside each length, as machines drift
        rows += measure(model, length, arguments.draws, peak_flops())
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}", file=sys.stderr)
    for line in rows:
        aim = "" if line["aim"] is None else f"aim {line['aim']:.2f}, met: {line['met']}"
        print(
            f"{line['name']:36} {line['value']:9.1f} {line['unit']:8} "
            f"{line['ratio']:6.2f} × {line['peer']:34} {aim}"
        )


if __name__ == "__main__":
    main()
