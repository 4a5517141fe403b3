"""Shared by all benches: the model, the clock, the FLOPs, the command line, and the report."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

from pisoft.config.base import Protocol
from pisoft.errors import BenchmarkError
from pisoft.models.device import synchronise
from pisoft.models.loading import keep_differentiable
from pisoft.models.model import LanguageModel

SHAPES: dict[str, dict[str, int]] = {
    "7m": {
        "hidden_size": 288,
        "intermediate_size": 832,
        "num_hidden_layers": 6,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "vocab_size": 4096,
        "tie_word_embeddings": True,
    },
    "smollm2-135m": {
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "vocab_size": 49152,
        "tie_word_embeddings": True,
    },
    "8b": {  # Llama-3.1-8B
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
    },
    "70b": {  # Llama-3.1-70B
        "hidden_size": 8192,
        "intermediate_size": 28672,
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
    },
    "toy": {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 512,
    },
}
VOCABULARY = SHAPES["7m"]["vocab_size"]
CPU = torch.device("cpu")
REPOSITORY = Path(__file__).parents[2]
USAGE = Path(__file__).with_name("usage.py")
Aim = float | tuple[float, float] | None  # at least; from, to; or none
Row = dict[str, Any]


@dataclass(frozen=True)
class Usage:
    """Resource usage of a process."""

    seconds: float  # wall clock
    cpu_seconds: float
    memory: float  # peak, in bytes


def bench_parser(description: str | None, name: str) -> argparse.ArgumentParser:
    """Return a bench's command line, with the option for the path of its report."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path(f"results/bench/{name}.json"))
    return parser


def usage_of(command: Sequence[str | Path], threads: int = 1) -> Usage:
    """Run a Python command in a separate process and return its usage.

    Raises:
        BenchmarkError: it failed; its standard error is in the message.
    """
    finished = subprocess.run(
        [sys.executable, "-S", USAGE, sys.executable, *command],
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        capture_output=True,
        text=True,
        check=False,
    )
    if finished.returncode:
        raise BenchmarkError(f"{Path(command[0]).name} failed: {finished.stderr.strip()}")
    return Usage(*json.loads(finished.stdout))


def build_network(
    attention: str,
    shape: str = "7m",
    dtype: torch.dtype = torch.float32,
    four_bit: bool = False,
    device: torch.device = CPU,
) -> LlamaForCausalLM:
    """Return a Llama with random weights, always the same, created on the device.

    Args:
        attention: name of the attention in transformers.
        shape: a key of :data:`SHAPES`.
        dtype: of the weights, or of the arithmetic if weights have 4 bits.
        four_bit: whether the decoder's weights are nf4; layers are quantised one by one, so that
            only one at a time has full precision.
        device: where it is created.
    """
    torch.manual_seed(0)
    config = LlamaConfig(**SHAPES[shape], bos_token_id=1, eos_token_id=2, pad_token_id=None)
    layers = range(config.num_hidden_layers if four_bit else 0)
    if four_bit:
        config.num_hidden_layers = 0
    with torch.device(device):
        network = LlamaForCausalLM._from_config(config, attn_implementation=attention, dtype=dtype)
        for index in layers:
            layer = LlamaDecoderLayer(network.config, index).to(dtype)
            network.model.layers.append(_in_four_bits(layer))
    network.config.num_hidden_layers = len(network.model.layers)
    if four_bit:
        keep_differentiable(network)
    return network.eval()


def _in_four_bits(layer: LlamaDecoderLayer) -> LlamaDecoderLayer:
    """Quantise the linear layers of a decoder layer, like `quantization: nf4`."""
    from bitsandbytes.nn import Linear4bit, Params4bit

    for part in (layer.self_attn, layer.mlp):
        for name, linear in part.named_children():
            if isinstance(linear, torch.nn.Linear):
                weight = linear.weight.data
                quantised = Linear4bit(
                    *(linear.in_features, linear.out_features),
                    bias=False,
                    compute_dtype=weight.dtype,
                    quant_type="nf4",
                    device="meta",
                )
                quantised.weight = Params4bit(weight, False, quant_type="nf4", module=quantised)
                setattr(part, name, quantised.to(weight.device))
    return layer


