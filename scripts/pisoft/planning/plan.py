"""Every job of a run, with what it will cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pisoft.attribution import AttributionMethod, method_without_models
from pisoft.config.base import Cell
from pisoft.config.evaluation import RankingSettings
from pisoft.config.models import ModelShape, TrainedMaskedModel, TrainedModel
from pisoft.config.parts import first_place, is_repeated, parts_of, places
from pisoft.config.slices import PlannedModel, PlanSlice
from pisoft.planning import sizes
from pisoft.planning.lengths import Lengths, sample_lengths
from pisoft.planning.shapes import model_shape
from pisoft.planning.work import (
    NO_WORK,
    Work,
    attribution_work,
    draw_bounds,
    generation_work,
    inspection_work,
    ranking_work,
    soft_work,
    total_work,
    training_work,
)

START_UP = 1.0  # seconds of a job
START_UP_WITH_MODEL = 6.0  # seconds of a job that imports torch or transformers
HALF = ("bfloat16", "float16")
READING_SPEED = 1e9  # bytes of weights per second, from disk to the device
# Jobs that load a model, on a GPU if it asks for one.
LOADING_RULES = ("generate", "attribute", "evaluate_soft", "inspect_inputs", "evaluate_ranking")


@dataclass(frozen=True)
class Job:
    """One job of the workflow; `cell` holds its wildcards as they stand in its paths.

    ``low`` and ``high`` differ where draws go on until a mean is known well enough. ``memory`` is
    the peak on the model's device, bytes, None without a model. ``disk`` is what it writes, bytes.
    ``read`` is the size of the files of weights that it loads, which are in the type of activations
    even where 4 bits of a weight are kept. ``start_up`` are the seconds before its work begins.
    """

    rule: str
    cell: str = ""
    model: str | None = None
    low: Work = NO_WORK
    high: Work = NO_WORK
    memory: float | None = None
    disk: float = 0
    read: float = 0
    start_up: float = START_UP


@dataclass(frozen=True)
class Plan:
    """A run's jobs in the order of the data, and what their costs were computed from."""

    jobs: tuple[Job, ...]
    lengths: Mapping[tuple[str, str], Lengths]  # by model and dataset


def plan_run(settings: PlanSlice, results: Path | None) -> Plan:
    """Plan a run.

    Args:
        settings: the run.
        results: its folder; lengths are measured in the prompts and generations that lie there.
            None: nothing is measured.

    Raises:
        BenchmarkError: a model's sizes or a dataset's lengths are not known.
    """
    lengths = {}
    cells: dict[tuple[str, str], list[_Cell]] = {}
    for model, entry in settings.models.items():
        shape = model_shape(model, entry.source)
        for dataset in entry.shards:
            whole = sample_lengths(settings, model, dataset, shape.context, results)
            lengths[model, dataset] = whole
            cells[model, dataset] = [
                _Cell(model, part, entry, shape, _lengths_of(whole, part))
                for part in parts_of(dataset, entry.shards[dataset])
            ]
    every = [cell for parts in cells.values() for cell in parts]
    jobs = (
        *(Job("fetch_dataset", name) for name in settings.datasets),
        *(Job("sample_dataset", part) for part in dict.fromkeys(cell.part for cell in every)),
        *_training_jobs(settings, lengths),
        *(cell.prompt_job() for cell in every),
        *(cell.generation_job() for cell in every),
        *_method_jobs(settings, cells),
    )
    return Plan(jobs, lengths)


def _lengths_of(whole: Lengths, part: str) -> Lengths:
    """Return the lengths of a part's samples: those that failed are not counted in its places."""
    bounds = places(part)
    return whole if bounds is None else whole.between(*bounds)


