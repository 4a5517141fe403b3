"""One-time conversion of weights: GGUF files, written by their library, and 4-bit weights."""

import argparse
import hashlib
import json

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, GGUFWriter, quants
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

import convert_model
from helpers.loaded_models import local_model
from pisoft.config.jobs.training import ConvertJob
from pisoft.errors import BenchmarkError
from pisoft.models import repository
from pisoft.models.loading import load_model, model_facts
from pisoft.models.tokenizer import load_tokenizer
from pisoft.workflow.inputs import MODEL_FILES

SIZE, HEADS, KEY_VALUE_HEADS, LAYERS, WIDE = 64, 4, 2, 2, 96
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
WORDS = ["a", "b", "Ġ", "Ġa", "Ġb", "ab", "ba", "Ċ", "<s>", "</s>", "<unk>"]
PARTS = {  # names of a layer's weights in transformers and in the format
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


@pytest.fixture
def network():
    torch.manual_seed(3)
    return LlamaForCausalLM(
        LlamaConfig(
            hidden_size=SIZE, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
            num_key_value_heads=KEY_VALUE_HEADS, intermediate_size=WIDE, vocab_size=len(WORDS),
            max_position_embeddings=128, bos_token_id=8, eos_token_id=9, initializer_range=0.2,
        )
    ).eval()  # fmt: skip


def interleaved(weights, heads):
    """Return query or key weights in the order of the format, whose rotations take neighbours."""
    rows, columns = weights.shape
    return weights.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, -1)


