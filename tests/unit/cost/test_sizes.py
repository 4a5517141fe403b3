"""Sizes of models, files and batches."""

import re
from pathlib import Path

import pytest

from helpers.random_models import SHAPES, model_and_network
from helpers.tiny_tokenizers import numbered_tokenizer
from pisoft.config.models import GgufModel, HubModel, LocalModel, TrainedModel
from pisoft.cost.sizes import device_bytes, largest_file, parameters_of, token_bytes
from pisoft.demo.models import _new_model
from pisoft.errors import BenchmarkError

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", SHAPES)
def test_the_weights_of_a_folder_are_counted(name, tmp_path):
    model, _ = model_and_network(name)
    model.network.save_pretrained(tmp_path, max_shard_size="100KB")
    source = LocalModel(kind="local", path=str(tmp_path))
    count = sum(weight.numel() for weight in model.network.parameters())
    assert parameters_of("m", source) == count


def test_a_folder_without_readable_weights_is_named(tmp_path):
    source = LocalModel(kind="local", path=str(tmp_path))
    with pytest.raises(BenchmarkError, match="has no safetensors file"):
        parameters_of("m", source)
    (tmp_path / "model.safetensors").write_bytes(b"none")
    with pytest.raises(BenchmarkError, match=r"model\.safetensors: is not a safetensors file"):
        parameters_of("m", source)


def test_other_models_have_the_size_in_their_entry():
    for source in (
        HubModel(kind="hub", repository="no/where", parameters=8e9),
        GgufModel(kind="gguf", path="m.gguf", parameters=8e9),
    ):
        assert parameters_of("m", source) == 8e9
        with pytest.raises(BenchmarkError, match=r"model 'm': source\.parameters: not set"):
            parameters_of("m", source.model_copy(update={"parameters": None}))


@pytest.mark.parametrize("architecture", ["llama", "mistral"])
def test_a_trained_model_has_its_planned_size(architecture):
    source = TrainedModel(
        kind="trained", architecture=architecture, datasets=["demo-sentiment"], vocabulary_size=1200
    )
    tokenizer = numbered_tokenizer(source.vocabulary_size)
    network = _new_model(tokenizer, source)
    count = sum(weight.numel() for weight in network.parameters() if weight.dim() > 1)
    assert parameters_of("m", source) == count


def test_the_docs_state_which_models_fit_on_one_gpu():
    docs = " ".join((ROOT / "docs/how-to/run-on-real-models.md").read_text().split())
    room, billion = 80e9 - 15e9, 1e9
    for quantization, text in (
        ("none", "{} billion 16-bit weights"),
        ("nf4", "{} billion 4-bit ones"),
    ):
        of_one = device_bytes(1, "bfloat16", quantization)
        assert text.format(round(room / of_one / billion)) in docs
    table = re.findall(r"\| (\d+) billion \| (\d+) GB \| (\d+) GB \|", docs)
    assert table == [
        (str(size), *(f"{device_bytes(size, 'bfloat16', kind):.0f}" for kind in ("none", "nf4")))
        for size in (8, 14, 32, 70, 123)
    ]


@pytest.mark.parametrize(
    ("row", "with_gradients", "tokens"),
    [
        ("| dynamic | 16,384 | no |", False, 16384),
        ("| dynamic | 65,536 | no |", False, 65536),
        ("| `saliency` |", True, 286),
        ("| `gradient_shap` |", True, 5 * 286),  # draws, each read with all tokens
        ("| `integrated_gradients` |", True, 16 * 286),
    ],
)
def test_batch_memory_matches_measurements(row, with_gradients, tokens):
    docs = (ROOT / "docs/reference/speed.md").read_text(encoding="utf-8")
    (line,) = (line for line in docs.splitlines() if line.startswith(row))
    measured = 1e9 * float(line.split("|")[-2])
    size = token_bytes(8.03e9, 32, "bfloat16")[with_gradients]
    assert device_bytes(8.03e9, "bfloat16", "none") + tokens * size == pytest.approx(
        measured, rel=0.03
    )


def test_the_largest_file_is_the_folders_or_the_hubs_shard_size(tmp_path):
    for name, size in (("a", 7), ("b", 70)):
        (tmp_path / f"{name}.safetensors").write_bytes(bytes(size))
    assert largest_file(LocalModel(kind="local", path=str(tmp_path)), 77) == 70
    hub = HubModel(kind="hub", repository="no/where")
    assert [largest_file(hub, weights) for weights in (1e9, 140e9)] == [1e9, 5e9]
    assert largest_file(GgufModel(kind="gguf", path="m.gguf"), 16e9) == 16e9, "it becomes one file"
