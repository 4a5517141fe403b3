"""Jobs that summarise cells."""

from __future__ import annotations

from typing import Annotated

from pisoft.config.base import Clamp
from pisoft.config.cells import StudyDepth
from pisoft.config.evaluation import DrawSettings, ScoreSettings, StopSettings
from pisoft.config.jobs.fields import EquivalenceMargin, Seed
from pisoft.config.resolved import Config
from pisoft.config.settings import At, JobSettings
from pisoft.config.studies import RANDOM, Permuted

# Retaining probabilities measured per step; None: all. With fewer, samples have no area under the
# curve; only its mean is estimated.
PiPerStep = Annotated[int | None, At("run_file.evaluation.pi_per_step")]


class RunJob(JobSettings, section="run_file"):
    """Settings of jobs that summarise all results of a run."""

    run: str


class SummariseJob(JobSettings, section="run_file.evaluation"):
    """Settings of `summarise`."""

    minimum_h0: float
    clamp: Clamp


class SummariseRankingJob(JobSettings):
    """Settings of `summarise_ranking`."""

    # Datasets that cannot be ranked, with the reason.
    not_applicable: Annotated[dict[str, str], At("datasets.*.ranking_obstacle")]


class EvidenceJob(ScoreSettings, JobSettings, section="run_file.evaluation"):
    """Settings of `summarise_evidence`."""


def _other_targets(config: Config) -> dict[str, list[str]]:
    def differs(method: str, dataset: str) -> bool:
        return config.target_token(method, dataset) != config.target_token(RANDOM, dataset)

    names = config.methods if RANDOM in config.methods else ()
    return {
        dataset: [name for name in names if differs(name, dataset)] for dataset in config.datasets
    }


class DatamodelJob(DrawSettings, JobSettings, section="run_file.evaluation"):
    """Settings of `summarise_datamodel_scores`."""

    seed: Seed  # of the masks
    # By dataset, methods that explain a different token than the random scores.
    other_targets: Annotated[dict[str, tuple[str, ...]], At(_other_targets)]


class CompareJob(EvidenceJob):
    """Settings of `compare_methods`."""

    # Methods of the model.
    methods: Annotated[tuple[str, ...], At(lambda config, model: config.methods_of(model))]


class LayerStudyJob(SummariseJob):
    """Settings of `summarise_layer_study`; there must be a layer study."""

    development_share: Annotated[float, At("run_file.layer_study.development_share")]
    methods: Annotated[tuple[StudyDepth, ...], At("studies.layer_study.depths")]
    seed: Seed


class MetricValidationJob(JobSettings, section="run_file.metric_validation"):
    """Settings of `validate_metrics`; the run must validate its metrics."""

    ladder: tuple[str, ...]  # controls from no noise to the most
    middle: str  # the control that represents noisy scores
    seed: Seed
    pi_per_step: PiPerStep = None


class ResamplingJob(JobSettings):
    """Settings of `summarise_advantage`, `normalise_scores` and `summarise_off_distribution`."""

    seed: Seed
    resamples: Annotated[int, At("run_file.statistics.resamples")]


class ContextUseJob(ResamplingJob):
    """Settings of `summarise_context_use`."""

    # Generator of each dataset with planted statements.
    tasks: Annotated[dict[str, str], At("datasets.*.planted_task")]


class SensitivityJob(ResamplingJob, SummariseJob):
    """Settings of `summarise_sensitivity`."""


class DensityJob(ScoreSettings, ResamplingJob, section="run_file.evaluation"):
    """Settings of `summarise_density`."""

    pi_per_step: PiPerStep = None


class SanityChecksJob(ScoreSettings, ResamplingJob, section="run_file.evaluation"):
    """Settings of `check_sanity`."""

    # By model and variant, the number of re-initialised layers; None: trained on shuffled labels.
    variants: Annotated[dict[str, dict[str, int | None]], At("studies.sanity_checks.variants")]


class UncertaintyJob(ResamplingJob):
    """Settings of `estimate_uncertainty`."""

    datasets: Annotated[tuple[str, ...], At(lambda config: list(config.datasets))]
    equivalence_margin: EquivalenceMargin
    pi_per_step: PiPerStep = None


def _permuted(config: Config) -> dict[str, str]:
    return {name: source.method for name, source in config.sources(Permuted).items()}


def _margin(config: Config) -> float | None:
    stop, statistics = config.run_file.stop, config.run_file.statistics
    return None if stop is None else stop.margin or statistics.equivalence_margin


class DecisionsJob(StopSettings, JobSettings, section="run_file.stop"):
    """Settings of `decide`; the run must have a `stop` section."""

    margin: Annotated[float | None, At(_margin)]
    # Datasets whose records are not independent.
    clustered: Annotated[
        tuple[str, ...],
        At(lambda config: [n for n, entry in config.datasets.items() if entry.cluster_column]),
    ]


class PermutedJob(ResamplingJob):
    """Settings of `estimate_permutation_baseline`."""

    permuted: Annotated[dict[str, str], At(_permuted)]  # the original method of each
