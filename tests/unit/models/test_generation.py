"""Greedy generation and label targets."""

import pytest
import torch

from helpers.random_models import SHAPES, model_and_network
from pisoft.models import generation
from pisoft.models.generation import (
    answer_counterfactuals,
    answers_of_block,
    classify,
    continue_greedily,
)

PROMPTS = [
    {"sample_id": "a", "input_ids": [1, 5, 6, 7, 8, 9, 30], "label": "Yes"},
    {"sample_id": "b", "input_ids": [1, 44, 3], "label": None},
    {"sample_id": "c", "input_ids": [1, 70, 71, 72, 73], "label": "No"},
]
WORDS = {"label_words": ["Yes", "No"], "label_token_ids": [50, 60]}


def greedy(plain, ids, count, stop=2):
    """Decode one token at a time, without cache, padding or batch."""
    output = []
    for _ in range(count):
        token = int(plain(torch.tensor([[*ids, *output]])).logits[0, -1].argmax())
        if token == stop:
            break
        output.append(token)
    return output


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("words", [{50: "Yes", 60: "No"}, {50: "Yes", 60: "No", 51: "Yes"}])
def test_the_target_is_the_best_spelling_of_the_preferred_label_word(shape, words):
    model, plain = model_and_network(shape)
    labels = {"label_words": [*words.values()], "label_token_ids": [*words]}
    prompts = [prompt | labels for prompt in PROMPTS]
    rows = {row["sample_id"]: row for row in classify(model, prompts, 16)}
    for prompt in prompts:
        logits = plain(torch.tensor([prompt["input_ids"]])).logits[0, -1]
        best, *others = sorted(words, key=lambda token: logits[token], reverse=True)
        other = next(token for token in others if words[token] != words[best])
        row = rows[prompt["sample_id"]]
        assert row["predicted_label"] == row["output_text"] == words[best]
        assert row["target_ids"] == row["output_ids"] == [best]
        assert row["steps"] == [0]
        correct = None if prompt["label"] is None else words[best] == prompt["label"]
        assert row["correct"] == correct
        assert row["runner_up_ids"] == [other], "from the other word, not another spelling"
        assert row["margins"] == pytest.approx([(logits[best] - logits[other]).item()], rel=1e-5)
        assert row["greedy_token_id"] == int(logits.argmax())
        assert row["greedy_is_label"] == (int(logits.argmax()) in words)