@dataclass(frozen=True)
class _Cell:
    """A model on a dataset, or on a shard of it."""

    model: str
    part: str
    settings: PlannedModel
    shape: ModelShape
    lengths: Lengths

    def prompt_job(self) -> Job:
        disk = self.lengths.total(sizes.prompt_bytes)
        path = f"{self.model}/{self.part}"
        return Job("build_prompts", path, self.model, disk=disk, start_up=START_UP_WITH_MODEL)

    def generation_job(self) -> Job:
        work = total_work(self.lengths, lambda sample: generation_work(self.shape, sample))
        cache = sizes.cache_bytes(self.shape, self._batch_tokens, self.settings.dtype)
        disk = self.lengths.total(sizes.generation_bytes)
        return self._job("generate", (), work, work, cache, disk)

    def attribution_job(self, name: str, method: AttributionMethod) -> Job:
        work = total_work(
            self.lengths,
            lambda sample: attribution_work(
                self.shape, sample, method.forwards(sample.prompt, len(sample.steps))
            ),
        )
        graph = 0.0
        if method.family == "gradient":
            graph = sizes.graph_bytes(self.shape, self._batch_tokens, self.settings.dtype)
        disk = self.lengths.total(sizes.attribution_bytes)
        return self._job("attribute", (name,), work, work, graph, disk)

    def soft_job(self, protocol: str, name: str, settings: PlanSlice) -> Job:
        grid = len(settings.evaluation.pi_grid)
        low, high = draw_bounds(settings.evaluation.draws)
        recorded = 0.0
        if protocol.startswith("fixed"):
            recorded = self._recorded_bytes()
        noise = self._noise_work(grid, settings.block_size)
        job = self._job(
            "evaluate_soft",
            (name,),
            total_work(self.lengths, lambda sample: soft_work(self.shape, sample, grid, low))
            + noise,
            total_work(self.lengths, lambda sample: soft_work(self.shape, sample, grid, high))
            + noise,
            recorded,
            self.lengths.total(lambda sample: sizes.soft_bytes(sample, grid, high)),
        )
        return replace(job, cell=f"{protocol}/{job.cell}")

    def inspection_job(self, protocol: str, settings: PlanSlice) -> Job:
        """Return the job that looks at inputs of random tokens."""
        masks = len(settings.evaluation.pi_grid) * settings.inspections
        work = total_work(self.lengths, lambda sample: inspection_work(self.shape, sample, masks))
        disk = self.lengths.total(lambda sample: sizes.inspection_bytes(sample, masks))
        held = self._recorded_bytes() if protocol == "fixed" else 0
        job = self._job("inspect_inputs", (), work, work, held, disk)
        return replace(job, cell=f"{protocol}/{job.cell}")

    def _recorded_bytes(self) -> float:
        """Return the size of the recorded attention of the largest sample."""
        return max(
            (
                sizes.recorded_bytes(self.shape, sample, self.settings.dtype)
                for sample in self.lengths.samples
            ),
            default=0,
        )

    def _noise_work(self, grid: int, block_size: int) -> Work:
        """Return the work of the steps that are evaluated in float32, too, with one draw each."""
        if self.settings.dtype not in HALF or not self.lengths.count:
            return NO_WORK
        first = first_place(self.part) // block_size
        last = first + math.ceil(self.lengths.count / block_size)
        repeated = sum(map(is_repeated, range(first, last)))
        whole = total_work(self.lengths, lambda sample: soft_work(self.shape, sample, grid, 1))
        return whole * (repeated / self.lengths.total(lambda sample: len(sample.steps)))

    def ranking_job(self, name: str, settings: RankingSettings) -> Job:
        work = total_work(self.lengths, lambda sample: ranking_work(self.shape, sample, settings))
        disk = self.lengths.total(lambda sample: sizes.ranking_bytes(settings.steps))
        return self._job("evaluate_ranking", (name,), work, work, 0, disk)

    def _job(
        self, rule: str, names: tuple[str, ...], low: Work, high: Work, held: float, disk: float
    ) -> Job:
        """Return a job that loads the model.

        Args:
            rule: its rule.
            names: wildcards between model and dataset.
            low, high: its work.
            held: bytes beside weights, one layer's forward and logits.
            disk: bytes that it writes.
        """
        settings = self.settings
        weights = sizes.weight_bytes(self.shape, settings.dtype, settings.quantization)
        files = sizes.weight_bytes(self.shape, settings.dtype, "none")
        layer = sizes.forward_bytes(self.shape, self._batch_tokens, settings.dtype)
        logits = sizes.logit_bytes(self.shape, self._batch_rows)
        return Job(
            rule,
            "/".join((self.model, *names, self.part)),
            self.model,
            low,
            high,
            memory=weights + layer + logits + held,
            disk=disk,
            read=files,
            start_up=START_UP_WITH_MODEL + files / READING_SPEED,
        )

    @property
    def _batch_tokens(self) -> int:
        """Tokens of the largest batch: the budget, or one sample that exceeds it."""
        return max(self.settings.token_budget, self.lengths.longest)

    @property
    def _batch_rows(self) -> float:
        """Sequences of a batch of mean length, each of which needs logits."""
        return self._batch_tokens / max(1.0, self.lengths.mean(lambda sample: sample.prompt))


