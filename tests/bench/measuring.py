"""What the benches share: the model, the clock, and the report."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

LAYERS, WIDTH, HEADS, VOCABULARY = 6, 288, 6, 4096


def build_network(attention: str) -> LlamaForCausalLM:
    """Return a random Llama with 6 layers and about 7 million parameters, always the same."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=832,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=2,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=None,
    )
    return LlamaForCausalLM._from_config(config, attn_implementation=attention).eval()


def best_seconds(work: Callable[[], Any], repetitions: int, warm_up: bool = True) -> float:
    """Return the shortest time of several runs."""
    if warm_up:
        work()
    times = []
    for _ in range(repetitions):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


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


def report(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Write the lines as JSON and print them as a table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(list(rows), indent=1) + "\n", encoding="utf-8")
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}", file=sys.stderr)
    for line in rows:
        aim = "" if line["aim"] is None else f"aim {line['aim']:.2f}, met: {line['met']}"
        print(
            f"{line['name']:48} {line['value']:9.4g} {line['unit']:8} "
            f"{line['ratio']:7.2f} × {line['peer']:36} {aim}"
        )
