"""Slices of the jobs that turn results into summaries, tables, figures and pages."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pisoft.catalogue import (
    DatasetEntry,
    ModelEntry,
)
from pisoft.config import (
    Config,
    EvaluationSettings,
    GenerationSettings,
    Normalisation,
    RankingSettings,
    Scope,
)
from pisoft.settings import (
    Slice,
    method_name,
    ranking_obstacle,
)
from pisoft.studies import StudyMethod

# What an entry is whose source is of this kind; one of kind `hub` may be the published one.
OTHER_SOURCES = {
    "local": "weights in a local folder",
    "trained": "trained by the workflow",
    "file": "records in a local file",
    "embedded": "records made by the workflow",
}


class SummariseSlice(Slice):
    """Settings of `summarise`."""

    minimum_h0: float
    clamp: bool


class SummariseRankingSlice(Slice):
    """Settings of `summarise_ranking`."""

    not_applicable: dict[str, str]  # datasets that cannot be ranked, and why


class UncertaintySlice(Slice):
    """Settings of `estimate_uncertainty`."""

    datasets: tuple[str, ...]
    seed: int
    resamples: int


class LayerStudySlice(Slice):
    """Settings of `summarise_layer_study`."""

    methods: tuple[StudyMethod, ...]
    development_share: float
    seed: int
    minimum_h0: float
    clamp: bool


class DisplaySlice(Slice):
    """Settings of tables and figures: names in order, with their labels."""

    models: dict[str, str]
    datasets: dict[str, str]
    methods: dict[str, str]

    def to_json(self) -> str:
        """Return the slice as JSON in the order of selection, which tables and legends follow."""
        return self.model_dump_json()


class SoftDisplaySlice(DisplaySlice):
    """Settings of tables of the soft metrics."""

    clamp: bool  # whether Soft-NS is clamped at 0
    types: dict[str, str]  # number type of each model, which the noise floor depends on


class OverviewSlice(SoftDisplaySlice):
    """Settings of the front page."""

    run: str


class ScoresSlice(DisplaySlice):
    """Settings of what shows or compares the scores of single samples."""

    scope: Scope  # tokens that have scores
    normalisation: Normalisation


class PublishedSlice(Slice):
    """Settings of the comparison with the paper: what is not as published."""

    models: dict[str, str]  # labels
    datasets: dict[str, str]
    other_models: dict[str, str]  # those that are no hub model of the catalogue: what they are
    other_datasets: dict[str, str]
    types: dict[str, str]  # number type of each model
    masked_model: str
    generation: GenerationSettings
    evaluation: EvaluationSettings
    ranking: RankingSettings | None


class ExplorerSlice(ScoresSlice):
    """Settings of `build_explorer`."""

    run: str
    samples: int  # of each model and dataset
    score_floor: float
    pi_grid: tuple[float, ...]


class TokensSlice(ScoresSlice):
    """Settings of the figures of single texts."""

    top_share: float  # of the tokens that have scores


class ProtocolFigureSlice(ScoresSlice):
    """Settings of the figure that explains the π-Soft metrics."""

    score_floor: float  # scores are clipped to [floor, 1 - floor] to calibrate


class CompareSlice(Slice):
    """Settings of `compare_methods`."""

    methods: tuple[str, ...]  # that explain the model
    scope: Scope
    normalisation: Normalisation


class TimingsSlice(DisplaySlice):
    """Settings of the table of timings."""

    controls: tuple[str, ...]  # methods of family `baseline`, whose speed is no achievement


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


def display_slice(config: Config) -> DisplaySlice:
    """Return what tables and figures depend on, besides the summary files."""
    from pisoft.attribution import load_method

    return DisplaySlice(
        models={name: entry.label for name, entry in config.models.items()},
        datasets={name: entry.label for name, entry in config.datasets.items()},
        methods={
            name: entry.label or load_method(method_name(name, entry)).label
            for name, entry in config.methods.items()
        },
    )


def accuracy_slice(config: Config) -> DisplaySlice:
    """Return what the accuracy table depends on: no method, as answers come before them."""
    return display_slice(config).model_copy(update={"methods": {}})


def soft_display_slice(config: Config) -> SoftDisplaySlice:
    """Return what tables of the soft metrics depend on, besides the summary files."""
    return SoftDisplaySlice(
        **dict(display_slice(config)),
        clamp=config.run_file.evaluation.clamp,
        types=_number_types(config),
    )


def overview_slice(config: Config) -> OverviewSlice:
    """Return what the front page depends on, besides the summary files."""
    return OverviewSlice(**dict(soft_display_slice(config)), run=config.run_file.run)


def scores_slice(config: Config) -> ScoresSlice:
    """Return what the display of scores depends on, besides their files."""
    evaluation = config.run_file.evaluation
    return ScoresSlice(
        **dict(display_slice(config)),
        scope=evaluation.scope,
        normalisation=evaluation.normalisation,
    )


def published_slice(config: Config) -> PublishedSlice:
    """Return what the comparison with the paper depends on, besides the summary files.

    A model or a dataset is the published one if it is the catalogue's entry and comes from the hub.
    """
    run_file = config.run_file
    return PublishedSlice(
        models={name: entry.label for name, entry in config.models.items()},
        datasets={name: entry.label for name, entry in config.datasets.items()},
        other_models=_not_published(config.models, run_file.catalogue.models),
        other_datasets=_not_published(config.datasets, run_file.catalogue.datasets),
        types=_number_types(config),
        masked_model=run_file.masked_model,
        generation=run_file.generation,
        evaluation=run_file.evaluation,
        ranking=run_file.ranking,
    )


def explorer_slice(config: Config) -> ExplorerSlice:
    """Return what `build_explorer` depends on; the run must have an explorer."""
    explorer = config.run_file.explorer
    assert explorer is not None
    return ExplorerSlice(
        **dict(scores_slice(config)),
        run=config.run_file.run,
        samples=explorer.samples,
        score_floor=config.run_file.evaluation.score_floor,
        pi_grid=config.run_file.evaluation.pi_grid,
    )


def tokens_slice(config: Config) -> TokensSlice:
    """Return what the figures of single texts depend on; they must be switched on."""
    qualitative = config.run_file.qualitative
    assert qualitative is not None
    return TokensSlice(**dict(scores_slice(config)), top_share=qualitative.top_share)


def protocol_figure_slice(config: Config) -> ProtocolFigureSlice:
    """Return what the figure that explains the π-Soft metrics depends on, besides its files."""
    floor = config.run_file.evaluation.score_floor
    return ProtocolFigureSlice(**dict(scores_slice(config)), score_floor=floor)


def compare_slice(config: Config, model: str) -> CompareSlice:
    """Return what `compare_methods` depends on."""
    evaluation = config.run_file.evaluation
    return CompareSlice(
        methods=config.methods_of(model),
        scope=evaluation.scope,
        normalisation=evaluation.normalisation,
    )


def model_display_slice(config: Config, model: str) -> DisplaySlice:
    """Return what tables and figures of one model depend on: its methods are those it has."""
    shown = display_slice(config)
    methods = {name: shown.methods[name] for name in config.methods_of(model)}
    return shown.model_copy(update={"models": {model: shown.models[model]}, "methods": methods})


def timings_slice(config: Config) -> TimingsSlice:
    """Return what the table of timings depends on, besides its summary file."""
    from pisoft.attribution import load_method

    controls = tuple(
        name
        for name, entry in config.methods.items()
        if load_method(method_name(name, entry)).family == "baseline"
    )
    return TimingsSlice(**dict(display_slice(config)), controls=controls)


def cost_slice(config: Config) -> DisplaySlice:
    """Return what the table of costs depends on, besides its summary file."""
    return display_slice(config).model_copy(update={"datasets": {}, "methods": {}})


def layer_study_slice(config: Config) -> LayerStudySlice:
    """Return what `summarise_layer_study` depends on; there must be a layer study."""
    study = config.run_file.layer_study
    assert study is not None
    return LayerStudySlice(
        methods=config.study_methods,
        development_share=study.development_share,
        seed=config.run_file.seed,
        minimum_h0=config.run_file.evaluation.minimum_h0,
        clamp=config.run_file.evaluation.clamp,
    )


def layer_study_display_slice(config: Config) -> DisplaySlice:
    """Return what the layer study's tables and figures depend on, besides its summary file."""
    return DisplaySlice(
        models={method.model: config.models[method.model].label for method in config.study_methods},
        datasets={name: config.datasets[name].label for name in config.study_datasets},
        methods={},
    )


def _number_types(config: Config) -> dict[str, str]:
    """Return the number type of each model's weights and activations in words."""
    return {
        name: entry.dtype + ("" if entry.quantization == "none" else f", {entry.quantization}")
        for name, entry in config.models.items()
    }


def _not_published(
    entries: Mapping[str, ModelEntry | DatasetEntry], additions: Collection[str]
) -> dict[str, str]:
    """Return what those entries are that the catalogue does not have from the hub."""
    origins = {name: OTHER_SOURCES.get(entry.source.kind) for name, entry in entries.items()}
    own = dict.fromkeys(additions, "an entry of the run file")
    found = {name: origin or own.get(name) for name, origin in origins.items()}
    return {name: origin for name, origin in found.items() if origin is not None}
