"""Running a method: timing, memory limits, and failures as rows or one clear error."""

import argparse
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import attribute
import evaluate_soft
from helpers.attributions import attribute as attributed
from helpers.attributions import build
from helpers.explained_rows import explained_samples
from helpers.limited_memory import Memory
from helpers.loaded_models import local_model
from helpers.random_models import model_and_network, random_model, samples
from pisoft.attribution import engine
from pisoft.attribution.base import AttributionMethod, Context, MethodOptions
from pisoft.attribution.engine import attribute_block, scores_row, warm_up
from pisoft.config.evaluation import DrawSettings
from pisoft.config.jobs.cells import AttributeJob, EvaluateJob
from pisoft.errors import BenchmarkError
from pisoft.models.layers import checkpointed_layers
from pisoft.models.model import ExplainedSample
from pisoft.store.parquet import read_provenance, read_rows, write_rows


@pytest.fixture(scope="module")
def model():
    return random_model("llama-gqa")


class Recording(AttributionMethod):
    """Scores tokens by their ids unless scores are given, and records the samples it receives."""

    label, family, reference = "Recording", "baseline", "test"

    def __init__(self, token_budget=1024, scores=None):
        super().__init__(MethodOptions(), Context(seed=0, token_budget=token_budget))
        self.scores = scores
        self.calls = []

    def attribute(self, model, batch):
        self.calls.append([sample.sample_id for sample in batch.samples])
        return [
            torch.tensor([sample.prompt_ids] * len(sample.steps)).float()
            if self.scores is None
            else self.scores
            for sample in batch.samples
        ]


def pair(ids=(4, 5, 6), status="ok", other_id="a"):
    """Return a row of `prompts` and one of `generations`."""
    generation = {"sample_id": other_id, "status": status, "output_ids": [7], "steps": [0]}
    prompt = {"sample_id": "a", "input_ids": list(ids), "content_mask": [True] * len(ids)}
    return prompt, generation | {"target_ids": [7]}


def scores_of(rows):
    return [(row["sample_id"], row["step"], row["raw_scores"]) for row in rows]


def expected_scores(chosen):
    return [(s.sample_id, step, list(s.prompt_ids)) for s in chosen for step in s.steps]


def test_nan_scores_are_kept_with_their_status(model):
    scores = torch.tensor([[0.0, float("nan"), 1.0]])
    (row,) = attribute_block(Recording(scores=scores), model, [pair()])
    assert row["status"] == "nonfinite_attribution"
    assert row["raw_scores"][2] == 1.0


def test_samples_that_failed_earlier_keep_their_status(model):
    method, failed = Recording(), pair(status="empty_generation")
    warm_up(method, model, [failed])
    (row,) = attribute_block(method, model, [failed])
    assert (row["step"], row["status"], row["raw_scores"]) == (0, "empty_generation", None)
    assert method.calls == []


CONTEXT = 128


@pytest.mark.parametrize(
    ("given", "width", "message"),
    [
        ({}, 2, r"'test_engine': sample a: scores have shape \(1, 2\), expected .*3"),
        ({"ids": (4, 500, 6)}, 3, r"sample a: token id 500 .* \(allowed: 0 to 96\)"),
        ({"other_id": "b"}, 3, "do not belong together"),
        (
            {"ids": [3] * (CONTEXT + 1)}, CONTEXT + 1,
            r"'test_engine': sample a: .*129, .*context of model 'llama-gqa', 128; .*s\.max_tokens",
        ),
    ],
)  # fmt: skip
@pytest.mark.follows("lower the option prompts.max_tokens")
def test_invalid_scores_and_inputs_are_named(model, given, width, message):
    with pytest.raises(BenchmarkError, match=message):
        attribute_block(Recording(scores=torch.zeros(1, width)), model, [pair(**given)])
    (row,) = attribute_block(Recording(), model, [pair(ids=[3] * CONTEXT)])
    assert row["status"] == "ok", "as long as the context"


# Time -----------------------------------------------------------------------------------------


class Clocked(Recording):
    """Takes a second per padded token, and a hundred more on the first call."""

    def __init__(self, clock, token_budget=1024):
        super().__init__(token_budget)
        self.clock = clock

    def attribute(self, model, batch):
        self.clock.now += batch.input_ids.numel() + (0 if self.calls else 100)
        return super().attribute(model, batch)


