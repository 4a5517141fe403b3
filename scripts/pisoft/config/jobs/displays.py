"""Jobs that draw tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Literal

from pisoft.config.base import Clamp, TargetToken
from pisoft.config.evaluation import ScoreSettings
from pisoft.config.jobs.fields import DatasetLabels, EquivalenceMargin, ModelLabels, NumberTypes
from pisoft.config.methods import Method, ScoresFile
from pisoft.config.resolved import Config
from pisoft.config.settings import At, JobSettings
from pisoft.config.shards import Shards, evaluation_shards, shards
from pisoft.config.studies import SELECTED_LABELS, SELECTED_METHODS


def _displayed(key: Literal["label", "family"]) -> At:
    """Return the source of a field with this key of all methods and of the selected depths."""

    def by_method(config: Config) -> dict[str, str]:
        study = config.run_file.layer_study
        selected = {
            SELECTED_METHODS[weights]: Method(label=SELECTED_LABELS[weights], family="gradient")
            for weights in (study.token_weights if study else ())
        }
        methods = {**config.methods, **selected}
        return {name: getattr(method, key) for name, method in methods.items()}

    return At(by_method)


class LabelSettings(JobSettings):
    """Settings of everything that readers see: names in order, with their labels."""

    sorts_keys = False  # tables and legends follow the order of selection

    models: ModelLabels
    datasets: DatasetLabels
    methods: Annotated[dict[str, str], _displayed("label")]

    def where(self, cell: Mapping[str, str]) -> str:
        """Return the model, dataset and protocol of a cell as text for titles."""
        labels = [
            getattr(self, f"{key}s")[cell[key]] for key in ("model", "dataset") if key in cell
        ]
        routing = [f"{cell['protocol']} routing"] if "protocol" in cell else []
        return " · ".join([*labels, *routing])


def _controls(config: Config) -> dict[str, str]:
    study = config.studies.get("controls")
    return {name: method.label for name, method in study.added.items()} if study else {}


Cuts = dict[str, dict[str, Shards | None]]  # by model and dataset; None: not sharded


def _cut_by(cut: Callable[[Config, str, str], Shards | None]) -> At:
    def cuts(config: Config) -> Cuts:
        return {m: {n: cut(config, m, n) for n in config.datasets_of(m)} for m in config.models}

    return At(cuts)


def _targets(config: Config) -> dict[str, tuple[TargetToken, ...]]:
    return {
        dataset: tuple(dict.fromkeys(config.target_token(name, dataset) for name in config.methods))
        for dataset in config.datasets
    }


Targets = Annotated[dict[str, tuple[TargetToken, ...]], At(_targets)]  # by dataset, of all methods


class DisplayJob(ScoreSettings, LabelSettings, section="run_file.evaluation"):
    """Settings of all tables, and of figures except their size."""

    # Methods of each model, without selected depths.
    methods_of: Annotated[
        dict[str, tuple[str, ...]],
        At(lambda config: {name: config.methods_of(name) for name in config.models}),
    ]
    # Family of each method, by which a reader may group rows.
    families: Annotated[dict[str, str], _displayed("family")]
    # Methods of family `baseline`, which cannot be the fastest.
    baselines: Annotated[
        tuple[str, ...],
        At(lambda config: [n for n, m in config.methods.items() if m.family == "baseline"]),
    ]
    # Methods with imported scores, which have no times.
    imported: Annotated[tuple[str, ...], At(lambda config: list(config.sources(ScoresFile)))]
    controls: Annotated[dict[str, str], At(_controls)]  # of metric validation
    types: NumberTypes
    clamp: Clamp  # where Soft-NS is clamped at 0
    score_floor: float  # scores are clipped to [floor, 1 - floor] to calibrate
    pi_per_step: int | None = None  # retaining probabilities at which each step is measured
    equivalence_margin: EquivalenceMargin
    # Fraction of a text's tokens to highlight; None: no figures of example texts.
    top_share: Annotated[float | None, At("run_file.qualitative.top_share")]
    targets: Targets
    shards: Annotated[Cuts, _cut_by(shards)]
    half_shards: Annotated[Cuts, _cut_by(partial(shards, halves=True))]
    # Methods whose scores are in half shards.
    in_half_shards: Annotated[
        tuple[str, ...],
        At(lambda config: [n for n, m in config.evaluated_methods.items() if m.half_shards]),
    ]
    evaluation_shards: Annotated[Cuts, _cut_by(evaluation_shards)]

    def methods_on(self, model: str) -> dict[str, str]:
        """Return the labels of a model's methods."""
        return {name: self.methods[name] for name in self.methods_of[model]}

    def datasets_on(self, model: str) -> dict[str, str]:
        """Return the labels of a model's datasets."""
        return {name: label for name, label in self.datasets.items() if name in self.shards[model]}

    def cut(self, kind: str, cell: Mapping[str, str]) -> Shards | None:
        """Return the sharding of the files of a model, dataset (`part`) and method."""
        shards = self.half_shards if cell.get("method") in self.in_half_shards else self.shards
        if kind == "soft":
            shards = self.evaluation_shards
        return shards[cell["model"]][cell["part"]]

    def every(self, cell: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
        """Return the datasets and methods of a cell's model, or all datasets without a model."""
        if "model" not in cell:
            return {"dataset": tuple(self.datasets)}
        model = cell["model"]
        return {"dataset": tuple(self.datasets_on(model)), "method": self.methods_of[model]}


class FigureJob(DisplayJob, section="run_file.evaluation"):
    """Settings of all figures."""

    width: Annotated[int, At("run_file.figures.width")] = 180  # millimetres
