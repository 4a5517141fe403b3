"""Comparing scores of methods with their authors' code: `make bench-peers [MODEL_FOLDER=…]`.

Both explain the same tokens and target in float64: this benchmark here, `peer_scores.py` in its own
environment (`peers.txt`). The model is a small Llama with random weights, or another Llama given by
`--model-folder`. Prompts are few and short, so that all masks can be read. Prints a Markdown table
and writes its rows to results/bench/peers.json: the largest difference relative to the largest
score, and Spearman's ρ, each for the worst prompt.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy.stats import spearmanr

import pisoft
from helpers.random_models import save_random_llama
from helpers.tiny_tokenizers import llama_tokenizer
from measuring import bench_parser, report_tables
from pisoft.api.prompts import Prompt
from pisoft.errors import BenchmarkError
from pisoft.models.model import LanguageModel
from pisoft.workflow.commandline import run

TEXTS = (
    "the film was wonderful",
    "its dull ending did hurt",
    "storms had damaged the old station",
)
MASKED = {"baseline": "zero", "signed": True}
ALL_MASKS = 2**12  # more than any text above has


@dataclass(frozen=True)
class Pair:
    """A method and the peer whose scores it should match."""

    method: str
    peer: str  # a key of peer_scores.PEERS
    options: dict[str, Any] = field(default_factory=dict)


PAIRS = (
    Pair("attn_lrp", "lxt, AttnLRP"),
    Pair("cp_lrp", "lxt, CP-LRP"),
    Pair("gim", "gim.explain, parts in reach"),
    Pair("gim", "gim.explain"),
    Pair("ifr", "flashtrace, one layer after another"),
    Pair("flashtrace", "flashtrace"),
    Pair("mask_regression", "context-cite, all masks", MASKED | {"forwards": ALL_MASKS}),
    Pair("kernel_shap", "shap, exact", MASKED | {"forwards": ALL_MASKS}),
)


def our_scores(model: LanguageModel, pair: Pair, prompts: list[Prompt], targets: list[int]) -> Any:
    """Return this benchmark's scores, one array (tokens,) per prompt."""
    return [
        pisoft.attribute(model, prompt, pair.method, target=target, **pair.options).values
        for prompt, target in zip(prompts, targets, strict=True)
    ]


def peer_scores(python: Path, peer: str, model_folder: Path, prompts: list[Any]) -> Any:
    """Return a peer's scores, one list per prompt.

    Raises:
        BenchmarkError: no such Python, or the peer failed; its last line says why.
    """
    with TemporaryDirectory() as folder:
        given, scores = Path(folder, "prompts.json"), Path(folder, "scores.json")
        given.write_text(json.dumps(prompts), encoding="utf-8")
        script = Path(__file__).with_name("peer_scores.py")
        try:
            finished = subprocess.run(
                [python, script, peer, model_folder, given, scores],
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError as error:
            raise BenchmarkError(f"--python: {error}; `make bench-peers` installs it") from error
        if finished.returncode:
            raise BenchmarkError(f"{peer}: {finished.stderr.strip().splitlines()[-1]}")
        return json.loads(scores.read_text(encoding="utf-8"))


def compared(pair: Pair, ours: list[np.ndarray], theirs: list[list[float]]) -> dict[str, Any]:
    """Return a row of the table."""
    largest, agreement = 0.0, 1.0
    for scores, peer in zip(ours, map(np.array, theirs), strict=True):
        largest = max(largest, float(np.abs(scores - peer).max() / np.abs(peer).max()))
        agreement = min(agreement, float(spearmanr(scores, peer).statistic))
    return {
        "method": f"`{pair.method}`",
        "peer": pair.peer,
        "largest difference": f"{largest:.1e}",
        "Spearman's ρ": f"{agreement:.4f}",
    }


def main(arguments: argparse.Namespace) -> None:
    """Compare every pair, print and write.

    Raises:
        BenchmarkError: no model, or a peer that fails.
    """
    with TemporaryDirectory() as folder:
        model_folder = arguments.model_folder or Path(folder)
        if not arguments.model_folder:
            save_random_llama(model_folder, llama_tokenizer())
        model = pisoft.load(model_folder, dtype="float64")
        prompts = [pisoft.prompt(model, text) for text in TEXTS]
        targets = [pisoft.attribute(model, p, "random").answer["target_ids"][0] for p in prompts]
        given = [
            {
                "input_ids": prompt["input_ids"],
                "target": target,
                "content": np.flatnonzero(prompt["content_mask"]).tolist(),
                "space": model.tokenizer.encode(" ", add_special_tokens=False)[0],
            }
            for prompt, target in zip(prompts, targets, strict=True)
        ]
        rows = [
            compared(
                pair,
                our_scores(model, pair, prompts, targets),
                peer_scores(arguments.python, pair.peer, model_folder, given),
            )
            for pair in PAIRS
        ]
    tokens = [len(prompt["input_ids"]) for prompt in prompts]
    report_tables({"scores": rows}, arguments.output, tokens=tokens)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = bench_parser(__doc__, "peers")
    parser.add_argument("--python", type=Path, default=Path("results/bench/peers/bin/python"))
    parser.add_argument("--model-folder", type=Path, help="of a Llama; default: random weights")
    return parser


if __name__ == "__main__":
    run(main, parser())