def best_seconds(
    work: Callable[[], Any],
    repetitions: int,
    warm_up: bool = True,
    device: torch.device = CPU,
) -> float:
    """Return the shortest time of several runs, each until the device has finished."""
    if warm_up:
        work()
    times = []
    for _ in range(repetitions):
        synchronise(device)
        begin = time.perf_counter()
        work()
        synchronise(device)
        times.append(time.perf_counter() - begin)
    return min(times)


def peak_flops(
    size: int = 1536, dtype: torch.dtype = torch.float32, device: torch.device = CPU
) -> float:
    """Return the machine's own matrix-multiply rate, FLOP/s."""
    a, b = torch.randn(2, size, size, dtype=dtype, device=device)
    return 2 * size**3 / best_seconds(lambda: a @ b, 8, device=device)


def forward_flops(
    model: LanguageModel, length: int, protocol: Protocol = "dynamic", prefix: int = 0
) -> float:
    """Return the FLOPs of one perturbed forward; multiplications and additions count separately.

    Counts the weight matrices of the decoder layers at every position after the prefix (the last
    feed-forward block and the output head only at the last position), and attention over the keys
    visible to causal attention: queries times keys and maps times values with dynamic routing, only
    maps times values with fixed routing, where all draws share one map and queries and keys are not
    projected. Norms, softmax, activations, rotations, distances and masked keys are not counted.

    Args:
        model: with the structure of Llama.
        length: tokens after the prefix.
        protocol: `dynamic` or `fixed` routing.
        prefix: tokens whose keys and values are cached.
    """
    layers, config = model.decoder.layers, model.network.config
    blocks = sum(p.numel() for layer in layers for p in layer.parameters() if p.dim() > 1)
    last = sum(p.numel() for p in layers[-1].mlp.parameters())
    products = {"dynamic": 2, "fixed": 1}[protocol]
    if protocol == "fixed":
        blocks -= sum(p.numel() for part in model.unread for p in part.parameters() if p.dim() > 1)
    heads_width = config.num_attention_heads * config.head_dim
    seen = length * prefix + length * (length + 1) / 2  # keys, summed over the positions
    attention = 2 * products * model.layers * heads_width * seen
    head = 2 * model.vocabulary_size * model.width
    return 2 * blocks * length - 2 * last * (length - 1) + head + attention


def row(
    name: str, value: float, peer: str, ratio: float, *, unit: str = "", aim: Aim = None
) -> Row:
    """Return a line of the report; `met` compares the ratio with the aim, null without one."""
    low, high = aim if isinstance(aim, tuple) else (aim, float("inf"))
    return {
        "name": name,
        "value": float(value),
        "unit": unit,
        "peer": peer,
        "ratio": float(ratio),
        "aim": aim,
        "met": None if low is None else bool(low <= ratio <= high),
    }


def report(rows: Sequence[Row], path: Path, **facts: Any) -> None:
    """Print the lines; write them as a JSON list or, with facts, as key `rows` next to these."""
    write_json(path, {**facts, "rows": list(rows)} if facts else list(rows))
    print_rows(rows)


def print_rows(rows: Sequence[Row]) -> None:
    """Print the lines of a report; threads and version go to standard error."""
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}", file=sys.stderr)
    names, peers = (max(len(line[key]) for line in rows) for key in ("name", "peer"))
    for line in rows:
        print(
            f"{line['name']:{names}} {line['value']:9.4g} {line['unit']:9} "
            f"{line['ratio']:7.3g} × {line['peer']:{peers}} {_aim_text(line)}".rstrip()
        )


def _aim_text(line: Row) -> str:
    if line["aim"] is None:
        return ""
    aim = line["aim"]
    text = f"{aim[0]} to {aim[1]}" if isinstance(aim, tuple) else f"{aim}"
    return f"aim {text}, met: {line['met']}"


def report_tables(tables: Mapping[str, Sequence[Row]], path: Path, **facts: Any) -> None:
    """Print tables of rows in Markdown; write their rows and the facts as JSON."""
    write_json(path, {**facts, **tables})
    for rows in tables.values():
        print(_markdown(rows))


def _markdown(rows: Sequence[Row]) -> str:
    values = [[f"{v:.3f}" if isinstance(v, float) else str(v) for v in r.values()] for r in rows]
    lines = [list(rows[0]), ["---"] * len(rows[0]), *values]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def write_json(path: Path, content: Any) -> None:
    """Write a report, creating its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
