"""Loading tokenizers from folders, and the context that a configuration states."""

import json

import pytest

from helpers.loaded_models import local_model
from helpers.tiny_tokenizers import llama_tokenizer
from pisoft.errors import BenchmarkError
from pisoft.models.tokenizer import load_tokenizer, model_context


def write_model(folder, tokenizer, **config):
    tokenizer.save_pretrained(folder)
    values = {"model_type": "llama", "max_position_embeddings": 77, "vocab_size": 800} | config
    (folder / "config.json").write_text(json.dumps(values))


def test_a_local_folder_is_read_without_the_hub(tmp_path):
    write_model(tmp_path / "m", llama_tokenizer())
    tokenizer = load_tokenizer(local_model(), tmp_path / "m")
    assert tokenizer.encode("good film") == llama_tokenizer().encode("good film")
    assert tokenizer.chat_template == llama_tokenizer().chat_template
    assert model_context(local_model(), tmp_path / "m") == 77


def test_a_model_without_a_stated_context_has_none(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "mamba"}')
    assert model_context(local_model(), tmp_path) is None


def test_a_missing_folder_is_named(tmp_path):
    for load in (load_tokenizer, model_context):
        with pytest.raises(BenchmarkError, match=r"model 'toy': no such folder: .*nowhere"):
            load(local_model(), tmp_path / "nowhere")


@pytest.mark.parametrize("content", [None, "{", "{}"])
def test_a_folder_without_a_usable_tokenizer_gives_one_clear_error(content, tmp_path):
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content)
        (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(BenchmarkError, match="model 'toy': ") as error:
        load_tokenizer(local_model(), tmp_path)
    assert str(tmp_path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["tiny-llama-chat", "tiny-mistral-chat", "stories-260k"])
def test_real_tokenizers_load(name, shared):
    folder = shared / "models" / name
    assert load_tokenizer(local_model(), folder).is_fast
    assert model_context(local_model(), folder) == (512 if name == "stories-260k" else 1024)
