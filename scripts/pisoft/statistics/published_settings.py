"""Every setting that can change a number, compared with the paper.

A setting equals the paper's, differs from it, or is left open by the paper; it is then compared
with `config/paper.yaml`. Numbers affected by a different setting are not compared with the paper's.
Number and spread of draws affect precision only.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pisoft.config.jobs.pages import PublishedJob
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.published import METHODS

SAME, DIFFERENT, LEFT_OPEN = "same", "different", "left open"
ALL: frozenset[str] = frozenset()  # no restriction
NS = frozenset({"auc_pi_soft_ns", "soft_ns"})
CURVES = frozenset({"auc_pi_soft_ns", "auc_pi_soft_nc"})
SOFT = NS | CURVES | {"soft_nc"}
RANKING = frozenset({"deletion_auc", "insertion_auc"})
OPEN_TEXT = frozenset({"tellmewhy", "wikibio", AVERAGE})  # where answers of several steps count
METRICS, DETAILS, SETUP = "§Faithfulness Metrics", "app:implementation", "§Setup"


@dataclass(frozen=True)
class Setting:
    """The paper's value of a setting.

    Attributes:
        paper: value in the paper; if the paper leaves it open, the one of `config/paper.yaml`.
        where: place in the paper; empty: left open.
        precision: other values that affect precision only; None: all.
        metrics, datasets: the numbers that it affects; empty: all.
    """

    paper: Any
    where: str = ""
    precision: tuple[Any, ...] | None = ()
    metrics: frozenset[str] = ALL
    datasets: frozenset[str] = ALL


GRADIENT = {"attributed_function": Setting("probability", DETAILS)}
BASELINE = {**GRADIENT, "baseline": Setting("reference", DETAILS)}
GRAD_ELLM = {
    "layers": Setting(None),
    "similarity": Setting("dot"),
    "normalise_over": Setting("prompt"),
    "heads": Setting("merged"),
    "relu": Setting("layer", DETAILS),
}
# By method, options that the paper gives or takes over from Inseq's defaults, and those it omits.
OPTIONS: Mapping[str, Mapping[str, Setting]] = {
    "attention": {"layers": Setting(1, DETAILS)},
    "saliency": GRADIENT,
    "input_x_gradient": GRADIENT,
    "deeplift": BASELINE,
    "integrated_gradients": {
        **BASELINE,
        "steps": Setting(16, DETAILS),
        "path_dtype": Setting("model"),
    },
    "value_zeroing": {
        "threshold": Setting(1e-5, DETAILS),
        "normalise_layers": Setting(True, DETAILS),
        "final_norm": Setting(True, DETAILS),
        "layers": Setting(None, DETAILS),
    },
    "reagent": {
        "keep_top_n": Setting(3, DETAILS),
        "stopping_condition_top_k": Setting(3, DETAILS),
        "replacing_ratio": Setting(0.25, DETAILS),
        "max_probe_steps": Setting(32, DETAILS),
        "num_probes": Setting(2, DETAILS),
        "candidates": Setting(10),
    },
    "grad_ellm": {**GRAD_ELLM, "token_weights": Setting("loosened", DETAILS)},
    "grad_ellm_original": {**GRAD_ELLM, "token_weights": Setting("original", DETAILS)},
}
# By key of the run file, `METHOD.OPTION` or `MODEL.dtype`.
SETTINGS: Mapping[str, Setting] = {
    "prompts.max_tokens": Setting(None),
    "generation.max_new_tokens": Setting(50, datasets=OPEN_TEXT),
    "generation.step_interval": Setting(1, DETAILS, metrics=SOFT, datasets=OPEN_TEXT),
    "target": Setting("label"),
    "evaluation.step_interval": Setting(5, METRICS, metrics=SOFT, datasets=OPEN_TEXT),
    "evaluation.scope": Setting("content"),
    "evaluation.normalisation": Setting("minmax"),
    "evaluation.step_scores": Setting("aggregated", DETAILS, metrics=SOFT, datasets=OPEN_TEXT),
    "evaluation.score_floor": Setting(1e-6, metrics=CURVES),
    "evaluation.pi_grid": Setting(
        tuple(round(0.05 * k, 2) for k in range(1, 20)), METRICS, metrics=CURVES
    ),
    "evaluation.pi_per_step": Setting(None, METRICS, None, metrics=CURVES),
    # No mask of Eq. 1 has the law of `count`.
    "evaluation.sampler": Setting("iid", "Eq. 1", ("latin",), metrics=SOFT),
    "evaluation.operator": Setting("zero", "Eq. 1", metrics=SOFT),
    "evaluation.mask": Setting("token", "Eq. 1", metrics=SOFT),
    "evaluation.draws": Setting(15, METRICS, None, metrics=SOFT),
    "evaluation.minimum_h0": Setting(1e-4, metrics=SOFT),
    "evaluation.clamp": Setting("draw", "Eq. 4", metrics=NS),
    "ranking.operator": Setting("remove", metrics=RANKING),
    "ranking.flip_of": Setting("label_word", metrics=RANKING),
    "ranking.steps": Setting(20, "app:insertion/deletion", metrics=RANKING),
    "masked_model": Setting("roberta-base", SETUP),
    "llama-3.1-8b-instruct.dtype": Setting("bfloat16"),
    "mistral-7b-instruct-v0.3.dtype": Setting("bfloat16"),
    "llama-3.1-70b-instruct.dtype": Setting("bfloat16, nf4", f"{SETUP}: 4 bit"),
    **{f"{name}.{key}": one for name, options in OPTIONS.items() for key, one in options.items()},
}
# Keys that change no number: they set others, save memory, only refuse, or add a metric.
NO_NUMBER = {
    "evaluation.preset", "integrated_gradients.internal_batch_size", "ranking.counterfactuals",
    "ranking.answer_deletion",
}  # fmt: skip
NO_NUMBER |= {f"{name}.clip_layers" for name in ("grad_ellm", "grad_ellm_original")}
SECTIONS = ("prompts", "generation", "evaluation", "ranking")


@dataclass(frozen=True)
class Comparison:
    """A setting of the run compared with the paper's."""

    key: str
    here: Any
    setting: Setting

    @property
    def verdict(self) -> str:
        """The verdict in words: the paper's value, a different one, or left open by the paper."""
        if not self.setting.where:
            return LEFT_OPEN
        return SAME if self.here == self.setting.paper else DIFFERENT

    @property
    def decides(self) -> bool:
        """Whether the setting changes the run's numbers, beyond their precision."""
        precision = self.setting.precision
        only_precision = precision is None or self.here in precision
        return self.verdict == DIFFERENT and not only_precision

    def concerns(self, cells: pd.DataFrame) -> pd.Series:
        """Return which published rows the setting affects."""
        owner = self.key.split(".")[0]
        restrictions = {
            "metric": self.setting.metrics,
            "dataset": self.setting.datasets,
            "method": {owner} & METHODS.keys() or ({"reagent"} if owner == "masked_model" else ALL),
            "model": {owner} if self.key.endswith(".dtype") else ALL,
        }
        chosen = pd.Series(data=True, index=cells.index)
        for column, names in restrictions.items():
            if names:
                chosen &= cells[column].isin(list(names))
        return chosen


