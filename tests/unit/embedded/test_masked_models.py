"""The tiny masked model: what it is trained on, and what a training run leaves behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from pisoft.attribution import load_method
from pisoft.config.loading import load_config
from pisoft.config.slices import TrainMaskedSlice
from pisoft.config.validation import read_yaml
from pisoft.embedded.masked_models import (
    MASKED_SHARE,
    NO_LABEL,
    Prompt,
    _encode,
    _masked_logits,
    _new_model,
    cut_before_records,
    held_out_accuracy,
    mask_batch,
    most_frequent_accuracy,
    train_masked_tokenizer,
    train_tiny_masked_model,
)
from pisoft.errors import BenchmarkError
from train_masked_model import HELD_OUT_SEED, TRAINING_SEED, prompt, prompts

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
CONTEXT = 160


@pytest.fixture(scope="module")
def settings():
    raw = read_yaml(ROOT / "config/config.yaml")
    config = load_config(raw, ROOT / "config/catalogue", "config/config.yaml", load_method)
    return TrainMaskedSlice.of(config, masked_model="demo-masked")


@pytest.fixture(scope="module")
def training(settings):
    return prompts(settings.tasks, 300, TRAINING_SEED)


@pytest.fixture(scope="module")
def held_out(settings):
    return prompts(settings.tasks, 20, HELD_OUT_SEED)


@pytest.fixture(scope="module")
def tokenizer(training):
    return train_masked_tokenizer([p.text for p in training], 900, CONTEXT)


@pytest.fixture(scope="module")
def encoded(training, tokenizer):
    return _encode(training, tokenizer)


def train(folder, training, held_out, **changes):
    """Train a model far too small and too short to learn anything."""
    settings = {
        "hidden_size": 32, "layers": 1, "heads": 2, "vocabulary_size": 600, "context": 200,
        "steps": 3, "batch_size": 4, "learning_rate": 1e-3, "required_accuracy": 0.0, "seed": 7,
    }  # fmt: skip
    return train_tiny_masked_model(
        folder, training=training[:40], held_out=held_out[:5], **(settings | changes)
    )


def test_prompts_are_what_a_chat_template_leaves_without_its_special_tokens(settings):
    sentiment, why = settings.tasks
    fields = {"text": "A good film."}
    bare, with_roles = (prompt(sentiment, fields, with_roles=roles) for roles in (False, True))
    assert bare.text.endswith("\n\nText: A good film.")
    assert with_roles.text == f"system\n\n{bare.text}assistant\n\n".replace(
        "\n\nText", "user\n\nText"
    )
    fields = {"narrative": "Anna left.", "question": "Why did Anna leave?"}
    assert prompt(why, fields, with_roles=False).text == "Anna left. Why did Anna leave?"


def test_the_record_is_found_in_its_prompt(training, encoded, tokenizer):
    for text, ids in ((training[i], encoded[i]) for i in (0, 1, 300, 301)):
        words = " ".join(text.text[start:end] for start, end in text.record)
        assert tokenizer.decode(ids.record_ids).strip() == words


def test_no_record_is_both_trained_on_and_held_out(training, held_out):
    assert not {p.text for p in training} & {p.text for p in held_out}


def test_cutting_keeps_the_record_whole_and_shows_it_at_many_places(training):
    cut = cut_before_records(training[:300], seed=1)
    for before, after in zip(training, cut, strict=False):
        assert before.text.endswith(after.text)
        words = [[p.text[start:end] for start, end in p.record] for p in (before, after)]
        assert words[0] == words[1]
    assert len({p.record[0][0] for p in cut}) > 100
    assert cut == cut_before_records(training[:300], seed=1)


def test_only_tokens_of_records_are_masked_and_about_as_many_as_said(encoded, tokenizer):
    batch = mask_batch(encoded[:200], tokenizer, torch.Generator().manual_seed(0))
    masked = batch.labels != NO_LABEL
    assert batch.token_ids[masked].eq(tokenizer.mask_token_id).all()
    assert not batch.token_ids[~masked].eq(tokenizer.mask_token_id).any()
    assert batch.attention_mask.sum().item() == sum(len(p.token_ids) for p in encoded[:200])
    for row, text in enumerate(encoded[:200]):
        whole = torch.where(masked[row], batch.labels[row], batch.token_ids[row])
        assert whole[: len(text.token_ids)].tolist() == text.token_ids
        assert not masked[row, : len(text.token_ids)][~torch.tensor(text.of_record)].any()
    share = masked.sum().item() / sum(len(p.record_ids) for p in encoded[:200])
    assert abs(share - MASKED_SHARE) < 0.02


def test_logits_at_masks_are_those_of_the_whole_model(encoded, tokenizer):
    torch.manual_seed(0)
    model = _new_model(tokenizer, 32, 2, 2).eval()
    batch = mask_batch(encoded[298:302], tokenizer, torch.Generator().manual_seed(0))
    whole = model(batch.token_ids, attention_mask=batch.attention_mask).logits
    torch.testing.assert_close(_masked_logits(model, batch), whole[batch.labels != NO_LABEL])


def test_the_baseline_counts_the_most_frequent_token(encoded):
    ids = [token for p in encoded for token in p.record_ids]
    frequent = max(set(ids), key=ids.count)
    assert most_frequent_accuracy(encoded, encoded) == ids.count(frequent) / len(ids)


def test_accuracy_is_the_same_at_every_call_and_that_of_a_model_that_cannot_know_is_low(
    encoded, tokenizer
):
    torch.manual_seed(0)
    model = _new_model(tokenizer, 32, 1, 2)
    first, second = (held_out_accuracy(model, encoded[:100], tokenizer) for _ in range(2))
    assert first == second < 0.2


def test_the_tokenizer_is_laid_out_like_roberta_s(tokenizer):
    ids = tokenizer("the film")["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids[:1] + ids[-1:]) == ["<s>", "</s>"]
    assert tokenizer.convert_tokens_to_ids(["<s>", "<pad>", "</s>", "<unk>"]) == [0, 1, 2, 3]
    # The mask takes the space before it.
    assert tokenizer("the <mask> was")["input_ids"] == tokenizer("the<mask> was")["input_ids"]


def repetitions(numbers):
    """Prompts of sentences that say the same word several times: what a mask hides is known."""
    words = ("film", "novel", "album", "play")
    texts = [f"Text: {words[n // 2 % 4]}" + f" {words[n // 2 % 4]}" * (3 + n % 5) for n in numbers]
    return [Prompt(text, ((6, len(text)),)) for text in texts]


def test_training_learns_what_the_text_around_a_mask_says(tmp_path):
    report = train_tiny_masked_model(
        tmp_path / "tiny",
        training=repetitions(range(0, 400, 2)), held_out=repetitions(range(1, 60, 2)),
        hidden_size=48, layers=2, heads=2, vocabulary_size=400, context=CONTEXT, steps=80,
        batch_size=16, learning_rate=5e-3, required_accuracy=0.6, seed=1,
    )  # fmt: skip
    assert report["most_frequent_token_accuracy"] < 0.4


def test_too_low_accuracy_is_an_error_with_all_numbers_and_leaves_nothing(
    tmp_path, training, held_out
):
    with pytest.raises(BenchmarkError, match=r"ranks 0\.\d+ .* but 0\.9000 is required .*: 0\.\d+"):
        train(tmp_path / "models" / "tiny", training, held_out, required_accuracy=0.9)
    assert list(tmp_path.rglob("*")) == []


def test_a_saved_model_is_complete_and_loads_like_a_real_one(tmp_path, training, held_out):
    folder = tmp_path / "models" / "tiny"
    report = train(folder, training, held_out)
    assert [path.name for path in folder.parent.iterdir()] == ["tiny"]
    assert json.loads((folder / "training.json").read_text()) == report
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model, loading = AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
    assert not loading["missing_keys"]
    assert tokenizer.model_max_length == 200
    assert model.config.max_position_embeddings == 202
    longest = torch.full((1, 200), tokenizer.mask_token_id)
    assert model(longest).logits.shape == (1, 200, len(tokenizer))


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(tmp_path, training, held_out):
    weights = {}
    for name, seed in (("first", 7), ("second", 7), ("other", 8)):
        torch.manual_seed(len(weights))  # the state around it must not matter
        before = torch.random.get_rng_state()
        train(tmp_path / name, training, held_out, seed=seed)
        assert torch.equal(torch.random.get_rng_state(), before)
        weights[name] = (tmp_path / name / "model.safetensors").read_bytes()
    assert weights["first"] == weights["second"]
    assert weights["first"] != weights["other"]


def test_a_prompt_longer_than_the_context_is_an_error_with_both_lengths(
    tmp_path, training, held_out
):
    with pytest.raises(BenchmarkError, match=r"takes \d+ tokens, more than .* context of 20"):
        train(tmp_path / "tiny", training, held_out, context=20)
