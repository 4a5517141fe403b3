"""Slices of the jobs that summarise results and estimate uncertainty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pisoft.config.base import Clamp
from pisoft.config.evaluation import DrawSettings, ScoreSettings
from pisoft.config.slices.base import Slice
from pisoft.config.slices.cells import draw_settings, ranking_obstacle, score_settings
from pisoft.config.studies import StudyDepth
from pisoft.config.trust import Permuted

if TYPE_CHECKING:
    from pisoft.config.resolved import Config


class RunSlice(Slice):
    """Settings of jobs that summarise all results of a run as they are."""

    run: str


class SummariseSlice(Slice):
    """Settings of `summarise`."""

    minimum_h0: float
    clamp: Clamp


class SummariseRankingSlice(Slice):
    """Settings of `summarise_ranking`."""

    not_applicable: dict[str, str]  # datasets that cannot be ranked, and why


class UncertaintySlice(Slice):
    """Settings of `estimate_uncertainty`."""

    datasets: tuple[str, ...]
    seed: int
    resamples: int


class ResamplingSlice(Slice):
    """Settings of `summarise_advantage` and `scale_by_oracle`."""

    seed: int
    resamples: int


class DiagnosisSlice(Slice):
    """Settings of `diagnose_metrics`."""

    ladder: tuple[str, ...]  # controls from no noise to the most
    middle: str  # the one of them that stands for noisy scores
    seed: int


class SanitySlice(ScoreSettings, Slice):
    """Settings of `check_sanity`."""

    # By model and method: its names on the model that knows less, and how many of its layers were
    # drawn anew; None: it was trained on shuffled labels.
    methods: dict[str, dict[str, dict[str, int | None]]]
    datasets: tuple[str, ...]
    seed: int
    resamples: int


class TwinsSlice(Slice):
    """Settings of `summarise_twins`."""

    twins: dict[str, str]  # the method that each is of
    seed: int
    resamples: int


class SensitivitySlice(Slice):
    """Settings of `summarise_sensitivity`."""

    minimum_h0: float
    clamp: Clamp
    seed: int
    resamples: int


class DensitySlice(ScoreSettings, Slice):
    """Settings of `summarise_density`."""

    seed: int
    resamples: int


class EvidenceSlice(ScoreSettings, Slice):
    """Settings of `summarise_evidence`."""


class StoredDrawsSlice(DrawSettings, Slice):
    """Settings of `summarise_stored_draws`."""

    seed: int  # of the masks


class LayerStudySlice(Slice):
    """Settings of `summarise_layer_study`."""

    methods: tuple[StudyDepth, ...]
    development_share: float
    seed: int
    minimum_h0: float
    clamp: Clamp


class CompareSlice(ScoreSettings, Slice):
    """Settings of `compare_methods`."""

    methods: tuple[str, ...]  # that explain the model


def run_slice(config: Config) -> RunSlice:
    """Return what `summarise_accuracy`, `summarise_timings` and `export_prompts` depend on."""
    return RunSlice(run=config.run_file.run)


def summarise_slice(config: Config) -> SummariseSlice:
    """Return what `summarise` depends on."""
    return SummariseSlice(
        minimum_h0=config.run_file.evaluation.minimum_h0,
        clamp=config.run_file.evaluation.clamp,
    )


def summarise_ranking_slice(config: Config) -> SummariseRankingSlice:
    """Return what `summarise_ranking` depends on."""
    obstacles = {name: ranking_obstacle(entry) for name, entry in config.datasets.items()}
    return SummariseRankingSlice(
        not_applicable={name: why for name, why in obstacles.items() if why is not None}
    )


def uncertainty_slice(config: Config) -> UncertaintySlice:
    """Return what `estimate_uncertainty` depends on."""
    return UncertaintySlice(
        datasets=tuple(config.datasets),
        seed=config.run_file.seed,
        resamples=config.run_file.statistics.resamples,
    )


def resampling_slice(config: Config) -> ResamplingSlice:
    """Return what `summarise_advantage`, `scale_by_oracle` and `summarise_language` depend on."""
    return ResamplingSlice(
        seed=config.run_file.seed,
        resamples=config.run_file.statistics.resamples,
    )


def sensitivity_slice(config: Config) -> SensitivitySlice:
    """Return what `summarise_sensitivity` depends on."""
    return SensitivitySlice(
        **dict(summarise_slice(config)),
        seed=config.run_file.seed,
        resamples=config.run_file.statistics.resamples,
    )


def density_slice(config: Config) -> DensitySlice:
    """Return what `summarise_density` depends on."""
    return DensitySlice(
        **dict(score_settings(config)),
        seed=config.run_file.seed,
        resamples=config.run_file.statistics.resamples,
    )


def evidence_slice(config: Config) -> EvidenceSlice:
    """Return what `summarise_evidence` depends on."""
    return EvidenceSlice(**dict(score_settings(config)))


def stored_draws_slice(config: Config) -> StoredDrawsSlice:
    """Return what `summarise_stored_draws` depends on."""
    return StoredDrawsSlice(**dict(draw_settings(config)), seed=config.run_file.seed)


def compare_slice(config: Config, model: str) -> CompareSlice:
    """Return what `compare_methods` depends on."""
    return CompareSlice(methods=config.methods_of(model), **dict(score_settings(config)))


def layer_study_slice(config: Config) -> LayerStudySlice:
    """Return what `summarise_layer_study` depends on; there must be a layer study."""
    study = config.run_file.layer_study
    assert study is not None
    return LayerStudySlice(
        methods=tuple(
            StudyDepth(**method.model_dump(exclude={"method"})) for method in config.study_methods
        ),
        development_share=study.development_share,
        seed=config.run_file.seed,
        minimum_h0=config.run_file.evaluation.minimum_h0,
        clamp=config.run_file.evaluation.clamp,
    )


def diagnosis_slice(config: Config) -> DiagnosisSlice:
    """Return what `diagnose_metrics` depends on; the run must test its metrics."""
    trust = config.run_file.trust
    assert trust is not None
    return DiagnosisSlice(ladder=trust.ladder, middle=trust.middle, seed=config.run_file.seed)


def twins_slice(config: Config) -> TwinsSlice:
    """Return what `summarise_twins` depends on."""
    sources = {name: method.source for name, method in config.twins.items()}
    return TwinsSlice(
        twins={name: twin.method for name, twin in sources.items() if isinstance(twin, Permuted)},
        seed=config.run_file.seed,
        resamples=config.run_file.statistics.resamples,
    )


def sanity_slice(config: Config) -> SanitySlice:
    """Return what `check_sanity` depends on."""
    return SanitySlice(
        **dict(score_settings(config)),
        methods={
            model: {
                name: {key: found.randomised_layers for key, found in own.items()}
                for name, own in methods.items()
            }
            for model, methods in config.sanity.items()
        },
        datasets=config.sanity_datasets,
        seed=config.run_file.seed,
        resamples=config.run_file.statistics.resamples,
    )
