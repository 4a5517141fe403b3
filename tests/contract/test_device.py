"""Every stage on a fake GPU: the same rows as on a CPU, and no operation mixes their tensors."""

import copy
import logging
from functools import partial
from itertools import cycle
from typing import get_args

import pytest
import torch

from helpers import attributions, stages
from helpers.fake_gpu import DEVICE, ERRORS, FakeGpu
from helpers.random_masked_models import numbered
from helpers.random_models import VOCABULARY, model_and_network
from pisoft.attribution import repetition
from pisoft.config.base import Ablation
from pisoft.errors import BenchmarkError
from pisoft.models import attention
from pisoft.models.loading import wrapped_model
from pisoft.models.model import LanguageModel

BLOCK = [stages.LONG, *stages.OTHERS]
BUDGET = 1000  # tokens: all draws fit one batch, or two with half the budget
ROUTINGS = {
    "dynamic": get_args(Ablation),
    "fixed": tuple(operator for operator in get_args(Ablation) if operator != "hide"),
}
EVALUATIONS = {
    f"soft evaluation by {operator} with {routing} routing": partial(
        stages.softly_evaluated, routing, operator, "iid"
    )
    for routing, operators in ROUTINGS.items()
    for operator in operators
}
INSPECTIONS = {
    f"inspection with {routing} routing": partial(stages.inspected, routing, operators)
    for routing, operators in ROUTINGS.items()
}
TESTED_HERE = ("soft evaluation", "inspection")  # with every operator
OTHERS = {name: stage for name, stage in stages.STAGES.items() if not name.startswith(TESTED_HERE)}
STAGES = EVALUATIONS | INSPECTIONS | OTHERS
SLOW = (
    *("attn_lrp", "cp_lrp", "deeplift", "depass", "flashtrace", "input_x_gradient", "inseq"),
    *("kernel_shap", "permutation_shap", "ranking that zeroes", "inspection with dynamic routing"),
)
CASES = [
    pytest.param(name, error, marks=pytest.mark.slow if name.endswith(SLOW) else (), id=name)
    for name, error in zip(STAGES, cycle(ERRORS), strict=False)
]


@pytest.fixture(autouse=True)
def fused_attention(monkeypatch):
    """Use fused attention without masks on the device, like on a GPU."""
    monkeypatch.setattr(attention, "FUSED", (DEVICE.type,))


def on_both(dtype):
    """Return a model on the CPU, and another one with the same weights on the device."""
    cpu, _ = model_and_network("llama-gqa", dtype)
    network = copy.deepcopy(cpu.network)
    with FakeGpu() as gpu:
        gpu.put(network)
        model = LanguageModel(network, cpu.name, lambda: cpu.tokenizer)
        assert model.generates_padded  # cached by a trial run before the first batch
    return cpu, model


@pytest.fixture(scope="module")
def models():
    return on_both(torch.float64)


def lend_device(name, monkeypatch):
    """Put a stage's masked model on the device, or register the device with Inseq."""
    if "reagent" in name:
        masked = numbered(VOCABULARY)
        with FakeGpu() as gpu:
            gpu.put(masked.network)
        monkeypatch.setattr(attributions, "random_masked_model", lambda: masked)
    if "inseq" in name:
        from inseq.utils import torch_utils

        available = (lambda: True, lambda: True)
        monkeypatch.setitem(torch_utils.TORCH_BACKEND_DEVICE_MAP, DEVICE.type, available)


@pytest.mark.parametrize(("name", "error"), CASES)
def test_rows_match_the_cpu_and_low_memory_halves_the_budget(
    name, error, models, monkeypatch, caplog
):
    cpu, model = models
    expected = stages.sorted_rows(STAGES[name], cpu, BLOCK, BUDGET)
    lend_device(name, monkeypatch)
    caplog.set_level(logging.INFO, "pisoft")
    with FakeGpu(error, at=200):  # in the first forward of a batch
        rows = stages.sorted_rows(STAGES[name], model, BLOCK, BUDGET)
    stages.assert_same(rows, expected)
    lowered = [f"out of memory; token_budget is lowered to {BUDGET // 2}"]
    assert caplog.messages == ([] if "random" in name else lowered)


@pytest.mark.parametrize(
    "stage",
    [
        lambda *on, number: stages.softly_evaluated("fixed", "zero", "iid", *on, draws=number),
        lambda *on, number: stages.ranked("zero", *on, steps=number),
    ],
    ids=["draws", "steps of a ranking"],
)
def test_larger_batches_wait_no_more_often_for_the_gpu(stage, models):
    _, model = models
    waits = []
    for number in (1, 4):
        with FakeGpu() as gpu:
            stage(model, BLOCK, 4 * BUDGET, number=number)
        waits.append(gpu.waits)
    assert 0 < waits[1] <= waits[0]


@pytest.mark.slow
def test_half_precision_is_re_run_in_float32_on_the_gpu(monkeypatch):
    monkeypatch.setattr(repetition, "is_compared", lambda block: True)
    cpu, model = on_both(torch.bfloat16)
    expected = stages.repeated_in_float32(cpu, BLOCK, BUDGET)
    with FakeGpu():
        rows = stages.repeated_in_float32(model, BLOCK, BUDGET)
    assert len(expected) > len(BLOCK)  # H₀ of one step, and rank agreement of several
    assert rows == pytest.approx(expected, rel=1e-3)


def test_a_model_on_two_devices_is_refused_in_one_line():
    cpu, network = model_and_network("llama-gqa")
    network.lm_head.to(DEVICE)
    with pytest.raises(BenchmarkError, match=r"^model 'LlamaForCausalLM': .* cpu and meta.*$"):
        wrapped_model(network, cpu.tokenizer)