def settings_of(job: PublishedJob, methods: Container[str] = METHODS) -> dict[str, Any]:
    """Return a run's settings that can change a number, by key, with the options of `methods`."""
    sections = {name: section for name in SECTIONS if (section := getattr(job, name)) is not None}
    values = {
        f"{name}.{key}": getattr(section, key)
        for name, section in sections.items()
        for key in type(section).model_fields
    }
    values |= {
        f"{name}.{key}": value
        for name, options in job.options.items()
        if name in methods
        for key, value in options.items()
    }
    values |= {f"{name}.target": one for name, one in job.targets.items() if name in methods}
    values |= {f"{name}.dtype": text for name, text in job.types.items()}
    explained = job.generation.step_interval
    values["evaluation.step_interval"] = job.evaluation.step_interval or explained
    return {**values, "masked_model": job.masked_model, "target": job.target}


def compared_settings(job: PublishedJob) -> Iterator[Comparison]:
    """Compare every setting of a run with the paper's, without those of other models."""
    for key, value in settings_of(job).items():
        if (setting := SETTINGS.get("target" if key.endswith(".target") else key)) is not None:
            yield Comparison(key, value, setting)


def differences(job: PublishedJob) -> list[Comparison]:
    """Return the settings of a run that differ from the paper's."""
    return [one for one in compared_settings(job) if one.verdict == DIFFERENT]


def as_text(value: Any) -> str:
    """Return the value of a setting as written in a run file."""
    if isinstance(value, bool | None):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, tuple):
        return f"{value[0]:g}, …, {value[-1]:g} ({len(value)} values)"
    return f"{value:g}" if isinstance(value, float) else str(value)
