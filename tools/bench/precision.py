"""Effect of the dtype on metrics and scores: `make bench-precision MODEL_FOLDER=… TEXTS=…`.

A real instruct model classifies the first lines of a file of texts (up to a tab), which are then
evaluated with one draw, all at once: in float64, in narrower dtypes, and in 16-bit dtypes with
logits rounded to them, as before output heads returned float32. Scores are saliency's in float64,
so that only the evaluation differs. Prints three Markdown tables and writes their rows to
results/bench/precision.json: mean absolute differences from float64, and from the same dtype in
batches of fewer tokens; and, for every method that needs only the explained model, the rank
correlation of its scores in bfloat16 with its scores in float32 for the same weights.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr

import pisoft
from measuring import bench_parser, report_tables
from pisoft.api.prompts import Prompt
from pisoft.attribution import available_methods, load_method
from pisoft.config.evaluation import EvaluationSettings
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.curves import auc
from pisoft.faithfulness.metrics import soft_nc, soft_ns
from pisoft.faithfulness.perturbation import PerturbationTarget, Perturber
from pisoft.faithfulness.soft import METRICS, StepEvaluation, measure_draws
from pisoft.models.model import LanguageModel
from pisoft.models.precision import computing_in_float32
from pisoft.store.parquet import OK
from pisoft.store.scope import perturbable_positions
from pisoft.workflow.commandline import run

TASK = (  # from the catalogue's sentiment datasets
    "You are a helpful sentiment classifier. Please help to do the sentiment classification of the "
    "given text and respond ONLY with the single word Positive or Negative."
)
TYPES = ("float32", "bfloat16", "float16")
SETTINGS = EvaluationSettings(draws=1)
BUDGETS = (1024, 256)  # tokens per forward batch
Numbers = dict[str, np.ndarray]  # by column, a row per text


def build_prompt(model: LanguageModel, text: str) -> Prompt:
    """Return the prompt of a text."""
    turns = [{"role": "system", "content": TASK}, {"role": "user", "content": f"Text: {text}"}]
    return pisoft.prompt(model, turns)


def evaluate(
    model: LanguageModel,
    prompts: list[Prompt],
    scores: list[np.ndarray],
    protocol: Any,
    token_budget: int,
) -> Numbers:
    """Return distances (N, 2 · P), H₀ and both areas (N,) of N prompts, evaluated in one block."""
    steps = [
        StepEvaluation(
            {"sample_id": prompt["sample_id"], "step": 0, "raw_scores": raw, "status": OK},
            PerturbationTarget(prompt["input_ids"], perturbable_positions(prompt, "content"), 0),
            SETTINGS,
            1,
            model.width,
        )
        for prompt, raw in zip(prompts, scores, strict=True)
    ]
    measure_draws(Perturber(model, token_budget, protocol), steps, dict.fromkeys(METRICS, range(1)))
    if failed := {step.status for step in steps} - {OK}:
        raise BenchmarkError(f"--texts: not all can be evaluated: {', '.join(failed)}")
    rows = [step.rows()[1:] for step in steps]  # without the original metrics
    h0 = np.array([step.h0 for step in steps])[:, None]
    ns, nc = (np.array([[r[f"{m}_distances"] for r in step] for step in rows]) for m in METRICS)
    grid = np.array(SETTINGS.pi_grid)
    return {
        "a draw's distance": np.concatenate([ns, nc], axis=1)[..., 0],
        "H₀": h0,
        "AUC of π-Soft-NS": auc(grid, soft_ns(h0, ns, SETTINGS.clamp))[:, None],
        "AUC of π-Soft-NC": auc(grid, soft_nc(h0, nc))[:, None],
    }


@contextmanager
def rounded_logits(model: LanguageModel) -> Iterator[None]:
    """Make a model's head return logits in the dtype of its weights."""
    head = vars(model.network.get_output_embeddings())
    forward = head.pop("forward")
    yield
    head["forward"] = forward


def difference_row(kind: str, numbers: Numbers, expected: Numbers) -> dict[str, str]:
    """Return a row of a table: mean absolute differences."""
    means = {name: np.abs(numbers[name] - expected[name]).mean() for name in expected}
    return {"type": kind, **{name: f"{mean:.2g}" for name, mean in means.items()}}


def agreement_row(model: LanguageModel, name: str, prompts: list[Prompt]) -> dict[str, str]:
    """Return a row of a table: how a method's scores agree with those of a float32 forward."""
    agreements = []
    for prompt in prompts:
        half = pisoft.attribute(model, prompt, name)
        with computing_in_float32(model.network):
            single = pisoft.attribute(model, prompt, name, target=half.answer["target_ids"][0])
        agreements.append(spearmanr(half.content, single.content).statistic)
    numbers = {"mean": np.mean(agreements), "lowest": np.min(agreements)}
    return {"method": name, **{key: f"{value:.4f}" for key, value in numbers.items()}}


def main(arguments: argparse.Namespace) -> None:
    """Evaluate in every dtype, print and write.

    Raises:
        BenchmarkError: no such model or file, or a text that cannot be evaluated.
    """
    torch.set_num_threads(arguments.threads)
    if not arguments.texts.is_file():
        raise BenchmarkError(f"--texts: no such file: '{arguments.texts}'")
    lines = arguments.texts.read_text(encoding="utf-8").splitlines()
    texts = [text.partition("\t")[0] for text in lines[: arguments.samples]]
    model = pisoft.load(arguments.model_folder, dtype="float64")
    prompts = [build_prompt(model, text) for text in texts]
    scores = [pisoft.attribute(model, prompt, "saliency").values for prompt in prompts]
    whole, cut = BUDGETS
    exact = evaluate(model, prompts, scores, arguments.protocol, whole)
    means = {name: f"{values.mean():.3g}" for name, values in exact.items()}
    against, batches = [{"type": "float64, its mean", **means}], []
    for dtype in TYPES:
        model = pisoft.load(arguments.model_folder, dtype=dtype)
        numbers = evaluate(model, prompts, scores, arguments.protocol, whole)
        in_small_batches = evaluate(model, prompts, scores, arguments.protocol, cut)
        if dtype != "float32":
            with rounded_logits(model):
                rounded = evaluate(model, prompts, scores, arguments.protocol, whole)
            against.append(difference_row(f"{dtype}, logits rounded", rounded, exact))
        against.append(difference_row(dtype, numbers, exact))
        batches.append(difference_row(dtype, in_small_batches, numbers))
        print(f"{dtype} done", flush=True)
    model = pisoft.load(arguments.model_folder, dtype="bfloat16")
    alone = [
        name
        for name in available_methods()
        if (method := load_method(name)).needs_model and not method.needs_masked_model
    ]
    agreement = [agreement_row(model, name, prompts) for name in alone if name != "inseq"]
    tables = {
        "against float64": against,
        "between batches": batches,
        "scores in bfloat16 and float32": agreement,
    }
    facts = {"n": len(texts), "protocol": arguments.protocol, "token budgets": BUDGETS}
    report_tables(tables, arguments.output, **facts)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = bench_parser(__doc__, "precision")
    parser.add_argument("--model-folder", required=True, type=Path, help="of an instruct model")
    parser.add_argument("--texts", required=True, type=Path, help="one text a line")
    parser.add_argument("--samples", type=int, default=8, help="texts")
    parser.add_argument("--protocol", choices=("dynamic", "fixed"), default="dynamic")
    parser.add_argument("--threads", type=int, default=1, help="of the CPU")
    return parser


if __name__ == "__main__":
    run(main, parser())