@pytest.fixture
def clock(monkeypatch):
    """Return the engine's clock; it stands still unless a method advances it."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(engine, "perf_counter", lambda: clock.now)
    return clock


def test_the_first_run_is_not_timed(model, clock):
    method = Clocked(clock)
    block = explained_samples(samples())
    warm_up(method, model, block)
    assert method.calls == [["single"]], "the shortest sample, once"
    rows = attribute_block(method, model, block)
    assert sum(row["seconds"] for row in rows) == pytest.approx(4 * 18), "four padded samples"
    cold = attribute_block(Clocked(clock), model, block)
    assert sum(row["seconds"] for row in cold) == pytest.approx(4 * 18 + 100)


def test_batch_time_is_shared_in_proportion_to_the_tokens_read(model, clock):
    method = Clocked(clock, token_budget=36)
    rows = attribute_block(method, model, explained_samples(samples()))
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


# Memory ---------------------------------------------------------------------------------------


class Hungry(Recording):
    """Runs out of memory above a number of padded tokens, in a batch or in an inner one."""

    def __init__(self, token_budget, limit):
        super().__init__(token_budget)
        self.limit = limit
        self.failures = 0

    def attribute(self, model, batch):
        width = batch.input_ids.shape[1]
        budgeted_rows = max(1, self.context.token_budget // width)
        if max(batch.input_ids.numel(), budgeted_rows * width) > self.limit:
            self.failures += 1
            raise MemoryError
        return super().attribute(model, batch)


def test_checkpointed_layers_give_bitwise_equal_scores(caplog):
    deep, _ = model_and_network("llama-gqa", layers=8)

    def rows(count=4):
        block = explained_samples(samples()[:count])
        return attribute_block(build("saliency", token_budget=1), deep, block)

    expected = rows()
    with Memory() as whole:
        rows(1)
    with Memory() as less, checkpointed_layers(deep):
        rows(1)
    with Memory((whole.peak + less.peak) / 2), caplog.at_level("INFO"):
        assert list(map(scores_row, rows())) == list(map(scores_row, expected))
    assert [message for message in caplog.messages if "recomputed" in message] == [
        "method 'saliency', model 'llama-gqa': sample long fits: one sequence at a time, "
        "layers recomputed in backward passes"
    ]
    with Memory(less.peak * 0.9):
        failed, ok = (all_rows := rows())[:2], all_rows[2:]
    for row in failed:
        assert row["status"] == "too_long_for_memory"
        assert row["raw_scores"] is row["seconds"] is row["converged"] is None
    (message,) = [message for message in caplog.messages if "do not fit" in message]
    assert message.startswith("method 'saliency', model 'llama-gqa': sample long: 18 tokens")
    assert "too_long_for_memory; shorten prompts by the option prompts.max_tokens" in message
    assert list(map(scores_row, ok)) == list(map(scores_row, expected[2:]))


@pytest.mark.parametrize(
    ("name", "options", "ignored"),
    [("integrated_gradients", {"steps": 6}, {"internal_batch_size": 6}), ("occlusion", {}, {})],
)
def test_a_sample_fails_only_after_its_inputs_were_tried_one_by_one(model, name, options, ignored):
    """Independently of `internal_batch_size`, and although late tokens share long prefixes."""
    block = explained_samples(samples()[:1])
    with Memory() as one:
        expected = attribute_block(build(name, token_budget=1, **options), model, block)
    method = build(name, token_budget=999, **options | ignored)
    with Memory(one.peak * 1.2):
        rows = attribute_block(method, model, block)
    assert method.context.token_budget >= len(samples()[0].read_ids), "enough for later samples"
    for row, other in zip(rows, expected, strict=True):
        assert row["raw_scores"] == pytest.approx(other["raw_scores"], rel=1e-4)


def test_failed_attempts_are_not_timed(model, clock):
    class FailsLate(Clocked):
        def attribute(self, model, batch):
            scores = super().attribute(model, batch)
            if len(batch.samples) > 2:
                raise torch.OutOfMemoryError
            return scores

    rows = attribute_block(FailsLate(clock, token_budget=72), model, explained_samples(samples()))
    assert sum(row["seconds"] for row in rows) == pytest.approx(18 * 2 + 6 * 2)


# Script ---------------------------------------------------------------------------------------


@pytest.fixture
def job(tmp_path):
    """Files of a job, and its command line."""
    model_and_network("llama-gqa", torch.float32)[1].save_pretrained(tmp_path / "model")
    kinds = ("prompts", "generations", "output", "times")
    files = {kind: tmp_path / f"{kind}.parquet" for kind in kinds}
    for kind, rows in zip(kinds[:2], zip(*explained_samples(samples()), strict=True), strict=True):
        write_rows(files[kind], kind, rows, {})
    settings = AttributeJob(
        model=local_model(), reinitialised_layers=None, masked_model=None, target="label",
        step_scores=None, scope=None, method="my_method", options={}, seed=1, block_size=2,
        token_budget=72, first_sample=0,
    ).to_json()  # fmt: skip
    model = [tmp_path / "model/config.json"]
    return argparse.Namespace(**files, settings=settings, model=model, gpus=None)


def test_the_file_records_peak_memory_and_token_budget(job, monkeypatch):
    methods = []

    class Small(Hungry):
        def __init__(self, options, context):
            super().__init__(context.token_budget, 20)
            methods.append(self)

    monkeypatch.setattr(attribute, "load_method", lambda name: Small)
    attribute.main(job)
    facts = read_provenance(job.output)
    needed = read_provenance(job.times)
    assert scores_of(read_rows(job.output, "attributions")) == expected_scores(samples())
    assert methods[0].calls[0] == ["single"], "the job begins with a warm-up"
    assert facts["token_budget_used"] == methods[0].context.token_budget == 18
    assert methods[0].failures == 2, "the lowered budget stays"
    assert facts["settings"]["token_budget"] == 72
    assert needed["peak_memory_mb"] > 50, "torch itself needs more"
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
    expected = attributed("random", random_model("llama-gqa"), samples())
    scores = [row["raw_scores"] for row in read_rows(job.output, "attributions")]
    assert scores == [pytest.approx(row.tolist()) for sample in expected for row in sample]
    assert read_provenance(job.times)["device"] == "cpu"


def test_the_log_probability_of_the_explained_target_is_stored(job):
    prompt = read_rows(job.prompts, "prompts")[0]
    prompt |= {"label_words": ["Yes"], "label_token_ids": [50]}
    answer = read_rows(job.generations, "generations")[0] | {
        "output_ids": [50], "output_token_texts": ["Yes"], "steps": [0], "target_ids": [50],
        "predicted_label": "Yes", "greedy_token_id": 9, "runner_up_ids": [60], "margins": [1.0],
    }  # fmt: skip
    write_rows(job.prompts, "prompts", [prompt], {})
    write_rows(job.generations, "generations", [answer], {})
    given = AttributeJob.model_validate_json(job.settings).model_copy(update={"method": "saliency"})
    model, _ = model_and_network("llama-gqa", torch.float32)
    soft = {}
    for target, token, *foils in (("contrastive", 50, 60), ("label", 50), ("generated", 9)):
        job.settings = given.model_copy(update={"target": target}).to_json()
        attribute.main(job)
        scores = read_rows(job.output, "attributions")[0]["raw_scores"]
        sample = ExplainedSample("s", prompt["input_ids"], [], [0], [token], foil_ids=foils)
        (expected,) = attributed("saliency", model, [sample])
        np.testing.assert_allclose(scores, expected[0], rtol=1e-4)
        if target == "contrastive":  # covers attribution only
            continue
        settings = EvaluateJob(
            model=given.model, seed=1, block_size=2, token_budget=72, compile=False, target=target,
            first_sample=0, protocol="dynamic",
            evaluation=DrawSettings(pi_grid=(0.3, 0.7), draws=1),
        )  # fmt: skip
        files = {"attributions": job.output, "output": job.output.with_name("soft.parquet")}
        files["settings"] = settings.to_json()
        evaluate_soft.main(argparse.Namespace(**vars(job) | files))
        soft[target] = read_rows(files["output"], "soft")[0]
    assert soft["label"]["h0"] == soft["generated"]["h0"], "of the whole distribution"
    changes = [soft[target]["ns_log_probability_changes"] for target in ("label", "generated")]
    assert changes[0] != changes[1]
