"""Tiny models: chat formats, training, and the saved files."""

from __future__ import annotations

import json
import logging

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from pisoft.config.models import TrainedModel
from pisoft.datasets.embedded import make_records
from pisoft.demo.models import (
    NO_LABEL,
    _encode,
    _kept_tokens,
    _new_model,
    _pad,
    exact_match,
    train_tiny_model,
)
from pisoft.demo.tokenizers import Dialogue, train_tokenizer
from pisoft.errors import BenchmarkError

pytestmark = pytest.mark.slow

SYSTEM = "Respond ONLY with the single word Positive or Negative."
ARCHITECTURES = ("llama", "mistral")
BEGIN = {"llama": "<|begin_of_text|>", "mistral": "<s>"}
END = {"llama": "<|eot_id|>", "mistral": "</s>"}
CONTEXT = 160
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Text: good"}]
PROMPTS = {
    "llama": (
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nText: good<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    ),
    "mistral": "<s>[INST] Be brief.\n\nText: good[/INST]",
}
ANSWERED = {
    "llama": PROMPTS["llama"] + "Positive<|eot_id|>",
    "mistral": PROMPTS["mistral"] + " Positive</s>",
}


def make_dialogues(count, seed):
    """Dialogues of both tasks."""
    made = []
    for record in make_records("sentiment", count, seed):
        messages = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": f"Text: {record['fields']['text']}"},
        ]
        made.append(Dialogue(messages, record["label"].capitalize(), "sentiment"))
    for record in make_records("why", count, seed):
        content = "{narrative} {question}".format(**record["fields"])
        made.append(Dialogue([{"role": "user", "content": content}], record["answer"], "why"))
    return made


@pytest.fixture(scope="module")
def dialogues():
    return make_dialogues(300, seed=1)


@pytest.fixture(scope="module", params=ARCHITECTURES)
def architecture(request):
    return request.param


@pytest.fixture(scope="module")
def tokenizer(architecture, dialogues):
    return train_tokenizer(dialogues, architecture, 1000)


@pytest.fixture
def model(tokenizer, architecture):
    torch.manual_seed(0)
    return _new_model(tokenizer, source_of(architecture))


def source_of(architecture, **changes):
    """A model too small and too briefly trained to learn anything."""
    small = {
        "hidden_size": 32, "layers": 2, "heads": 4, "key_value_heads": 2, "vocabulary_size": 600,
        "context": CONTEXT, "steps": 3, "batch_size": 4, "learning_rate": 1e-3, "seed": 7,
        "kind": "trained", "datasets": ("demo-sentiment", "demo-why"),
    }  # fmt: skip
    return TrainedModel.model_construct(architecture=architecture, **(small | changes))


def train(directory, architecture, dialogues, **changes):
    """Train such a model."""
    training, held_out = dialogues[:20] + dialogues[-20:], dialogues[20:25]
    train_tiny_model(directory, source_of(architecture, **changes), training, held_out)


def test_chat_template_renders_in_the_style_of_the_family(architecture, tokenizer):
    prompt = tokenizer.apply_chat_template(MESSAGES, tokenize=False, add_generation_prompt=True)
    assert prompt == PROMPTS[architecture]
    answered = [*MESSAGES, {"role": "assistant", "content": "Positive"}]
    assert tokenizer.apply_chat_template(answered, tokenize=False) == ANSWERED[architecture]


def test_prompt_tokens_are_a_prefix_of_the_answered_dialogue(tokenizer, dialogues):
    for dialogue in dialogues[::50]:
        answered = [*dialogue.messages, {"role": "assistant", "content": dialogue.answer}]
        prompt = tokenizer.apply_chat_template(
            dialogue.messages, add_generation_prompt=True, return_dict=False
        )
        whole = tokenizer.apply_chat_template(answered, return_dict=False)
        assert whole[: len(prompt)] == prompt
        assert tokenizer.decode(whole[len(prompt) : -1]).strip() == dialogue.answer


@pytest.mark.parametrize("text", ["Ünseen wörds, 42 of them\n\n  and\ttabs 🙂", "a", " a", "\n"])
def test_any_text_survives_encoding_and_decoding(tokenizer, text):
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == text


def test_special_tokens_match_real_models(architecture, tokenizer):
    for token in tokenizer.all_special_tokens:
        assert len(tokenizer(token, add_special_tokens=False)["input_ids"]) == 1
    assert tokenizer.bos_token == BEGIN[architecture]
    assert tokenizer.pad_token == tokenizer.eos_token == END[architecture]
    assert tokenizer("good")["input_ids"][0] == tokenizer.bos_token_id


def test_each_label_word_is_one_token_at_the_answers_position(tokenizer):
    first = set()
    for word in ("Positive", "Negative"):
        encoded = _encode(Dialogue(MESSAGES, word), tokenizer, CONTEXT)
        answer = encoded.token_ids[encoded.answer_start :]
        assert answer[1:] == [tokenizer.eos_token_id]
        first.add(answer[0])
    assert len(first) == 2


def test_the_vocabulary_has_the_requested_size_and_is_reproducible(architecture, dialogues):
    first, second = (train_tokenizer(dialogues, architecture, 700) for _ in range(2))
    assert len(first) == 700
    assert first.backend_tokenizer.to_str() == second.backend_tokenizer.to_str()


