"""Loading models: dtypes, 4-bit weights, compiled parts, and unloadable models."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from helpers.evaluations import distances
from helpers.loaded_models import local_model
from helpers.random_models import model_and_network
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.perturbation import PerturbationTarget
from pisoft.models import loading
from pisoft.models.loading import compile_layers, load_model, load_outline, model_facts


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    model_and_network("llama-gqa", torch.float32)[1].save_pretrained(folder)
    return folder


def tf32_in_containers():
    """Switch TF32 on like NVIDIA's containers, by an environment variable of torch."""
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True


def tf32_in_programs():
    """Switch TF32 on like programs, by torch's newer settings."""
    torch.backends.fp32_precision = torch.backends.cudnn.fp32_precision = "tf32"
    torch.backends.cuda.matmul.fp32_precision = torch.backends.cudnn.conv.fp32_precision = "tf32"
    # Torch's own defaults.
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = True
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = True


@pytest.fixture(params=[tf32_in_containers, tf32_in_programs])
def tf32(request):
    request.param()


@pytest.mark.usefixtures("tf32")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_weights_have_the_configured_dtype_and_logits_are_float32(folder, dtype):
    model = load_model(local_model(dtype=dtype), folder)
    assert next(model.network.parameters()).dtype == getattr(torch, dtype)
    logits = model.logits(model.hidden_states(model.embed(torch.tensor([[3, 4]]))))
    assert logits.dtype == (torch.float64 if dtype == "float64" else torch.float32)
    assert model_facts(model) == {"model_commit": None, "device": "cpu", "layers": 3,
        "threads": torch.get_num_threads(), "allow_tf32": False,
        "allow_reduced_precision_reduction": False,
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs g++ on a CPU")
@pytest.mark.parametrize("protocol", ["dynamic", "fixed"])
def test_a_compiled_model_gives_the_same_draws(folder, protocol):
    plain, compiled = load_model(local_model(), folder), load_model(local_model(), folder)
    compile_layers(compiled)
    target = PerturbationTarget([1, 40, 41, 8, 9, 10, 33], np.array([2, 3, 5]), 5)
    masks = np.random.default_rng(0).random((6, 3)) < 0.5
    expected, measured = (
        distances(model, target, masks, token_budget=15, protocol=protocol)
        for model in (plain, compiled)
    )
    torch.compiler.reset()  # otherwise its workers outlive the test
    np.testing.assert_allclose(measured, expected, rtol=0, atol=1e-3)
    assert torch._dynamo.utils.counters["frames"]["ok"] > 0, "nothing was compiled"


def test_folders_without_a_model_are_named(tmp_path, folder):
    with pytest.raises(BenchmarkError, match="model 'toy': no such folder"):
        load_model(local_model(), tmp_path / "absent")
    with pytest.raises(BenchmarkError, match=f"{tmp_path} has no weights .* it holds nothing"):
        load_model(local_model(), tmp_path)


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("model.safetensors", "broken", r"model\.safetensors: Error while deserializing header"),
        ("generation_config.json", "{", r"generation_config\.json.* not a valid JSON file"),
        ("origin.json", "{", r"/origin\.json: states no commit: Expecting property name"),
        ("origin.json", "{}", r"/origin\.json: states no commit: no entry 'commit'"),
        ("config.json", '{"model_type": "llama", "hidden_act": "silk"}', "no entry 'silk'"),
        (
            "config.json",
            '{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 7}',
            r"The hidden size \(64\) is not a multiple of the number of attention heads \(7\)",
        ),
    ],
)
def test_a_broken_file_is_named_with_its_problem(tmp_path, folder, file, content, problem):
    """Regression: with broken generation settings a model was loaded without its end tokens."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / file).write_text(content)
    with pytest.raises(BenchmarkError, match=f"model 'toy': .*{problem}"):
        load_model(local_model(), tmp_path)


def test_other_key_errors_are_not_reported_as_a_missing_interface(folder, monkeypatch):
    def fail(*_, **__):
        raise KeyError("another key")

    monkeypatch.setattr("transformers.AutoModelForCausalLM.from_pretrained", fail)
    with pytest.raises(BenchmarkError, match="model 'toy': cannot be loaded from"):
        load_model(local_model(), folder)


def test_tokenizer_and_weights_come_from_the_same_commit(folder, monkeypatch):
    load = loading.pretrained_network

    def moved(*given, **options):
        return load(*given, **options)[0], "c0ffee"

    monkeypatch.setattr(loading, "pretrained_network", moved)
    monkeypatch.setattr(loading, "load_tokenizer", lambda model, _: model.revision)
    assert load_model(local_model(revision="main"), folder)._load_tokenizer() == "c0ffee"


def test_pickled_weights_adapters_and_a_billion_layers_are_refused(tmp_path, folder):
    config = (folder / "config.json").read_text()
    (tmp_path / "config.json").write_text(config)
    torch.save({}, tmp_path / "pytorch_model.bin")
    with pytest.raises(BenchmarkError, match="safetensors"):
        load_model(local_model(), tmp_path)
    (tmp_path / "model.safetensors").touch()
    (tmp_path / "config.json").write_text(json.dumps({"num_hidden_layers": 10**9}))
    with pytest.raises(BenchmarkError, match=r"num_hidden_layers: 1000000000 is not allowed"):
        load_model(local_model(), tmp_path)
    (tmp_path / "adapter_config.json").touch()
    with pytest.raises(BenchmarkError, match=r"adapter_config\.json; merge the adapter into its"):
        load_model(local_model(), tmp_path)


@pytest.mark.follows("give the model `device: cpu` or `resources: {gpu: 0}`")
def test_a_missing_gpu_is_reported(folder):
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    with pytest.raises(BenchmarkError, match="torch finds no CUDA device"):
        load_model(local_model(device="cuda"), folder)
    with pytest.raises(BenchmarkError, match=r"resources\.gpu: 1 is asked for, .* `device: cpu`"):
        load_model(local_model(device="auto"), folder, gpus=1)
    for device, gpus in (("cpu", 1), ("auto", 0)):
        assert load_model(local_model(device=device), folder, gpus=gpus).device.type == "cpu"


def test_an_unavailable_repository_is_named():
    with pytest.raises(BenchmarkError, match="model 'toy': 'nobody/nothing'"):
        load_model(local_model(repository="nobody/nothing", revision="main"), None)


def save_without(folder, source, drop, **extra):
    """Save a model whose weights lack those with a name that holds `drop`, with others besides."""
    shutil.copytree(source, folder)
    weights = load_file(folder / "model.safetensors")
    kept = {name: value for name, value in weights.items() if drop not in name}
    save_file(kept | extra, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("drop", "extra", "problem"),
    [
        ("layers.1.self_attn.q_proj", {}, r"lack model\.layers\.1\.self_attn\.q_proj\.weight$"),
        ("lm_head", {}, r"lack lm_head\.weight$"),
        ("_proj", {}, r"lack .* and 18 more$"),
        ("none", {"adapter.weight": torch.ones(2)}, r"has no place for: adapter\.weight$"),
        (
            "none",
            {"model.norm.weight": torch.ones(3)},
            r"have the wrong shape: model\.norm\.weight \(3,\) for \(32,\)$",
        ),
    ],
)
def test_weights_that_do_not_match_the_model_are_refused(folder, tmp_path, drop, extra, problem):
    """Regression: transformers initialises them at random, and every row was ok."""
    save_without(tmp_path / "model", folder, drop, **extra)
    with pytest.raises(BenchmarkError, match=rf"model 'toy': .*{problem}"):
        load_model(local_model(), tmp_path / "model")


def test_unsupported_quantisation_is_reported(folder, tmp_path):
    save_without(tmp_path / "model", folder, "_proj")
    path = tmp_path / "model/config.json"
    config = json.loads(path.read_text()) | {"quantization_config": {"quant_method": "gptq"}}
    path.write_text(json.dumps(config))
    with pytest.raises(BenchmarkError, match=r"lack .*; they are quantised by gptq, not by nf4"):
        load_model(local_model(), tmp_path / "model")


def test_a_tied_head_does_not_count_as_missing(tmp_path):
    model_and_network("llama-mha-tied", torch.float32)[1].save_pretrained(tmp_path)
    assert load_model(local_model(), tmp_path).layers == 3


def test_four_bit_weights_keep_their_gradients(tmp_path):
    """The CPU's other kernel has no backward pass: gradients would be silently wrong."""
    model_and_network("llama-gqa")[1].save_pretrained(tmp_path)
    model = load_model(local_model(dtype="bfloat16", quantization="nf4"), tmp_path)
    layers = [m for m in model.network.modules() if type(m).__name__ == "Linear4bit"]
    assert len(layers) == 3 * 7, "seven projections in each of three layers"
    for layer in layers:
        assert layer.weight.quant_type == "nf4"
        assert layer.compute_dtype == torch.bfloat16
        assert not layer.support_avx512bf16_for_cpu


def test_an_outline_has_the_models_shape_without_weights_or_a_gpu(folder, tmp_path):
    shutil.copy(folder / "config.json", tmp_path)
    model, outline = (
        load_model(local_model(), folder),
        load_outline(local_model(device="cuda"), tmp_path),
    )
    for name in ("layers", "context", "vocabulary_size", "width", "device", "commit"):
        assert getattr(outline, name) == getattr(model, name), name
    assert all(weight.is_meta for weight in outline.network.parameters())
    assert model_facts(outline) == model_facts(model)
    (tmp_path / "config.json").write_text('{"model_type": "t5"}')
    with pytest.raises(BenchmarkError, match=r"model 'toy': cannot be loaded from .*T5Config"):
        load_outline(local_model(), tmp_path)
