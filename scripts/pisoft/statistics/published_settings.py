"""The settings that the paper states, and how those of a run differ.

A setting that decides what a number is (`decides`) makes the run's numbers other ones, which are
not set beside the paper's; how many draws there are, and whether they are spread evenly, only says
how precisely a number is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pisoft.config.jobs import PublishedJob
from pisoft.statistics.metrics import AVERAGE

_NS = frozenset({"auc_pi_soft_ns", "soft_ns"})
_CURVES = frozenset({"auc_pi_soft_ns", "auc_pi_soft_nc"})
_SOFT = _NS | _CURVES | {"soft_nc"}
_RANKING = frozenset({"deletion_auc", "insertion_auc"})
_OPEN = frozenset({"tellmewhy", "wikibio", AVERAGE})  # where answers of several steps count
_ALL: frozenset[str] = frozenset()  # no restriction
_METRICS, _DETAILS = "§Faithfulness Metrics", "app:implementation"  # where the paper states it

# Options that the paper gives, or takes over from Inseq's defaults (app:implementation).
_GRADIENT = {"attributed_function": "probability"}
_BASELINE = {**_GRADIENT, "baseline": "reference"}
STATED_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "attention": {"layers": 1},
    "saliency": _GRADIENT,
    "input_x_gradient": _GRADIENT,
    "deeplift": _BASELINE,
    "integrated_gradients": {**_BASELINE, "steps": 16},
    "value_zeroing": {
        "threshold": 1e-5,
        "normalise_layers": True,
        "final_norm": True,
        "layers": None,
    },
    "reagent": {
        "keep_top_n": 3,
        "stopping_condition_top_k": 3,
        "replacing_ratio": 0.25,
        "max_probe_steps": 32,
        "num_probes": 2,
    },
    "grad_ellm": {"token_weights": "loosened", "relu": "layer"},
    "grad_ellm_original": {"token_weights": "original", "relu": "layer"},
}


@dataclass(frozen=True)
class Difference:
    """A setting of the run that is not the one that the paper states.

    Attributes:
        what: the setting, in words.
        here: of the run.
        paper: of the paper.
        where: in the paper.
        decides: whether the numbers that it concerns are other ones by it.
        metrics, datasets, methods: which numbers it concerns; all if empty.
    """

    what: str
    here: Any
    paper: Any
    where: str
    decides: bool = True
    metrics: frozenset[str] = _ALL
    datasets: frozenset[str] = _ALL
    methods: frozenset[str] = _ALL

    def concerns(self, cells: pd.DataFrame) -> pd.Series:
        """Return which of the published rows it concerns."""
        chosen = pd.Series(data=True, index=cells.index)
        for column in ("metric", "dataset", "method"):
            if names := getattr(self, f"{column}s"):
                chosen &= cells[column].isin(list(names))
        return chosen


def differences(settings: PublishedJob) -> list[Difference]:
    """Return every setting of a run that is unlike what the paper states."""
    return [one for one in _stated(settings) if one.here != one.paper]


def _stated(settings: PublishedJob) -> Iterator[Difference]:
    """Yield every setting that the paper states, beside that of the run."""
    here = settings.evaluation
    step_interval = settings.generation.step_interval
    grid = tuple(round(0.05 * k, 2) for k in range(1, 20))
    soft: dict[str, Any] = {"metrics": _SOFT}
    steps = {**soft, "datasets": _OPEN}
    counted = here.sampler == "count"  # no mask of Eq. 1 has this law
    yield Difference("draws per retaining probability", here.draws, 15, _METRICS, decides=False)
    yield Difference("sampler of the masks", here.sampler, "iid", "Eq. 1", counted, **soft)
    yield Difference("one bit per", here.mask, "token", "Eq. 1", **soft)
    yield Difference("tokens are ablated by", here.operator, "zero", "Eq. 1", **soft)
    yield Difference("Soft-NS clamped at 0 by", here.clamp, "draw", "Eq. 4", metrics=_NS)
    yield Difference("retaining probabilities", here.pi_grid, grid, _METRICS, metrics=_CURVES)
    yield Difference("scores of a step", here.step_scores, "aggregated", _DETAILS, **steps)
    between = "tokens from one explained step to the next"
    yield Difference(between, step_interval, 5, _METRICS, **steps)
    model, reagent = settings.masked_model, frozenset({"reagent"})
    yield Difference("ReAGent's masked model", model, "roberta-base", "§Setup", methods=reagent)
    if settings.ranking is not None:
        what, n_steps = "steps of insertion and deletion", settings.ranking.steps
        yield Difference(what, n_steps, 20, "app:insertion/deletion", metrics=_RANKING)
    for name, options in settings.options.items():
        for option, stated in STATED_OPTIONS.get(name, {}).items():
            what, value = f"option {option} of method {name}", options.get(option, "not known")
            yield Difference(what, value, stated, _DETAILS, methods=frozenset({name}))
