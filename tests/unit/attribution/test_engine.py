"""Running a method: what is timed, what does not fit, and failures as rows or one clear error."""

import argparse
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import attribute
import evaluate_soft
from helpers.attributions import attribute as attributed
from helpers.attributions import build
from helpers.explained_rows import of_samples
from helpers.limited_memory import Memory
from helpers.loaded_models import local_model
from helpers.random_models import samples, twins
from pisoft.attribution import engine, load_method
from pisoft.attribution.base import AttributionMethod, Context, MethodOptions
from pisoft.attribution.engine import attribute_block, scores_row, warm_up
from pisoft.config.evaluation import DrawSettings, EvaluationSettings
from pisoft.config.jobs.cells import AttributeJob, EvaluateJob
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.cell import evaluations_of_sample
from pisoft.faithfulness.perturbation import Perturber
from pisoft.faithfulness.soft import METRICS, measure_draws
from pisoft.models.layers import checkpointed_layers
from pisoft.models.model import ExplainedSample
from pisoft.statistics.results import select, summary_table
from pisoft.statistics.soft import summarise
from pisoft.statistics.timings import timing_rows
from pisoft.statistics.uncertainty import coverage
from pisoft.store.cells import read_cell
from pisoft.store.parquet import read_provenance, read_rows, write_rows, write_table
from pisoft.tables.notes import of_coverage
from pisoft.views.view import Results


class Fixed(AttributionMethod):
    label, family, reference = "Fixed", "baseline", "test"

    def __init__(self, scores):
        super().__init__(MethodOptions(), Context(seed=0))
        self.scores = scores

    def attribute(self, model, batch):
        return [self.scores for _ in batch.samples]


def pair(ids=(4, 5, 6), status="ok", sample_id="a", other_id="a"):
    generation = {
        "sample_id": other_id,
        "status": status,
        "output_ids": [7],
        "steps": [0],
        "target_ids": [7],
    }
    prompt = {
        "sample_id": sample_id,
        "input_ids": list(ids),
        "content_mask": [True] * len(ids),
    }
    return prompt, generation


@pytest.fixture(scope="module")
def model():
    return twins("llama-gqa")[0]


def test_nan_scores_are_kept_with_their_status(model):
    scores = torch.tensor([[0.0, float("nan"), 1.0]])
    (row,) = attribute_block(Fixed(scores), model, [pair()])
    assert row["status"] == "nonfinite_attribution"
    assert row["raw_scores"][2] == 1.0


def test_an_earlier_failure_is_passed_on(model):
    rows = attribute_block(Fixed(None), model, [pair(status="empty_generation")])
    assert [(row["step"], row["status"], row["raw_scores"]) for row in rows] == [
        (0, "empty_generation", None)
    ]


def test_scores_of_a_wrong_shape_are_refused(model):
    with pytest.raises(
        BenchmarkError, match=r"'test_engine': sample a: scores have shape \(1, 2\), expected .*3"
    ):
        attribute_block(Fixed(torch.zeros(1, 2)), model, [pair()])


def test_a_token_outside_the_vocabulary_is_named(model):
    with pytest.raises(BenchmarkError, match=r"sample a: token id 500 .* \(allowed: 0 to 96\)"):
        attribute_block(Fixed(torch.zeros(1, 3)), model, [pair(ids=(4, 500, 6))])


def test_prompts_and_generations_of_different_samples_are_refused(model):
    with pytest.raises(BenchmarkError, match="do not belong together"):
        attribute_block(Fixed(torch.zeros(1, 3)), model, [pair(other_id="b")])


def test_unknown_methods_name_the_nearest_match():
    with pytest.raises(BenchmarkError, match="did you mean 'saliency'"):
        load_method("salency")


class Recording(AttributionMethod):
    """Scores tokens by their ids, and keeps which samples it was given."""

    label, family, reference = "Recording", "baseline", "test"

    def __init__(self, token_budget=1024):
        super().__init__(MethodOptions(), Context(seed=0, token_budget=token_budget))
        self.calls = []

    def attribute(self, model, batch):
        self.calls.append([sample.sample_id for sample in batch.samples])
        return [
            torch.tensor([sample.prompt_ids] * len(sample.steps), dtype=torch.float32)
            for sample in batch.samples
        ]


def scores_of(rows):
    return [(row["sample_id"], row["step"], row["raw_scores"]) for row in rows]


