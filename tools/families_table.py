"""Write docs/reference/families.md, what works with which family of models: `make families`.

Every family is run; a test fails where the page does not say what a run gives.
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
BATCHING = "**Batches**: in bfloat16, the size of a batch moves distances"


def batching_note(rows: list[Row]) -> str:
    """Run families in bfloat16, and say how far the size of a batch moves their distances.

    A CPU rounds alike whatever the size. Other kernels show what rounding does, which may send a
    token to other experts.
    """
    families = [row.family for row in rows if row.cells["dynamic"] != NO]
    runs = {family: _run(family) for family in families}
    experts = [family for family in families if runs[family].experts]
    sizes = {family: _moved(runs[family], _run(family, token_budget=1)) for family in families}
    kernels = {family: _moved(runs[family], _run(family, experts="eager")) for family in experts}
    exact = {family: _run(family, dtype=torch.float32) for family in experts}
    types = {family: _moved(runs[family], exact[family]) for family in experts}
    rerouted = {family: _rerouted(runs[family], exact[family]) for family in experts}
    dense = max(sizes[family] for family in families if family not in experts)
    return (
        f"{BATCHING} on a CPU by up to {_most({one: sizes[one] for one in experts})} in families "
        f"with experts, and by up to {dense:.1g} in the others. Where rounding differs, as it may "
        f"between sizes on a GPU, they move further: by up to {_most(kernels)} with another "
        f"implementation of the experts, and by up to {_most(types)} in float32, which sends up to "
        f"{_most(rerouted, '.1%')} of the tokens to other experts."
    )


def page(rows: list[Row], batching: str) -> str:
    """Return the page with the rows of all families and the line of :func:`batching_note`."""
    columns = ["family", "class", *PROTOCOLS, HIDE, GENERATION, *(f"`{name}`" for name in METHODS)]
    columns += ["padded batch", "a zeroed token is empty", "experts are held", "window"]
    works = sum(NO not in row.cells.values() for row in rows)
    return "\n".join(
        [
            "# Families of models",
            "",
            "Which families work is found by running them: `make families` writes this page, and a "
            "test fails where it is not what a run gives. Tiny models of random weights, in "
            "float64, have switched on what sets their family apart: windows, caps, scales, "
            "biases, sinks. They are loaded as a run's models are. Everything is run on prompts "
            f"of {' and '.join(str(len(prompt)) for prompt in PROMPTS)} tokens, on both sides of "
            "every window, chunk and original context of these models.",
            "",
            f"`✓`: the largest error is below {BOUND:g} of the largest value, compared with the "
            "family's own eager attention in its own whole forward. "
            f"`{NO}`: refused, in the words below the table. `dynamic` and `fixed` are Hellinger "
            "distances of perturbed predictions, `hide` those with keys hidden and no embedding "
            "zeroed; `generation` is greedy continuations of prompts of several lengths, token for "
            "token; `inseq` stands for its default, occlusion; `reagent` takes at most "
            f"{OPTIONS['reagent']['max_probe_steps']} probe steps.",
            "",
            f"{works} of {len(rows)} families can be used for everything. One kind of class "
            "is treated specially: Gemma 3n and Gemma 4 E embed a token once more in every layer, "
            "and these embeddings are perturbed with the input's. When a model is loaded, a dozen "
            "tokens are read with and without the attention probe, behind a prefix, perturbed, and "
            "with attention "
            "held, and compared with its own eager attention. A model into whose attention the "
            "probe cannot look is read whole by its class's own code: no prefix is shared, and "
            "what needs the probe is refused. Windows and chunks are narrowed "
            "meanwhile, and positions are tried on both sides of the length that rotary embeddings "
            "were first trained for. What fails is refused, and only that. Where that length "
            "changes how all tokens are read (LongRoPE), inputs on its two sides share neither "
            "batch nor prefix.",
            "",
            f"| {' | '.join(columns)} |",
            f"| {' | '.join(['---'] * len(columns))} |",
            *(row.table_line() for row in rows),
            "",
            "**Padded batch**: prompts of several lengths are continued in one batch, padded on "
            "the left; where that changes answers, only prompts of one length are. "
            "**A zeroed token is empty**: its value vector in the first layer is zero. Where it is "
            "not, by biases or learned positions, a zeroed embedding leaves something to attend "
            "to. **Experts are held**: with fixed routing, which concerns attention alone, a "
            "perturbed input is still given to the experts that the clean one was given to. "
            "**Window**: some layers see the latest tokens only; what lies before has no "
            "attention there, and no score of Grad-ELLM.",
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
    """Distances under all masks, and what routers chose meanwhile, one tensor for each call."""

    distances: np.ndarray
    experts: list[torch.Tensor]


def _run(
    family: str,
    dtype: torch.dtype = torch.bfloat16,
    experts: str | None = None,
    token_budget: int = TOKEN_BUDGET,
) -> _Run:
    """Run a family, by default with the kernel of experts that transformers chooses."""
    model = LanguageModel(network(family, ATTENTION_NAME, dtype, experts), family)
    target = target_of(PROMPT)
    masks = np.array(list(product((False, True), repeat=len(target.perturbable))))
    with chosen_experts(model.network) as chosen:
        return _Run(distances(model, target, masks, token_budget=token_budget), chosen)


def _moved(one: _Run, other: _Run) -> float:
    """Return how far the distances of two runs are apart."""
    return float(np.abs(one.distances - other.distances).max())


def _rerouted(one: _Run, other: _Run) -> float:
    """Return for which share of tokens the routers of two runs chose other experts."""
    pairs = zip(one.experts, other.experts, strict=True)
    return float(torch.cat([(a != b).any(dim=-1) for a, b in pairs]).double().mean())


def _most(values: dict[str, float], form: str = ".1g") -> str:
    """Return the largest value, and whose it is."""
    family = max(values, key=lambda name: values[name])
    return f"{values[family]:{form}} ({family})"


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    table_rows = [row_of(family) for family in FAMILIES]
    PAGE.write_text(page(table_rows, batching_note(table_rows)), encoding="utf-8")