@pytest.mark.parametrize("shape", SHAPES)
def test_continuations_equal_plain_greedy_decoding(shape):
    model, plain = model_and_network(shape)
    rows = {row["sample_id"]: row for row in continue_greedily(model, PROMPTS, 1000, 9, 4)}
    for prompt in PROMPTS:
        row = rows[prompt["sample_id"]]
        assert row["output_ids"] == greedy(plain, prompt["input_ids"], 9)
        assert row["steps"] == list(range(0, len(row["output_ids"]), 4))
        assert row["target_ids"] == row["output_ids"][::4]
        for step, other, margin in zip(
            row["steps"], row["runner_up_ids"], row["margins"], strict=True
        ):
            read = [*prompt["input_ids"], *row["output_ids"][:step]]
            (first, second), best = plain(torch.tensor([read])).logits[0, -1].topk(2)
            assert best.tolist() == [row["output_ids"][step], other]
            assert margin == pytest.approx((first - second).item(), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(
    "stored",
    [
        {"repetition_penalty": 1.3},
        {"no_repeat_ngram_size": 2, "suppress_tokens": [5], "min_new_tokens": 9},
        {"do_sample": True, "temperature": 0.6, "num_beams": 3, "num_return_sequences": 2},
        {"return_dict_in_generate": True, "stop_strings": ["a"]},
        {"eos_token_id": [-1, 2, 97]},
    ],
)
def test_stored_generation_settings_change_no_answer(stored):
    """Regression: Qwen 2.5 stores a repetition penalty, so its answers were not greedy."""
    model, plain = model_and_network("llama-gqa")
    model.network.generation_config.update(**stored)
    rows = continue_greedily(model, PROMPTS, 1000, 9, 4)
    outputs = {row["sample_id"]: row["output_ids"] for row in rows}
    assert outputs == {one["sample_id"]: greedy(plain, one["input_ids"], 9) for one in PROMPTS}
    kept = model.network.generation_config.to_dict()
    assert stored.items() <= kept.items(), "a model that is saved keeps them"


@pytest.mark.parametrize("place", [0, 3])
def test_the_end_token_is_not_part_of_the_output_which_may_be_empty(place):
    model, plain = model_and_network("llama-gqa")
    output = greedy(plain, PROMPTS[0]["input_ids"], 9, stop=None)
    model.network.generation_config.eos_token_id = output[place]
    (row,) = continue_greedily(model, PROMPTS[:1], 1000, 9, 2)
    assert row["output_ids"] == output[: output.index(output[place])]
    if not row["output_ids"]:
        assert row["status"] == "empty_generation"
        assert row["steps"] == row["target_ids"] == row["margins"] == []


@pytest.mark.follows("shorten prompts by the option prompts.max_tokens")
def test_the_token_budget_is_recorded_and_an_oversized_prompt_fails(monkeypatch, caplog):
    model, _ = model_and_network("llama-gqa")
    prompts = [prompt | WORDS for prompt in PROMPTS]
    original = generation._next_token_logits

    def short_of_memory(model, given, *rest):
        if len(given) * max(map(len, given)) > 6:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return original(model, given, *rest)

    monkeypatch.setattr(generation, "_next_token_logits", short_of_memory)
    budgets = []
    first, *shorter = classify(model, prompts, 21, budgets.append)
    assert budgets == [21, 10, 7, 7, 7], "the lowered budget stays"
    assert first == generation.empty_row(prompts[0], "too_long_for_memory")
    assert {row["status"] for row in shorter} == {"ok"}
    (warning,) = [message for message in caplog.messages if "do not fit" in message]
    assert warning.startswith("model 'llama-gqa': sample a: 7 tokens do not fit into memory")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("task", ["classification", "generation"])
def test_nonfinite_weights_fail_every_sample(task, value):
    """Regression: such samples were ok and counted in the accuracy."""
    model, _ = model_and_network("llama-gqa")
    with torch.no_grad():
        model.network.model.layers[1].mlp.down_proj.weight[0, 0] = value
    prompts = [prompt | WORDS for prompt in PROMPTS]
    if task == "classification":
        rows = list(classify(model, prompts, 100))
    else:
        rows = list(continue_greedily(model, prompts, 100, 5, 2))
    assert {row["status"] for row in rows} == {"nonfinite_logits"}
    assert all(row["steps"] == row["output_ids"] == [] for row in rows)
    assert {row["correct"] for row in rows} == {None}


def test_counterfactuals_are_answered_by_the_model_itself():
    model, plain = model_and_network("llama-gqa")
    changed = [[1, 8, 9, 30], [1, 5, 6, 7, 70, 71]]
    asked = [None, changed, changed[:1]]
    block = [
        {**prompt, **WORDS, "status": "ok" if index < 2 else "prompt_too_long"}
        | {"counterfactuals": ids and [{"input_ids": one} for one in ids]}
        for index, (prompt, ids) in enumerate(zip(PROMPTS, asked, strict=True))
    ]

    def answer(prompts):
        return classify(model, prompts, 16)

    rows = answers_of_block(block, answer)
    answer_counterfactuals(block, rows, answer)
    logits = [plain(torch.tensor([ids])).logits[0, -1] for ids in changed]
    words = ["Yes" if one[50] > one[60] else "No" for one in logits]
    assert [row["counterfactual_labels"] for row in rows] == [None, words, [None]]