def test_only_user_text_can_be_masked(tokenizer, dialogues):
    for dialogue in dialogues[::50]:
        encoded = _encode(dialogue, tokenizer, CONTEXT)
        pairs = zip(encoded.token_ids, encoded.user_tokens, strict=True)
        users = tokenizer.decode([token for token, from_user in pairs if from_user])
        assert users.strip() == dialogue.messages[-1]["content"]


def test_masking_never_changes_tokens_outside_user_text():
    user_tokens = torch.zeros(200, 30, dtype=torch.bool)
    user_tokens[:, 10:20] = True
    kept = _kept_tokens(user_tokens, torch.Generator().manual_seed(0))
    assert set(kept.unique().tolist()) == {0.0, 1.0}
    assert kept[~user_tokens].eq(1).all()
    # Most dialogues stay whole, so that the task can be learnt.
    assert 0.5 < kept.eq(1).all(dim=1).float().mean() < 0.9


def test_training_labels_are_only_the_answers_next_tokens(tokenizer, dialogues):
    encoded = [_encode(dialogue, tokenizer, CONTEXT) for dialogue in (dialogues[0], dialogues[-1])]
    batch = _pad(encoded, tokenizer.pad_token_id)
    for row, dialogue in enumerate(encoded):
        labelled = batch.labels[row] != NO_LABEL
        assert batch.labels[row][labelled].tolist() == dialogue.token_ids[dialogue.answer_start :]
        assert labelled.nonzero()[0].item() == dialogue.answer_start - 1


def test_exact_match_equals_that_of_greedy_generation(model, tokenizer, dialogues):
    encoded = _encode(dialogues[0], tokenizer, CONTEXT)
    generated = encoded.token_ids[: encoded.answer_start]
    for _ in range(3):
        logits = model(input_ids=torch.tensor([generated])).logits
        generated.append(logits[0, -1].argmax().item())
    user_mask = [False] * len(generated)
    right = type(encoded)(generated, encoded.answer_start, user_mask, "greedy")
    other = [*generated[:-1], (generated[-1] + 1) % len(tokenizer)]
    wrong = type(encoded)(other, encoded.answer_start, user_mask, "changed")
    shares = {"changed": 0.0, "greedy": 1.0}
    assert exact_match(model, [right, wrong], tokenizer) == {"overall": 0.5, "groups": shares}


def test_padding_changes_no_answer(model, tokenizer, dialogues):
    encoded = [_encode(dialogue, tokenizer, CONTEXT) for dialogue in (dialogues[0], dialogues[-1])]
    short = min(encoded, key=lambda dialogue: len(dialogue.token_ids))
    together = model(input_ids=_pad(encoded, tokenizer.pad_token_id).token_ids).logits
    alone = model(input_ids=_pad([short], tokenizer.pad_token_id).token_ids).logits
    row = encoded.index(short)
    torch.testing.assert_close(together[row, : len(short.token_ids)], alone[0])


@pytest.mark.follows("raise its steps, width or learning rate")
def test_low_accuracy_is_an_error_with_both_numbers_and_saves_nothing(
    tmp_path, architecture, dialogues
):
    with pytest.raises(BenchmarkError, match=r"answers 0\.0000 of .* but 0\.9800 is required"):
        train(tmp_path / "models" / "tiny", architecture, dialogues)
    assert list(tmp_path.rglob("*")) == []
    longer = {"steps": 60, "learning_rate": 1e-2, "required_accuracy": 0.3}
    train(tmp_path / "models" / "tiny", architecture, dialogues, **longer)


def test_a_saved_model_loads_like_a_real_one(tmp_path, architecture, dialogues, caplog):
    folder = tmp_path / "models" / "tiny"
    with caplog.at_level(logging.INFO, "pisoft.demo.models"):
        train(folder, architecture, dialogues, required_accuracy=0.0)
    assert [path.name for path in folder.parent.iterdir()] == ["tiny"]
    modes = {file.stat().st_mode for file in folder.iterdir()}
    assert len(modes) == 1, "weights are as readable as the configuration"
    report = json.loads((folder / "training.json").read_text())
    assert report["steps"] == 3
    assert set(report["versions"]) == {"torch", "transformers", "tokenizers"}
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert model.config.model_type == architecture
    assert getattr(model.config, "sliding_window", None) in (None, CONTEXT)
    prompt = tokenizer.apply_chat_template(MESSAGES, tokenize=False, add_generation_prompt=True)
    assert prompt == PROMPTS[architecture]


def test_weights_depend_on_the_seed_and_are_reproducible(tmp_path, architecture, dialogues):
    weights = {}
    for name, seed in (("first", 7), ("second", 7), ("other", 8)):
        torch.manual_seed(len(weights))  # the global state must not matter
        before = torch.random.get_rng_state()
        train(tmp_path / name, architecture, dialogues, seed=seed, required_accuracy=0.0)
        assert torch.equal(torch.random.get_rng_state(), before), "and is left alone"
        weights[name] = (tmp_path / name / "model.safetensors").read_bytes()
    assert weights["first"] == weights["second"]
    assert weights["first"] != weights["other"]


def test_a_dialogue_longer_than_the_context_is_an_error_with_both_lengths(
    tmp_path, architecture, dialogues
):
    with pytest.raises(BenchmarkError, match=r"takes \d+ tokens, more than the context of 20"):
        train(tmp_path / "tiny", architecture, dialogues, context=20)