def write_gguf(path, network, architecture="llama", kind=GGMLQuantizationType.F32, left_out=()):
    writer = GGUFWriter(path, architecture)
    facts = {
        "block_count": LAYERS, "context_length": 128, "embedding_length": SIZE,
        "feed_forward_length": WIDE, "head_count": HEADS, "head_count_kv": KEY_VALUE_HEADS,
        "layer_norm_rms_eps": 1e-6, "rope_freq_base": 10000.0,
        "rope_dimension_count": SIZE // HEADS, "vocab_size": len(WORDS),
        "tokenizer_model": "gpt2", "token_list": WORDS, "token_types": [1] * 8 + [3] * 3,
        "token_merges": ["a b", "b a", "Ġ a", "Ġ b"], "bos_token_id": 8, "eos_token_id": 9,
        "unk_token_id": 10, "chat_template": TEMPLATE,
    }  # fmt: skip
    for name, value in facts.items():
        getattr(writer, f"add_{name}")(value)
    tensors = {
        "token_embd": network.model.embed_tokens, "output_norm": network.model.norm,
        "output": network.lm_head,
    }  # fmt: skip
    for index, layer in enumerate(network.model.layers):
        for place, name in PARTS.items():
            tensors[f"blk.{index}.{name}"] = layer.get_submodule(place)
    for name, module in tensors.items():
        values = module.weight.detach().numpy()
        if heads := {"q": HEADS, "k": KEY_VALUE_HEADS}.get(name.partition("attn_")[2]):
            values = interleaved(values, heads)
        if name in left_out:
            continue
        if values.ndim == 1 or kind == GGMLQuantizationType.F32:
            writer.add_tensor(f"{name}.weight", values)
        else:
            writer.add_tensor(f"{name}.weight", quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def dequantised(path, folder, dtype="float32"):
    settings = ConvertJob(model=model_of(dtype)).to_json()
    arguments = argparse.Namespace(settings=settings, model=[path], gpus=0, output_folder=folder)
    convert_model.main(arguments)
    return folder


def model_of(dtype="float32"):
    return local_model(name="mine", dtype=dtype)


def test_a_gguf_file_becomes_a_folder_readable_by_all_jobs(network, tmp_path):
    path = write_gguf(tmp_path / "a.gguf", network)
    folder = dequantised(path, tmp_path / "made/mine")
    ids = torch.tensor([[8, 0, 3, 1, 5, 7, 2]])
    with torch.no_grad():
        expected = network(ids).logits
        logits = AutoModelForCausalLM.from_pretrained(folder)(ids).logits
    assert torch.equal(logits, expected)
    model = load_model(model_of(), folder)
    told = hashlib.sha256(path.read_bytes()).hexdigest()
    assert model_facts(model)["model_commit"] == f"sha256:{told}"
    tokenizer = load_tokenizer(model_of(), folder)
    assert tokenizer("ab a")["input_ids"][-2:] == [5, 3]
    message = [{"role": "user", "content": "ab"}]
    assert tokenizer.apply_chat_template(message, tokenize=False) == "ab"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", [GGMLQuantizationType.Q8_0, GGMLQuantizationType.Q4_1])
def test_weights_are_dequantised_like_by_the_gguf_library(network, tmp_path, kind, dtype):
    """In the dtype that the model runs in."""
    path = write_gguf(tmp_path / "a.gguf", network, kind=kind)
    converted = load_model(model_of(dtype), dequantised(path, tmp_path / "mine", dtype)).network
    for layer, original in zip(converted.model.layers, network.model.layers, strict=True):
        exact = original.mlp.up_proj.weight.detach().numpy()
        expected = quants.dequantize(quants.quantize(exact, kind), kind)
        assert not np.array_equal(expected, exact)
        expected = torch.from_numpy(expected).to(getattr(torch, dtype))
        assert torch.equal(layer.mlp.up_proj.weight, expected)


def test_unreadable_files_give_one_line_and_leave_no_folder(network, tmp_path):
    cut = write_gguf(tmp_path / "cut.gguf", network)
    cut.write_bytes(cut.read_bytes()[:-4000])
    cases = {
        write_gguf(tmp_path / "o.gguf", network, architecture="unheard"): "unheard is not supp",
        cut: "cut.gguf: ",
        write_gguf(tmp_path / "l.gguf", network, left_out=["blk.1.ffn_up"]): (
            "its weights lack model.layers.1.mlp.up_proj.weight"
        ),
    }
    for path, words in cases.items():
        with pytest.raises(BenchmarkError, match=words) as caught:
            dequantised(path, tmp_path / "mine")
        assert str(caught.value).startswith("model 'mine': ")
        assert "\n" not in str(caught.value)
        assert not (tmp_path / "mine").exists()


def test_saved_4_bit_weights_equal_quantisation_at_loading(network, tmp_path, monkeypatch):
    """So that only one job reads the full weights."""
    commit = "c" * 40
    snapshot = tmp_path / commit
    folder = dequantised(write_gguf(tmp_path / "a.gguf", network), tmp_path / "source")
    folder.rename(snapshot)
    (snapshot / "origin.json").unlink()
    monkeypatch.setattr(repository, "download", lambda *_: snapshot)
    monkeypatch.setattr(repository, "files_of_model", lambda *_: ["model.safetensors"])
    settings = model_of("bfloat16").model_copy(
        update={"repository": "o/n", "revision": "main", "quantization": "nf4"}
    )
    record = tmp_path / "main.json"
    record.write_text(json.dumps({"repository": "o/n", "revision": "main", "commit": commit}))
    made = tmp_path / "made/mine"
    job = ConvertJob(model=settings).to_json()
    convert_model.main(argparse.Namespace(settings=job, model=[record], gpus=0, output_folder=made))

    files = [made / name for name in MODEL_FILES]
    assert all(file.is_file() for file in files)
    kept = load_model(*repository.located(settings, files))
    again = load_model(*repository.located(settings, [record]))
    assert kept.commit == again.commit == commit
    assert not kept.network.model.layers[0].mlp.up_proj.support_avx512bf16_for_cpu
    ids = torch.tensor([[8, 0, 3, 1, 5, 7, 2]])
    with torch.no_grad():
        logits = [model.network(ids).logits for model in (kept, again)]
    assert torch.equal(*logits)
    sizes = [(path / "model.safetensors").stat().st_size for path in (made, snapshot)]
    assert sizes[0] < sizes[1] / 3
