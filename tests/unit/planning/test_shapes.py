"""Sizes of models without weights: every place they come from, and the bytes they stand for."""

from __future__ import annotations

import json

import huggingface_hub.constants
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    BitsAndBytesConfig,
    LlamaConfig,
    LlamaForCausalLM,
)

from pisoft.config.models import HubModel, LocalModel, ModelShape, TrainedModel
from pisoft.embedded.models import _new_model
from pisoft.errors import BenchmarkError
from pisoft.planning import sizes
from pisoft.planning.shapes import layer_parameters, model_shape, vocabulary_parameters
from planning import LLAMA_8B, SIZES, sample
from random_models import SHAPES, VOCABULARY, twins
from tiny_tokenizers import numbered_tokenizer

HUB = {"kind": "hub", "repository": "someone/something"}


def matrices(network) -> int:
    """Return the number of weights in layers and output head, norms left out."""
    head = network.get_output_embeddings().weight
    layers = [p for p in network.base_model.layers.parameters() if p.dim() > 1]
    return sum(p.numel() for p in layers) + head.numel()


def planned_matrices(shape: ModelShape) -> int:
    return shape.layers * layer_parameters(shape) + vocabulary_parameters(shape)


@pytest.mark.parametrize("name", SHAPES)
def test_a_local_model_is_read_from_its_configuration(name, tmp_path):
    _, plain = twins(name, torch.float32)
    plain.config.save_pretrained(tmp_path)
    shape = model_shape(name, LocalModel(kind="local", path=str(tmp_path)))
    assert planned_matrices(shape) == matrices(plain)
    assert shape.tied_embeddings == plain.config.tie_word_embeddings
    assert (shape.context, shape.head_size) == (128, 8)
    held = {p.untyped_storage().data_ptr(): p.nbytes for p in plain.parameters() if p.dim() > 1}
    assert sizes.weight_bytes(shape, "float32", "none") == sum(held.values())


def test_keys_that_old_configurations_leave_out_have_their_meaning(tmp_path):
    old = {
        "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 96,
        "num_attention_heads": 8, "vocab_size": 100,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(old))
    shape = model_shape("old", LocalModel(kind="local", path=str(tmp_path)))
    assert (shape.key_value_heads, shape.head_size, shape.tied_embeddings) == (8, 8, False)
    assert shape.context is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "is not a model's configuration"),
        ("[]", "is not a model's configuration"),
        ('{"hidden_size": 8, "num_attention_heads": 2}', "layers"),
    ],
)
def test_a_configuration_that_lacks_sizes_is_named(text, complaint, tmp_path):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(BenchmarkError, match=rf"config\.json: {complaint}"):
        model_shape("m", LocalModel(kind="local", path=str(tmp_path)))


@pytest.mark.parametrize("architecture", ["llama", "mistral"])
def test_a_trained_model_has_the_sizes_it_is_planned_with(architecture):
    source = TrainedModel(kind="trained", architecture=architecture, datasets=("d",))
    tokenizer = numbered_tokenizer(source.vocabulary_size)
    network = _new_model(
        tokenizer, architecture, source.hidden_size, source.layers, source.heads,
        source.key_value_heads, source.context,
    )  # fmt: skip
    shape = model_shape("m", source)
    assert planned_matrices(shape) == matrices(network)
    assert shape.tied_embeddings
    assert network.config.tie_word_embeddings
    assert shape.context == network.config.max_position_embeddings


def test_the_hubs_cache_goes_before_the_catalogue_and_the_catalogue_before_an_error(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    source = HubModel(**HUB)
    with pytest.raises(BenchmarkError, match=r"model 'm': source\.shape: not set, .*something"):
        model_shape("m", source)
    listed = HubModel(**HUB, shape=LLAMA_8B)
    assert model_shape("m", listed) == LLAMA_8B
    repository = tmp_path / "models--someone--something"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("abc")
    (repository / "snapshots" / "abc").mkdir(parents=True)
    config = twins("llama-gqa", torch.float32)[1].config
    config.save_pretrained(repository / "snapshots" / "abc")
    assert model_shape("m", listed).layers == model_shape("m", source).layers == 3
    other = HubModel(**HUB, revision="v2", shape=LLAMA_8B)
    assert model_shape("m", other) == LLAMA_8B, "another revision is not in the cache"


def test_four_bit_weights_take_the_memory_that_bitsandbytes_takes(tmp_path):
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=128, intermediate_size=256, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    network = AutoModelForCausalLM.from_pretrained(
        tmp_path,
        dtype=torch.bfloat16,
        quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4"),
    )
    held = sum(p.nbytes for p in network.parameters() if p.dim() > 1)
    held += sum(
        module.weight.quant_state.absmax.nbytes
        for module in network.modules()
        if hasattr(module, "weight") and hasattr(module.weight, "quant_state")
    )
    shape = model_shape("m", LocalModel(kind="local", path=str(tmp_path)))
    assert sizes.weight_bytes(shape, "bfloat16", "nf4") == held


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["llama-gqa", "llama-mha-tied"])
def test_a_graph_holds_what_autograd_saves(name, dtype):
    """Within a sixth: the last feed-forward block runs at few positions, norms keep a little more.

    The models are tiny, so 40 tokens are many.
    """
    model, _ = twins(name, getattr(torch, dtype))
    weights = {p.untyped_storage().data_ptr() for p in model.network.parameters()}
    saved: dict[int, int] = {}

    def note(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    embeddings = model.embed(torch.full((2, 40), 5)).detach().requires_grad_(True)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        kept = model.next_token_logits(embeddings, torch.full((2, 1), 39))
    assert kept.requires_grad
    heads = {"llama-gqa": 2, "llama-mha-tied": 4}[name]
    shape = ModelShape(**SIZES | {"key_value_heads": heads})
    assert sizes.graph_bytes(shape, 80, dtype) == pytest.approx(sum(saved.values()), rel=1 / 6)


def test_rows_take_the_bytes_of_their_lists():
    """By hand: 100 scores of 4 bytes at 2 steps; 4 rows of 2·15 distances of 4 bytes each."""
    lengths = sample(100, first=40, steps=(0, 5), output=8)
    assert sizes.attribution_bytes(lengths) == 2 * (100 * 4 + sizes.ROW)
    assert sizes.soft_bytes(lengths, grid=3, draws=15) == 2 * 4 * (90 * 4 + sizes.ROW)
    assert sizes.cache_bytes(LLAMA_8B, 1000, "bfloat16") == 1000 * 131072
