"""Slices of the jobs that draw tables and figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pisoft.config.base import Clamp
from pisoft.config.evaluation import ScoreSettings
from pisoft.config.slices.base import Slice
from pisoft.config.slices.cells import score_settings
from pisoft.config.studies import SELECTED_LABELS, SELECTED_METHODS

if TYPE_CHECKING:
    from pisoft.config.resolved import Config


class DisplaySlice(Slice):
    """Settings of tables and figures: names in order, with their labels."""

    sorts_keys = False  # tables and legends follow the order of selection

    models: dict[str, str]
    datasets: dict[str, str]
    methods: dict[str, str]

    def where(self, cell: Mapping[str, str]) -> str:
        """Return in words which part of the run is shown, for titles.

        Args:
            cell: the model, dataset and protocol, those of them that one part is of.
        """
        labels = [
            getattr(self, f"{key}s")[cell[key]] for key in ("model", "dataset") if key in cell
        ]
        routing = [f"{cell['protocol']} routing"] if "protocol" in cell else []
        return " · ".join([*labels, *routing])


class RankedSlice(DisplaySlice):
    """Settings of tables that rank methods."""

    families: dict[str, str]  # of each method, whose rows a reader may have together


class SoftDisplaySlice(RankedSlice):
    """Settings of tables of the soft metrics."""

    clamp: Clamp  # where Soft-NS is clamped at 0
    types: dict[str, str]  # number type of each model, which the noise floor depends on


class ScoresSlice(ScoreSettings, DisplaySlice):
    """Settings of what shows or compares the scores of single samples."""


class TokensSlice(ScoresSlice):
    """Settings of the figures of single texts."""

    top_share: float  # of the tokens that have scores


class ProtocolFigureSlice(ScoresSlice):
    """Settings of the figure that explains the π-Soft metrics."""

    score_floor: float  # scores are clipped to [floor, 1 - floor] to calibrate


class TimingsSlice(DisplaySlice):
    """Settings of the table of timings."""

    controls: tuple[str, ...]  # methods of family `baseline`, whose speed is no achievement
    imported: tuple[str, ...]  # methods whose scores were made elsewhere, which have no time


def display_slice(config: Config) -> DisplaySlice:
    """Return what tables and figures depend on, besides the summary files."""
    return DisplaySlice(
        models={name: entry.label for name, entry in config.models.items()},
        datasets={name: entry.label for name, entry in config.datasets.items()},
        methods={
            **{name: method.label for name, method in config.methods.items()},
            **selected_labels(config),
        },
    )


def selected_labels(config: Config, model: str | None = None) -> dict[str, str]:
    """Return the labels of Grad-ELLM at selected depths, of a model or of all; may be none."""
    study = config.run_file.layer_study
    if study is None or model not in {None, *(method.model for method in config.study_methods)}:
        return {}
    return {SELECTED_METHODS[weights]: SELECTED_LABELS[weights] for weights in study.token_weights}


def accuracy_slice(config: Config) -> DisplaySlice:
    """Return what the accuracy table depends on: no method, as answers come before them."""
    return display_slice(config).model_copy(update={"methods": {}})


def ranked_slice(config: Config) -> RankedSlice:
    """Return what tables that rank methods depend on, besides the summary files."""
    selected = selected_labels(config)
    families = {name: method.family for name, method in config.methods.items()}
    families |= {name: study.method.family for study in config.study_methods for name in selected}
    return RankedSlice(**dict(display_slice(config)), families=families)


def soft_display_slice(config: Config) -> SoftDisplaySlice:
    """Return what tables of the soft metrics depend on, besides the summary files."""
    return SoftDisplaySlice(
        **dict(ranked_slice(config)),
        clamp=config.run_file.evaluation.clamp,
        types=_number_types(config),
    )


def scores_slice(config: Config) -> ScoresSlice:
    """Return what the display of scores depends on, besides their files."""
    return ScoresSlice(**dict(display_slice(config)), **dict(score_settings(config)))


def tokens_slice(config: Config) -> TokensSlice:
    """Return what the figures of single texts depend on; they must be switched on."""
    qualitative = config.run_file.qualitative
    assert qualitative is not None
    return TokensSlice(**dict(scores_slice(config)), top_share=qualitative.top_share)


def protocol_figure_slice(config: Config) -> ProtocolFigureSlice:
    """Return what the figure that explains the π-Soft metrics depends on, besides its files."""
    floor = config.run_file.evaluation.score_floor
    return ProtocolFigureSlice(**dict(scores_slice(config)), score_floor=floor)


def model_display_slice(config: Config, model: str) -> DisplaySlice:
    """Return what tables and figures of one model depend on: its methods are those it has."""
    shown = display_slice(config)
    methods = {name: shown.methods[name] for name in config.methods_of(model)}
    return shown.model_copy(update={"models": {model: shown.models[model]}, "methods": methods})


def ranks_slice(config: Config, model: str) -> DisplaySlice:
    """Return what the ranks of a model's methods depend on, those of selected depths included."""
    shown = model_display_slice(config, model)
    methods = {**shown.methods, **selected_labels(config, model)}
    return shown.model_copy(update={"methods": methods})


def timings_slice(config: Config) -> TimingsSlice:
    """Return what the table of timings depends on, besides its summary file."""
    controls = tuple(name for name, method in config.methods.items() if method.family == "baseline")
    return TimingsSlice(
        **dict(display_slice(config)), controls=controls, imported=tuple(config.imported_methods)
    )


def cost_slice(config: Config) -> DisplaySlice:
    """Return what the table of costs depends on, besides its summary file."""
    return display_slice(config).model_copy(update={"datasets": {}, "methods": {}})


def layer_study_display_slice(config: Config) -> DisplaySlice:
    """Return what the layer study's tables and figures depend on, besides its summary file."""
    return DisplaySlice(
        models={method.model: config.models[method.model].label for method in config.study_methods},
        datasets={name: config.datasets[name].label for name in config.study_datasets},
        methods={},
    )


def trust_display_slice(config: Config) -> DisplaySlice:
    """Return what tables and figures of the metrics' own test depend on, besides their files."""
    shown = display_slice(config)
    controls = {name: control.label for name, control in config.controls.items()}
    return shown.model_copy(update={"methods": {**shown.methods, **controls}})


def _number_types(config: Config) -> dict[str, str]:
    """Return the number type of each model's weights and activations in words."""
    return {
        name: entry.dtype + ("" if entry.quantization == "none" else f", {entry.quantization}")
        for name, entry in config.models.items()
    }
