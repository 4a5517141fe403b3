"""Training on shuffled labels: answers move within groups, and both models share a start."""

from __future__ import annotations

import argparse
import json
from collections import Counter

import pytest
from safetensors.torch import load_file

import train_model
from pisoft.attribution import load_method
from pisoft.config.jobs.training import TrainJob
from pisoft.config.loading import load_config
from pisoft.config.validation import read_yaml
from pisoft.demo.shuffled import shuffle_answers
from pisoft.demo.tokenizers import Dialogue

RIGHT = {"overall": 1.0, "groups": {}}  # too short a training to learn anything


def dialogues(count=60):
    """Two alternating groups, whose answers differ."""
    return [
        Dialogue([{"role": "user", "content": f"{place}"}], f"{group}{place % 7}", group)
        for place in range(count)
        for group in ("one", "other")
    ]


def test_each_group_keeps_its_questions_and_answer_counts():
    original = dialogues()
    shuffled = shuffle_answers(original, 1)
    answers = [Counter((one.group, one.answer) for one in some) for some in (original, shuffled)]
    assert answers[0] == answers[1]
    assert all(one.answer.startswith(one.group) for one in shuffled)
    pairs = [*zip(shuffled, original, strict=True)]
    assert all((a.messages, a.group) == (b.messages, b.group) for a, b in pairs)
    stayed = sum(after.answer == before.answer for after, before in pairs)
    assert stayed < len(original) / 3  # about one in seven by chance


def test_the_shuffle_depends_on_the_seed_and_not_on_other_groups():
    original = dialogues()
    assert shuffle_answers(original, 1) == shuffle_answers(original, 1)
    assert shuffle_answers(original, 1) != shuffle_answers(original, 2)
    alone = [one for one in original if one.group == "one"]
    among = [one for one in shuffle_answers(original, 1) if one.group == "one"]
    assert shuffle_answers(alone, 1) == among


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["llama", "mistral"])
def test_shuffled_labels_change_weights_but_neither_tokenizer_nor_start(
    architecture, root, tmp_path, monkeypatch
):
    """Prompts and target tokens of both models are equal only if they truncate texts alike."""
    monkeypatch.chdir(root)
    small = {
        "extends": f"demo-{architecture}",
        "source": {"kind": "trained", "architecture": architecture, "steps": 2,
                   "datasets": ["demo-sentiment", "demo-why"],
                   "training_records": 400, "held_out_records": 4},
    }  # fmt: skip
    raw = read_yaml(root / "config/config.yaml") | {
        "models": ["small"], "restrictions": {}, "metric_validation": None, "layer_study": None,
        "sanity_checks": {"labels": True}, "operators": None,
        "catalogue": {"models": {"small": small}},
    }  # fmt: skip
    config = load_config(raw, root / "config/catalogue", "run.yaml", load_method)
    original, shuffled = tmp_path / "original", tmp_path / "shuffled"
    monkeypatch.setattr("pisoft.demo.models.exact_match", lambda *_: RIGHT)
    for folder, variant in {original: "", shuffled: "shuffled-labels"}.items():
        settings = TrainJob.from_config(config, model="small", variant=variant).to_json()
        train_model.main(argparse.Namespace(settings=settings, output_folder=folder))
    for file in ("tokenizer.json", "tokenizer_config.json", "config.json"):
        assert (original / file).read_bytes() == (shuffled / file).read_bytes()
    weights = [load_file(folder / "model.safetensors") for folder in (original, shuffled)]
    assert weights[0].keys() == weights[1].keys()
    assert any((weights[0][name] != weights[1][name]).any() for name in weights[0])
    report = json.loads((shuffled / "training.json").read_text())
    assert report["required_accuracy"] == 0
    assert report["settings"]["shuffled_labels"] is True
