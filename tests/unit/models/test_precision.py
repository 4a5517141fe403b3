"""Output heads with 16-bit weights give float32 logits without a float32 copy of the weights."""

import pytest
import torch
from torch.nn import Linear

from helpers.random_models import model_and_network, samples
from pisoft.models import precision
from pisoft.models.precision import float32_head

HALF = (torch.bfloat16, torch.float16)
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")


def head(dtype, bias=True, kind=Linear):
    torch.manual_seed(3)
    module = kind(24, 50, bias=bias).to(dtype).requires_grad_(False)
    float32_head(module)
    return module


def states(dtype):
    return torch.randn(2, 3, 24, generator=torch.Generator().manual_seed(4)).to(dtype)


@GPU
@pytest.mark.parametrize("dtype", HALF)
def test_gpu_logits_equal_cpu_logits(dtype):
    module, hidden = head(dtype), states(dtype)
    expected = module(hidden)
    logits = module.to("cuda")(hidden.to("cuda"))
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits.cpu(), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("chunk", [1, 24 * 7, 2**22])
def test_logits_and_gradients_match_a_float64_head(chunk, dtype, bias, monkeypatch):
    monkeypatch.setattr(precision, "CHUNK", chunk)
    module = head(dtype, bias)
    hidden = states(dtype).requires_grad_(True)
    wide = hidden.detach().double().requires_grad_(True)
    expected = torch.nn.functional.linear(
        wide, module.weight.double(), module.bias.double() if bias else None
    )
    logits = module(hidden)
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits.double(), expected, rtol=0, atol=1e-6)
    direction = torch.randn(expected.shape, generator=torch.Generator().manual_seed(5)).double()
    (gradient,) = torch.autograd.grad((logits * direction.float()).sum(), hidden)
    (exact,) = torch.autograd.grad((expected * direction).sum(), wide)
    assert gradient.dtype == dtype  # the exact gradient, rounded once
    torch.testing.assert_close(gradient.double(), exact, rtol=torch.finfo(dtype).eps / 2, atol=1e-5)


def test_the_graph_keeps_no_float32_weights():
    module, saved = head(torch.bfloat16), []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        module(states(torch.bfloat16).requires_grad_(True))
    assert [tensor.dtype for tensor in saved] == [torch.bfloat16]
    assert saved[0].data_ptr() == module.weight.data_ptr()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_float32_and_float64_heads_are_unchanged(dtype):
    module, hidden = head(dtype), states(dtype)
    assert torch.equal(
        module(hidden), torch.nn.functional.linear(hidden, module.weight, module.bias)
    )


def test_a_head_with_a_custom_forward_is_unchanged():
    class Halved(Linear):
        def forward(self, hidden):
            return super().forward(hidden) / 2

    module, hidden = head(torch.bfloat16, kind=Halved), states(torch.bfloat16)
    plain = torch.nn.functional.linear(hidden, module.weight, module.bias) / 2
    assert torch.equal(module(hidden), plain)
    module = Linear(24, 50).bfloat16()
    module.forward = replaced = lambda hidden: hidden  # set like by hooks of accelerate
    float32_head(module)
    assert module.forward is replaced
    float32_head(None)  # some classes have no head


@pytest.mark.parametrize("shape", ["llama-gqa", "llama-mha-tied"])
def test_generation_and_evaluation_use_the_same_logits(shape):
    """In bfloat16 the largest logits are often tied, and the first would win."""
    model, _ = model_and_network(shape, torch.bfloat16)
    ids = torch.tensor([samples()[0].prompt_ids])
    with torch.no_grad():
        expected = model.network(input_ids=ids, use_cache=False).logits
        logits = model.logits(model.hidden_states(model.embed(ids)))
    assert expected.dtype == torch.float32
    assert torch.equal(expected, logits)