def expected_scores(chosen):
    return [(s.sample_id, step, list(s.prompt_ids)) for s in chosen for step in s.steps]


# Time -----------------------------------------------------------------------------------------


class Clocked(Recording):
    """Takes a second for each padded token, and a hundred more the first time."""

    def __init__(self, clock, token_budget=1024):
        super().__init__(token_budget)
        self.clock = clock

    def attribute(self, model, batch):
        self.clock.now += batch.input_ids.numel() + (0 if self.calls else 100)
        return super().attribute(model, batch)


@pytest.fixture
def clock(monkeypatch):
    """Return the clock that the engine reads; it stands still unless a method moves it."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(engine, "perf_counter", lambda: clock.now)
    return clock


def test_the_first_run_is_not_timed(model, clock):
    method = Clocked(clock)
    block = of_samples(samples())
    warm_up(method, model, block)
    assert method.calls == [["single"]], "the shortest sample, once"
    rows = attribute_block(method, model, block)
    assert sum(row["seconds"] for row in rows) == pytest.approx(4 * 18), "four padded samples"
    cold = attribute_block(Clocked(clock), model, block)
    assert sum(row["seconds"] for row in cold) == pytest.approx(4 * 18 + 100)


def test_shares_of_a_batch_add_up_to_its_time_and_follow_the_tokens_read(model, clock):
    method = Clocked(clock, token_budget=36)
    rows = attribute_block(method, model, of_samples(samples()))
    assert method.calls == [["long", "same"], ["short", "single"]]
    seconds = {(row["sample_id"], row["step"]): row["seconds"] for row in rows}
    assert seconds["long", 0] + seconds["long", 5] + seconds["same", 0] == pytest.approx(136)
    assert seconds["short", 0] + seconds["single", 0] == pytest.approx(12)
    assert seconds["long", 5] / seconds["long", 0] == pytest.approx(18 / 13)
    assert seconds["short", 0] / seconds["single", 0] == pytest.approx(6 / 1)


def test_the_device_is_synchronised_before_the_clock_is_read(model, monkeypatch):
    events = []
    monkeypatch.setattr(engine, "synchronise", lambda device: events.append("synchronise"))
    monkeypatch.setattr(engine, "perf_counter", lambda: events.append("clock") or 0.0)
    method = Recording()
    monkeypatch.setattr(method, "attribute", lambda *_: events.append("run") or [torch.zeros(1, 3)])
    attribute_block(method, model, [pair()])
    assert events == ["synchronise", "clock", "run", "synchronise", "clock"]


def test_nothing_is_warmed_up_without_a_usable_sample(model):
    method = Recording()
    warm_up(method, model, [pair(status="empty_generation")])
    assert method.calls == []


# Memory ---------------------------------------------------------------------------------------


CUDA_ERROR = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


class Hungry(Recording):
    """Runs out of memory above a number of padded tokens, of a batch or of one of its own."""

    def __init__(self, token_budget, limit, error=CUDA_ERROR):
        super().__init__(token_budget)
        self.limit = limit
        self.error = error
        self.failures = 0

    def attribute(self, model, batch):
        width = batch.input_ids.shape[1]
        own_rows = max(1, self.context.token_budget // width)
        if max(batch.input_ids.numel(), own_rows * width) > self.limit:
            self.failures += 1
            raise self.error
        return super().attribute(model, batch)


CPU_ERROR = RuntimeError(
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: "
    "you tried to allocate 1125899906842624 bytes. Error code 12 (Cannot allocate memory)"
)


@pytest.mark.parametrize(
    ("limit", "error"), [(18, CUDA_ERROR), (36, CPU_ERROR), (40, MemoryError())]
)
def test_batches_that_do_not_fit_are_halved_without_losing_or_reordering_a_row(model, limit, error):
    chosen = [
        *samples(),
        *(replace(sample, sample_id=f"{n}") for n, sample in enumerate(samples())),
    ]
    method = Hungry(1024, limit, error)
    rows = attribute_block(method, model, of_samples(chosen))
    assert scores_of(rows) == expected_scores(chosen)
    assert method.failures > 0
    assert method.context.token_budget // 18 * 18 <= limit, "rows of the longest sample"


def test_the_lower_budget_is_kept_for_the_next_blocks_and_said(model, caplog):
    method = Hungry(72, 36)
    with caplog.at_level("INFO"):
        for _ in range(3):
            attribute_block(method, model, of_samples(samples()))
    assert method.failures == 1
    assert caplog.messages == ["out of memory; token_budget is lowered to 36"]
    assert method.calls == [["long", "same"], ["short", "single"]] * 3


def test_a_single_sample_lowers_the_budget_of_the_methods_own_batches(model):
    method = Hungry(1024, 20)
    (long, *_) = samples()
    rows = attribute_block(method, model, of_samples([long]))
    assert scores_of(rows) == expected_scores([long])
    assert method.context == Context(seed=0, token_budget=32), "one row of 18 tokens fits, not two"


def test_a_sample_that_does_not_fit_alone_fails_at_every_step_and_the_others_go_on(model, caplog):
    method = Hungry(1024, 10)
    chosen = samples()
    for _ in range(2):
        rows = attribute_block(method, model, of_samples(chosen))
        assert [(row["sample_id"], row["step"]) for row in rows] == [
            (sample.sample_id, step) for sample in chosen for step in sample.steps
        ]
        failed, others = rows[:2], rows[2:]
        for row in failed:
            assert row["status"] == "too_long_for_memory"
            assert row["raw_scores"] is row["seconds"] is row["converged"] is None
        assert scores_of(others) == expected_scores(chosen[1:])
        assert {row["status"] for row in others} == {"ok"}
    first = next(message for message in caplog.messages if "do not fit" in message)
    assert first.startswith("method 'test_engine', model 'llama-gqa': sample long: 18 tokens")
    assert "too_long_for_memory; shorten prompts by the option prompts.max_tokens" in first


def needed(model, sample, **options):
    """Peak bytes of a sample alone, as it is and with checkpointed layers."""
    with Memory() as whole:
        attribute_block(build("saliency", token_budget=1), model, of_samples([sample]))
    with Memory() as less, checkpointed_layers(model):
        attribute_block(build("saliency", token_budget=1), model, of_samples([sample]))
    return whole.peak, less.peak


def test_a_sample_that_fits_with_checkpointed_layers_has_the_same_scores_to_the_bit(caplog):
    deep, _ = twins("llama-gqa", layers=8)
    long, *others = samples()
    expected = attribute_block(build("saliency", token_budget=1), deep, of_samples(samples()))
    whole, less = needed(deep, long)
    with Memory((whole + less) / 2), caplog.at_level("INFO"):
        rows = attribute_block(build("saliency", token_budget=1), deep, of_samples(samples()))
    assert list(map(scores_row, rows)) == list(map(scores_row, expected))
    said = [message for message in caplog.messages if "computed again" in message]
    assert said == [
        "method 'saliency', model 'llama-gqa': sample long fits: sequences one by one, layers "
        "computed again in backward passes"
    ]
    with Memory(less * 0.9):
        rows = attribute_block(build("saliency", token_budget=1), deep, of_samples(samples()))
    assert [row["status"] for row in rows] == ["too_long_for_memory"] * 2 + ["ok"] * len(others)
    assert list(map(scores_row, rows[2:])) == list(map(scores_row, expected[2:]))


def test_points_of_a_path_are_taken_one_by_one_before_a_sample_is_given_up(model):
    """Whatever the option internal_batch_size says."""
    (long, *_) = samples()
    chosen = {"steps": 6, "attributed_function": "logit"}
    expected = attribute_block(
        build("integrated_gradients", token_budget=1, **chosen), model, of_samples([long])
    )
    with Memory() as one:
        attribute_block(
            build("integrated_gradients", token_budget=1, **chosen), model, of_samples([long])
        )
    with Memory(one.peak * 1.2):
        method = build("integrated_gradients", token_budget=999, internal_batch_size=6, **chosen)
        rows = attribute_block(method, model, of_samples([long]))
    assert [row["status"] for row in rows] == ["ok", "ok"]
    for row, other in zip(rows, expected, strict=True):
        assert row["raw_scores"] == pytest.approx(other["raw_scores"], rel=1e-6)


def test_tokens_are_occluded_one_by_one_before_a_sample_is_given_up(model):
    """Late tokens leave little to read, so that a budget of the sample's length holds many."""
    (long, *_) = samples()
    expected = attribute_block(build("occlusion", token_budget=999), model, of_samples([long]))
    with Memory() as one:
        attribute_block(build("occlusion", token_budget=1), model, of_samples([long]))
    with Memory(one.peak * 1.1):
        method = build("occlusion", token_budget=999)
        rows = attribute_block(method, model, of_samples([long]))
    assert method.context.token_budget == len(long.read_ids), "of the samples to come"
    for row, other in zip(rows, expected, strict=True):
        assert row["raw_scores"] == pytest.approx(other["raw_scores"], rel=1e-4)


