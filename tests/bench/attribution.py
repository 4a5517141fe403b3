"""Speed of the attribution methods against Inseq, as ratios measured in one run: `make bench`.

Prints a table and writes results/bench/attribution.json, a list of
{name, value, unit, peer, ratio, aim, met}. Both sides explain the same tokens of the same 7M
parameter, 6-layer Llama on one thread. Where Inseq crashes with the installed transformers, its
crash is mended here, and only here.
"""

from __future__ import annotations

import argparse
import logging
from functools import cache
from pathlib import Path
from typing import Any

import torch
from inseq import load_model
from inseq.attr.feat.ops import ValueZeroing
from inseq.attr.feat.ops.reagent_core import POSTagTokenSampler
from transformers import PreTrainedTokenizerFast

from measuring import VOCABULARY, best_seconds, build_network, report, row
from pisoft.attribution import load_method
from pisoft.attribution.base import Context
from pisoft.lm.attention import ATTENTION_NAME
from pisoft.lm.model import Batch, ExplainedSample, LanguageModel
from random_masked_models import numbered
from tiny_tokenizers import numbered_tokenizer

TOKEN_BUDGET = 1024  # the catalogue's default, which suits a CPU's caches
REAGENT = {  # the paper's settings
    "keep_top_n": 3,
    "stopping_condition_top_k": 3,
    "replacing_ratio": 0.25,
    "max_probe_steps": 32,
    "num_probes": 2,
}
# method, prompt tokens, generated steps, samples per batch of ours, aim, Inseq's arguments
CASES: tuple[tuple[str, int, int, int, float | None, dict[str, Any]], ...] = (
    ("value_zeroing", 256, 1, 1, 150, {}),
    ("value_zeroing", 64, 1, 1, None, {}),
    ("saliency", 64, 20, 1, 8, {}),
    ("input_x_gradient", 64, 20, 1, 8, {}),
    ("deeplift", 64, 20, 1, 8, {}),
    ("saliency", 64, 20, 8, 8, {}),
    ("integrated_gradients", 64, 20, 1, 5, {"n_steps": 16, "internal_batch_size": 8}),
    ("reagent", 64, 1, 8, 4, {}),
    ("attention", 64, 1, 1, 1, {}),
    ("saliency", 64, 1, 1, 1, {}),
)


@cache
def tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer of numbered words whose padding token occurs in no text."""
    numbered = numbered_tokenizer(VOCABULARY)
    numbered.pad_token = f"w{VOCABULARY - 1}"
    return numbered


def draw_samples(count: int, length: int, steps: int) -> list[ExplainedSample]:
    """Return random prompts with random continuations, every token of which is explained."""
    generator = torch.Generator().manual_seed(length)
    samples = []
    for number in range(count):
        # neither special tokens nor the padding token, whose rows Inseq would delete
        ids = torch.randint(3, VOCABULARY - 1, (length + steps,), generator=generator).tolist()
        samples.append(
            ExplainedSample(str(number), ids[:length], ids[length:], range(steps), ids[length:])
        )
    return samples


def our_seconds(method: str, samples: list[ExplainedSample], repetitions: int) -> float:
    """Return our seconds per sample."""
    model = LanguageModel(build_network(ATTENTION_NAME), "bench", tokenizer)
    kind = load_method(method)
    options = REAGENT if method == "reagent" else {}
    built = kind(kind.Options(**options), Context(1, TOKEN_BUDGET, numbered(VOCABULARY)))

    def work() -> None:
        built.attribute(model, Batch(samples, model.device))

    return best_seconds(work, repetitions) / len(samples)


def inseq_seconds(
    method: str, sample: ExplainedSample, arguments: dict[str, Any], repetitions: int
) -> float:
    """Return Inseq's seconds for one sample; it explains given texts one at a time."""
    mend_inseq()
    options = REAGENT if method == "reagent" else {}
    model = load_model(build_network("eager"), method, tokenizer=tokenizer(), **options)
    prompt = tokenizer().decode(sample.prompt_ids)
    whole = tokenizer().decode([*sample.prompt_ids, *sample.output_ids])

    def work() -> None:
        found = model.attribute(prompt, whole, show_progress=False, **arguments)
        scores = found[0].target_attributions
        assert scores.shape[:2] == (len(sample.prompt_ids) + len(sample.steps), len(sample.steps))

    return best_seconds(work, repetitions, warm_up=repetitions > 1)


@cache
def mend_inseq() -> None:
    """Mend what crashes in Inseq 0.7.1, changing nothing that costs time."""

    def hook(self: Any, block: int, hidden_state_idx: int = 0) -> Any:
        def keep_and_restore(module: Any, inputs: Any, output: torch.Tensor) -> torch.Tensor:
            # decoder layers return a tensor now, not a tuple
            self.corrupted_block_output_states[block] = output.clone().float().detach().cpu()
            return self.clean_block_output_states[block].to(output.device)

        return keep_and_restore

    ValueZeroing.get_states_extract_and_patch_hook = hook
    # its tagger would be downloaded; one class of words stands in for all its classes
    POSTagTokenSampler.build_pos_mapping_from_vocab = staticmethod(
        lambda *_, **__: {"word": list(range(3, VOCABULARY))}
    )


def measure(
    method: str,
    length: int,
    steps: int,
    batch: int,
    aim: float | None,
    arguments: dict[str, Any],
    repetitions: int,
) -> dict[str, Any]:
    """Return one line of the report."""
    samples = draw_samples(batch, length, steps)
    ours = our_seconds(method, samples, repetitions)
    slow = method == "value_zeroing"  # seconds, not milliseconds: once is enough
    theirs = inseq_seconds(method, samples[0], arguments, 1 if slow else repetitions)
    together = f", batch of {batch}" if batch > 1 else ""
    name = f"{method}, {length} tokens, {steps} steps{together}"
    return row(name, ours, "s/sample", f"Inseq: {theirs:.4g} s", theirs / ours, aim)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=3, help="runs per measurement")
    parser.add_argument("--output", type=Path, default=Path("results/bench/attribution.json"))
    arguments = parser.parse_args()
    logging.getLogger("inseq").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    rows = [measure(*case, repetitions=arguments.repetitions) for case in CASES]
    report(rows, arguments.output)


if __name__ == "__main__":
    main()