def _training_jobs(
    settings: PlanSlice, lengths: Mapping[tuple[str, str], Lengths]
) -> Iterator[Job]:
    for name, model in settings.models.items():
        if isinstance(model.source, TrainedModel):
            shape = model_shape(name, model.source)
            job = _training_job("train_model", name, model.source, shape, lengths)
            yield replace(job, model=name)
            if name in settings.shuffled_models:
                yield replace(job, rule="train_shuffled_model", model=name)
    for name, source in settings.masked_models.items():
        yield _training_job("train_masked_model", name, source, _masked_shape(source), lengths)


def _training_job(
    rule: str,
    name: str,
    source: TrainedModel | TrainedMaskedModel,
    shape: ModelShape,
    lengths: Mapping[tuple[str, str], Lengths],
) -> Job:
    """Return a training that takes all its steps, though it may stop before."""
    used = [of for (_, dataset), of in lengths.items() if dataset in source.datasets]
    used = used or [*lengths.values()]  # it is evaluated on other datasets than it learns
    tokens = sum(of.mean(lambda sample: sample.prompt + sample.output) for of in used) / len(used)
    work = training_work(shape, tokens, source.steps * source.batch_size)
    weights = sizes.weight_bytes(shape, "float32", "none")
    batch = sizes.graph_bytes(shape, source.batch_size * tokens, "float32")
    return Job(
        rule,
        name,
        low=work,
        high=work,
        memory=4 * weights + batch,  # weights, gradients, and the optimiser's two moments
        disk=weights,
        start_up=START_UP_WITH_MODEL,
    )


def _masked_shape(source: TrainedMaskedModel) -> ModelShape:
    """Return the sizes of a trained masked model; its feed-forward blocks have no gate."""
    return ModelShape(
        layers=source.layers,
        hidden_size=source.hidden_size,
        intermediate_size=4 * source.hidden_size // 3,  # two matrices of width 2·d as three
        heads=source.heads,
        key_value_heads=source.heads,
        head_size=source.hidden_size // source.heads,
        vocabulary_size=source.vocabulary_size,
        tied_embeddings=True,
        context=source.context,
    )


def _method_jobs(
    settings: PlanSlice, cells: Mapping[tuple[str, str], Sequence[_Cell]]
) -> Iterator[Job]:
    """Yield the jobs of every method: attributions, then their evaluations."""
    ranked = (*settings.cells, *settings.control_cells)
    chosen = list(dict.fromkeys((*ranked, *settings.study_cells)))
    for model, name, dataset in _without_protocol((*chosen, *settings.sanity_cells)):
        planned, budget = settings.methods[name], settings.models[model].token_budget
        if planned.method is None:
            continue
        method = method_without_models(planned.method, planned.options, budget)
        yield from (cell.attribution_job(name, method) for cell in cells[model, dataset])
    for protocol, model, name, dataset in chosen:
        yield from (cell.soft_job(protocol, name, settings) for cell in cells[model, dataset])
    for protocol, model, dataset in settings.inspected:
        yield from (cell.inspection_job(protocol, settings) for cell in cells[model, dataset])
    if settings.ranking is not None:
        for model, name, dataset in _without_protocol(ranked):
            if settings.datasets[dataset].task == "classification":
                ranking = settings.ranking
                yield from (cell.ranking_job(name, ranking) for cell in cells[model, dataset])


def _without_protocol(chosen: Iterable[Cell]) -> list[tuple[str, ...]]:
    """Return model, method and dataset of cells, each combination once."""
    return list(dict.fromkeys(cell[1:] for cell in chosen))