def test_any_other_error_of_a_method_is_left_as_it_is(model):
    method = Hungry(1024, 0, RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        attribute_block(method, model, of_samples(samples()))
    assert method.failures == 1, "it is not tried again"


def test_time_of_an_attempt_that_failed_is_not_counted(model, clock):
    class FailsLate(Clocked):
        def attribute(self, model, batch):
            scores = super().attribute(model, batch)
            if len(batch.samples) > 2:
                raise torch.OutOfMemoryError
            return scores

    rows = attribute_block(FailsLate(clock, token_budget=72), model, of_samples(samples()))
    assert sum(row["seconds"] for row in rows) == pytest.approx(18 * 2 + 6 * 2)


def test_a_sample_longer_than_the_context_is_named_with_the_option_to_set(model):
    ids = list(range(3, 93)) + list(range(3, 42))
    with pytest.raises(
        BenchmarkError,
        match=r"method 'test_engine': sample a: .*129, .*context of model 'llama-gqa', 128; .*"
        r"prompts\.max_tokens",
    ):
        attribute_block(Recording(), model, [pair(ids=ids)])
    attribute_block(Recording(), model, [pair(ids=ids[:128])])


# Script ---------------------------------------------------------------------------------------


@pytest.fixture
def job(tmp_path):
    """Files of a job, and its command line."""
    twins("llama-gqa", torch.float32)[1].save_pretrained(tmp_path / "model")
    for kind, rows in zip(
        ("prompts", "generations"), zip(*of_samples(samples()), strict=True), strict=True
    ):
        write_rows(tmp_path / f"{kind}.parquet", kind, rows, {})
    settings = AttributeJob(
        model=local_model(),
        reinitialised_layers=None, masked_model=None, target="label", step_scores=None, scope=None,
        method="my_method", options={}, seed=1,
        block_size=2, token_budget=72,
    )  # fmt: skip
    return argparse.Namespace(
        settings=settings.to_json(), prompts=tmp_path / "prompts.parquet",
        generations=tmp_path / "generations.parquet", model=[tmp_path / "model/config.json"],
        gpus=None, output=tmp_path / "attributions.parquet",
        times=tmp_path / "times.parquet",
    )  # fmt: skip


def test_the_file_says_how_much_memory_and_which_budget_it_took(job, monkeypatch):
    made = []

    class Small(Hungry):
        def __init__(self, options, context):
            super().__init__(context.token_budget, 20)
            made.append(self)

    monkeypatch.setattr(attribute, "load_method", lambda name: Small)
    attribute.main(job)
    facts = read_provenance(job.output)
    needed = read_provenance(job.times)
    assert scores_of(read_rows(job.output, "attributions")) == expected_scores(samples())
    assert made[0].calls[0] == ["single"], "the job begins with a warm-up"
    assert facts["token_budget_used"] == made[0].context.token_budget < 72
    assert facts["settings"]["token_budget"] == 72
    assert needed["peak_memory_mb"] > 50, "torch alone needs more"
    assert needed["peak_device_memory_mb"] is None
    assert not set(needed) - set(facts) - {"peak_memory_mb", "peak_device_memory_mb"}
    assert "peak_memory_mb" not in facts, "recomputed scores are the same file"


def test_random_scores_need_no_weights_and_no_gpu(job):
    given = AttributeJob.model_validate_json(job.settings)
    job.settings = given.model_copy(
        update={"method": "random", "step_scores": "own", "model": local_model(device="cuda")}
    ).to_json()
    (job.model[0].parent / "model.safetensors").unlink()
    attribute.main(job)
    expected = attributed("random", twins("llama-gqa")[0], samples())
    found = [row["raw_scores"] for row in read_rows(job.output, "attributions")]
    assert found == [pytest.approx(row.tolist()) for of_sample in expected for row in of_sample]
    assert read_provenance(job.times)["device"] == "cpu"


def test_the_target_is_explained_and_its_log_probability_is_measured(job):
    prompt = read_rows(job.prompts, "prompts")[0] | {
        "label_words": ["Yes"],
        "label_token_ids": [50],
    }
    answer = read_rows(job.generations, "generations")[0] | {
        "output_ids": [50], "output_token_texts": ["Yes"], "steps": [0], "target_ids": [50],
        "predicted_label": "Yes", "greedy_token_id": 9, "runner_up_ids": [60], "margins": [1.0],
    }  # fmt: skip
    write_rows(job.prompts, "prompts", [prompt], {})
    write_rows(job.generations, "generations", [answer], {})
    given = AttributeJob.model_validate_json(job.settings).model_copy(update={"method": "saliency"})
    scores, soft = {}, {}
    for target in ("label", "generated"):
        job.settings = given.model_copy(update={"target": target}).to_json()
        attribute.main(job)
        scores[target] = read_rows(job.output, "attributions")[0]["raw_scores"]
        settings = EvaluateJob(
            model=given.model, seed=1, block_size=2, token_budget=72, compile=False, target=target,
            protocol="dynamic", evaluation=DrawSettings(pi_grid=(0.3, 0.7), draws=1), first_place=0,
        )  # fmt: skip
        files = {"attributions": job.output, "output": job.output.with_name("soft.parquet")}
        line = argparse.Namespace(**vars(job) | files | {"settings": settings.to_json()})
        evaluate_soft.main(line)
        soft[target] = read_rows(line.output, "soft")[0]
    job.settings = given.model_copy(update={"target": "contrastive"}).to_json()
    attribute.main(job)
    scores["contrastive"] = read_rows(job.output, "attributions")[0]["raw_scores"]
    model, _ = twins("llama-gqa", torch.float32)
    for target, token, *foils in (("label", 50), ("generated", 9), ("contrastive", 50, 60)):
        sample = ExplainedSample(
            prompt["sample_id"], prompt["input_ids"], [], [0], [token], foil_ids=foils
        )
        (expected,) = attributed("saliency", model, [sample])
        np.testing.assert_allclose(scores[target], expected[0], rtol=1e-4)
    assert soft["label"]["h0"] == soft["generated"]["h0"], "of the whole distribution"
    changes = [row["ns_log_probability_changes"] for row in soft.values()]
    assert changes[0] != changes[1]


def test_a_sample_too_long_for_memory_is_counted_and_explained_up_to_the_tables(job, monkeypatch):
    class Small(Hungry):
        def __init__(self, options, context):
            super().__init__(context.token_budget, 10)

    monkeypatch.setattr(attribute, "load_method", lambda name: Small)
    attribute.main(job)
    prompts, generations, attributions = read_cell(job.prompts, job.generations, job.output)
    assert [row["status"] for row in attributions["long"]] == ["too_long_for_memory"] * 2

    cell = job.output.parent / "llama" / "mine" / "toy.parquet"
    cell.parent.mkdir(parents=True)
    timings = timing_rows(job.times.rename(cell)).set_index("metric")
    seconds = timings.loc["seconds_per_sample"]
    assert (seconds["n"], seconds["n_failed"]) == (3, 1)
    assert seconds["value"] > 0

    model, _ = twins("llama-gqa", torch.float32)
    settings = EvaluationSettings(pi_grid=(0.2, 0.8), draws=2)
    rows = []
    for prompt, generation in zip(prompts, generations, strict=True):
        steps = evaluations_of_sample(
            model, prompt, generation, attributions[prompt["sample_id"]], settings, 1
        )
        measure_draws(Perturber(model, 100), steps, dict.fromkeys(METRICS, range(2)))
        rows += [row for step in steps for row in step.rows()]
    written = cell.parents[2] / "soft" / "dynamic" / "llama" / "mine" / "toy.parquet"
    write_rows(written, "soft", rows, {})
    samples, curves, _ = summarise([written], minimum_h0=0.0, clamp="draw")
    assert {row["n_failed"] for row in curves.to_pylist()} == {1}
    path = written.with_name("soft_samples.parquet")
    write_table(path, "soft_samples", samples, {})
    rows = summary_table("coverage", [coverage([path])]).to_pandas()
    results = Results(select(rows, metric="identity"), {"mine": "Mine"}, {"toy": "Toy"})
    *_, note = of_coverage(results)
    assert note == (
        "Failed samples, left out of the means: Toy (all methods): 1 too_long_for_memory "
        "(too_long_for_memory: the sample does not fit into memory, even alone)."
    )
