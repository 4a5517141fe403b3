"""Speed of the attribution methods against Inseq, as ratios measured in one run: `make bench`.

Prints a table and writes results/bench/attribution.json, a list of
{name, value, unit, peer, ratio, aim, met}. Both sides explain the same tokens of the same
7M-parameter, 6-layer Llama on one thread. Inseq's value zeroing, which crashes with the installed
transformers, and its ReAGent, which would download a tagger, are patched. The last rows compare
methods that perturb only the tokens in scope with the same methods on all tokens.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import torch
from inseq import load_model
from inseq.attr.feat.ops import ValueZeroing
from inseq.attr.feat.ops.reagent_core import POSTagTokenSampler
from transformers import PreTrainedTokenizerFast

from helpers.fixed_inseq import tensor_states_hook
from helpers.random_masked_models import numbered
from helpers.tiny_tokenizers import numbered_tokenizer
from measuring import VOCABULARY, bench_parser, best_seconds, build_network, report, row
from pisoft.attribution import load_method
from pisoft.attribution.base import Context
from pisoft.models.attention import ATTENTION_NAME
from pisoft.models.model import Batch, ExplainedSample, LanguageModel
from pisoft.workflow.commandline import run

TOKEN_BUDGET = 1024  # the catalogue's default, which suits a CPU's caches
REAGENT = {  # the paper's settings
    "keep_top_n": 3,
    "stopping_condition_top_k": 3,
    "replacing_ratio": 0.25,
    "max_probe_steps": 32,
    "num_probes": 2,
}


@dataclass(frozen=True)
class Case:
    """One comparison.

    Inseq explains every generated token, our methods only each `every`-th one, as in the benchmark
    (the paper's interval is 5).
    """

    method: str
    prompt: int  # tokens
    generated: int  # tokens
    aim: float | None
    every: int = 1
    batch: int = 1  # samples in one batch of ours; Inseq takes one at a time
    arguments: Mapping[str, Any] = field(default_factory=dict)  # Inseq's

    @property
    def name(self) -> str:
        """Return the name in the report."""
        steps = f"every {self.every}th of " if self.every > 1 else ""
        batch = f", batch of {self.batch}" if self.batch > 1 else ""
        return f"{self.method}, {self.prompt} tokens, {steps}{self.generated} steps{batch}"


PAPER_IG = {"n_steps": 16, "internal_batch_size": 8}
CASES = (
    Case("value_zeroing", 256, 1, aim=150),
    Case("value_zeroing", 64, 1, aim=None),
    Case("saliency", 64, 20, aim=8),
    Case("input_x_gradient", 64, 20, aim=8),
    Case("deeplift", 64, 20, aim=8),
    Case("saliency", 64, 20, aim=8, every=5),
    Case("input_x_gradient", 64, 20, aim=8, every=5),
    Case("deeplift", 64, 20, aim=8, every=5),
    Case("integrated_gradients", 64, 20, aim=5, arguments=PAPER_IG),
    Case("integrated_gradients", 64, 20, aim=5, every=5, arguments=PAPER_IG),
    Case("reagent", 64, 1, aim=4, batch=8),
    Case("attention", 64, 1, aim=1),
    Case("saliency", 64, 1, aim=1),
)
# Methods that perturb only the tokens in scope, on prompts of SST-2's mean length.
SCOPED = (Case("occlusion", 72, 1, aim=3, batch=8), Case("reagent", 72, 1, aim=2, batch=8))
SCOPE = range(40, 67)  # positions of the record, after the template shared by all prompts
METHODS = tuple(dict.fromkeys(case.method for case in (*CASES, *SCOPED)))


@cache
def tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer of numbered words whose padding token never occurs in texts."""
    numbered = numbered_tokenizer(VOCABULARY)
    numbered.pad_token = f"w{VOCABULARY - 1}"
    return numbered


def draw_samples(case: Case) -> list[ExplainedSample]:
    """Return random prompts with random continuations."""
    generator = torch.Generator().manual_seed(case.prompt)
    steps = range(0, case.generated, case.every)
    samples = []
    for number in range(case.batch):
        # neither special tokens nor the padding token, whose rows Inseq would delete
        shape = (case.prompt + case.generated,)
        ids = torch.randint(3, VOCABULARY - 1, shape, generator=generator).tolist()
        prompt, output = ids[: case.prompt], ids[case.prompt :]
        samples.append(
            ExplainedSample(str(number), prompt, output, steps, [output[step] for step in steps])
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


def inseq_seconds(case: Case, sample: ExplainedSample, repetitions: int) -> float:
    """Return Inseq's seconds for one sample; Inseq explains given texts one at a time."""
    fix_inseq()
    options = REAGENT if case.method == "reagent" else {}
    model = load_model(build_network("eager"), case.method, tokenizer=tokenizer(), **options)
    prompt = tokenizer().decode(sample.prompt_ids)
    whole = tokenizer().decode([*sample.prompt_ids, *sample.output_ids])

    def work() -> None:
        attributions = model.attribute(prompt, whole, show_progress=False, **case.arguments)
        scores = attributions[0].target_attributions
        assert scores.shape[:2] == (case.prompt + case.generated, case.generated)

    return best_seconds(work, repetitions, warm_up=repetitions > 1)


@cache
def fix_inseq() -> None:
    """Patch the parts of Inseq 0.7.1 that fail here, without changing their cost."""
    ValueZeroing.get_states_extract_and_patch_hook = tensor_states_hook
    # its tagger would be downloaded; one class of words stands in for all its classes
    POSTagTokenSampler.build_pos_mapping_from_vocab = staticmethod(
        lambda *_, **__: {"word": list(range(3, VOCABULARY))}
    )


def measure(case: Case, repetitions: int) -> dict[str, Any]:
    """Return a line of the report."""
    samples = draw_samples(case)
    ours = our_seconds(case.method, samples, repetitions)
    slow = case.method == "value_zeroing"  # seconds, not milliseconds: once is enough
    theirs = inseq_seconds(case, samples[0], 1 if slow else repetitions)
    peer = f"Inseq: {theirs:.4g} s"
    return row(case.name, ours, peer, theirs / ours, unit="s/sample", aim=case.aim)


def measure_scope(case: Case, repetitions: int) -> dict[str, Any]:
    """Return a line of the report: the tokens in scope against all tokens."""
    drawn = draw_samples(case)
    template = drawn[0].prompt_ids[: SCOPE.start]
    full = [replace(s, prompt_ids=[*template, *s.prompt_ids[SCOPE.start :]]) for s in drawn]
    limited = [replace(sample, scope=SCOPE) for sample in full]
    ours, whole = (our_seconds(case.method, s, repetitions) for s in (limited, full))
    name = f"{case.method}, {len(SCOPE)} of {case.prompt} tokens in scope, batch of {case.batch}"
    peer = f"all in scope: {whole:.4g} s"
    return row(name, ours, peer, whole / ours, unit="s/sample", aim=case.aim)


def main(arguments: argparse.Namespace) -> None:
    """Measure, print and write."""
    logging.getLogger("inseq").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    rows = [
        measured(case, arguments.repetitions)
        for measured, cases in ((measure, CASES), (measure_scope, SCOPED))
        for case in cases
        if case.method in arguments.methods
    ]
    report(rows, arguments.output)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = bench_parser(__doc__, "attribution")
    parser.add_argument("--repetitions", type=int, default=3, help="runs per measurement")
    parser.add_argument(
        "--methods", nargs="+", choices=METHODS, default=METHODS, help="methods to compare"
    )
    return parser


if __name__ == "__main__":
    run(main, parser())
