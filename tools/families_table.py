"""Write docs/reference/families.md, the support table of model families: `make families`.

Every family is run; a test fails if the page does not match a run.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import torch
import transformers

from families_run import (
    BOUND,
    GENERATION,
    HIDE,
    METHODS,
    NO,
    OPTIONS,
    PROMPT,
    PROMPTS,
    PROTOCOLS,
    TOKEN_BUDGET,
    Row,
    chosen_experts,
    row_of,
    target_of,
)
from helpers.evaluations import distances
from helpers.families import FAMILIES, network
from pisoft.models.attention import ATTENTION_NAME
from pisoft.models.model import LanguageModel

PAGE = Path(__file__).parents[1] / "docs/reference/families.md"
BATCHING = "**Batches**: in bfloat16 on a CPU, the batch size changes distances"


def batching_note(rows: list[Row]) -> str:
    """Run families in bfloat16, and describe how much the batch size changes their distances.

    A CPU rounds almost equally for all sizes. Other kernels show the effect of rounding, which may
    send a token to other experts.
    """
    families = [row.family for row in rows if row.cells["dynamic"] != NO]
    runs, sizes = {}, {}
    for family in families:
        model = _model(family)
        runs[family] = _run(model)
        sizes[family] = _moved(runs[family], _run(model, token_budget=1))
    experts = [family for family in families if runs[family].experts]
    kernels = {
        family: _moved(runs[family], _run(_model(family, experts="eager"))) for family in experts
    }
    exact = {family: _run(_model(family, torch.float32)) for family in experts}
    types = {family: _moved(runs[family], exact[family]) for family in experts}
    rerouted = {family: _rerouted(runs[family], exact[family]) for family in experts}
    dense = max(sizes[family] for family in families if family not in experts)
    return (
        f"{BATCHING} by up to {_most({name: sizes[name] for name in experts})} in families with "
        f"experts, and by up to {dense:.1g} in the others. Other rounding, as may occur between "
        f"batch sizes on a GPU, changes them more: by up to {_most(kernels)} with another "
        f"implementation of the experts, and by up to {_most(types)} in float32, which sends up to "
        f"{_most(rerouted, '.1%')} of the tokens to other experts."
    )


def page(rows: list[Row], batching: str) -> str:
    """Return the page with the rows of all families and the line of :func:`batching_note`."""
    columns = ["family", "class", *PROTOCOLS, HIDE, GENERATION, *(f"`{name}`" for name in METHODS)]
    columns += ["padded batch", "empty zeroed token", "same experts", "window"]
    fewer = ", ".join(f"`{name}` {count}" for name in OPTIONS for count in OPTIONS[name].values())
    works = sum(NO not in row.cells.values() for row in rows)
    return "\n".join(
        [
            "# Families of models",
            "",
            "`make families` runs every family and writes this page; a test fails if the page "
            "differs from a run. The models are tiny, with random float64 weights, and use the "
            "features that set their family apart: windows, caps, scales, biases, sinks. They are "
            "loaded like the models of a run. Prompts have "
            f"{' and '.join(str(len(prompt)) for prompt in PROMPTS)} tokens, on both sides of "
            "every window, chunk and original context length of these models.",
            "",
            f"`✓`: the largest error is below {BOUND:g} of the largest value, compared with a full "
            f"forward pass with the family's own eager attention. `{NO}`: refused, with the "
            "message below the table. `dynamic` and `fixed`: Hellinger distances of perturbed "
            "predictions. `hide`: the same with hidden keys and no zeroed embedding. "
            "`generation`: greedy continuations of prompts of several lengths, compared token by "
            "token. `inseq` stands for its default method, occlusion. Fewer steps than by default: "
            f"{fewer}.",
            "",
            f"{works} of {len(rows)} families support everything. Gemma 3n and Gemma 4 E embed "
            "each token again in every layer; these embeddings are perturbed with the input "
            "embeddings.",
            "",
            "When a model is loaded, it reads a dozen tokens with and without the attention probe, "
            "after a prefix, perturbed, and with fixed attention, and is compared with its own "
            "eager attention. Meanwhile, windows and chunks are narrowed, and positions are tried "
            "on both sides of the context length for which rotary embeddings were first trained. "
            "Only what fails is refused. If the probe cannot read a model's attention, the code of "
            "its class reads whole inputs: no prefix is shared, and whatever needs the probe is "
            "refused. If the original context length changes how all tokens are read (LongRoPE), "
            "inputs on its two sides share neither batch nor prefix.",
            "",
            f"| {' | '.join(columns)} |",
            f"| {' | '.join(['---'] * len(columns))} |",
            *(row.table_line() for row in rows),
            "",
            "**Padded batch**: prompts of several lengths are continued in one left-padded batch. "
            "Where padding changes answers, a batch holds prompts of one length only. **Empty "
            "zeroed token**: the value vector of a zeroed token in the first layer is zero. "
            "Otherwise, biases or learned positions leave something to attend to. **Same "
            "experts**: with fixed routing, which fixes attention alone, a perturbed input goes to "
            "the experts of the clean input. **Window**: some layers see only the latest tokens; "
            "earlier tokens have no attention there, and no Grad-ELLM score.",
            "",
            batching,
            "",
            "## What is refused",
            "",
            *(line for row in rows for line in row.refusal_lines()),
            "",
            f"Made with transformers {transformers.__version__} and torch "
            f"{torch.__version__.partition('+')[0]}.",
            "",
        ]
    )


@dataclass(frozen=True)
class _Run:
    """Distances under all masks, and the experts chosen, one tensor per call of a router."""

    distances: np.ndarray
    experts: list[torch.Tensor]


def _model(
    family: str, dtype: torch.dtype = torch.bfloat16, experts: str | None = None
) -> LanguageModel:
    """Return a family's model, by default with transformers' choice of experts kernel."""
    return LanguageModel(network(family, ATTENTION_NAME, dtype, experts), family)


def _run(model: LanguageModel, token_budget: int = TOKEN_BUDGET) -> _Run:
    target = target_of(PROMPT)
    masks = np.array(list(product((False, True), repeat=len(target.perturbable))))
    with chosen_experts(model.network) as chosen:
        return _Run(distances(model, target, masks, token_budget=token_budget), chosen)


def _moved(first: _Run, second: _Run) -> float:
    """Return the largest difference of two runs' distances."""
    return float(np.abs(first.distances - second.distances).max())


def _rerouted(first: _Run, second: _Run) -> float:
    """Return the share of tokens that two runs route to different experts."""
    pairs = zip(first.experts, second.experts, strict=True)
    return float(torch.cat([(a != b).any(dim=-1) for a, b in pairs]).double().mean())


def _most(values: dict[str, float], form: str = ".1g") -> str:
    """Return the largest value and its key."""
    family = max(values, key=lambda name: values[name])
    return f"{values[family]:{form}} ({family})"


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    table_rows = [row_of(family) for family in FAMILIES]
    PAGE.write_text(page(table_rows, batching_note(table_rows)), encoding="utf-8")
