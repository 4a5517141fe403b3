"""The demonstration's masked model predicts token frequencies and ignores its input."""

from __future__ import annotations

import json
import math
from collections import Counter

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from pisoft.config.models import UnigramMaskedModel
from pisoft.datasets.embedded import make_records
from pisoft.demo.masked_models import make_masked_model, train_masked_tokenizer

CONTEXT = 160
SOURCE = UnigramMaskedModel(
    kind="unigram", datasets=("demo-sentiment",), vocabulary_size=600, context=CONTEXT
)
TEXTS = [
    text for record in make_records("sentiment", 200, seed=5) for text in record["fields"].values()
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    make_masked_model(folder, SOURCE, TEXTS, {"a": 1})
    return folder


def test_a_saved_model_predicts_the_frequencies_of_the_texts_at_every_mask(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model, loading = AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
    assert not loading["missing_keys"]
    counts = Counter()
    for text in TEXTS:
        counts.update(tokenizer(text, add_special_tokens=False)["input_ids"])
    total = sum(counts.values()) + len(tokenizer)
    expected = [math.log((counts[token] + 1) / total) for token in range(len(tokenizer))]
    for text in ("A <mask> film", "<mask> <mask>"):
        logits = model(**tokenizer(text, return_tensors="pt")).logits
        for row in logits[0].log_softmax(-1).tolist():
            assert row == pytest.approx(expected, abs=1e-5)


def test_texts_are_read_up_to_the_context(folder):
    model = AutoModelForMaskedLM.from_pretrained(folder)
    assert AutoTokenizer.from_pretrained(folder).model_max_length == CONTEXT
    assert torch.isfinite(model(torch.full((1, CONTEXT), 4)).logits).all()


def test_the_report_names_settings_and_versions(folder):
    report = json.loads((folder / "training.json").read_text())
    assert report["settings"] == {"a": 1}
    assert report["versions"]["torch"] == torch.__version__


def test_equal_texts_give_equal_weights(folder, tmp_path):
    make_masked_model(tmp_path / "b", SOURCE, TEXTS, {})
    weights = [path / "model.safetensors" for path in (folder, tmp_path / "b")]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_the_tokenizer_is_laid_out_like_robertas():
    tokenizer = train_masked_tokenizer(TEXTS, 600, CONTEXT)
    ids = tokenizer("the film")["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids[:1] + ids[-1:]) == ["<s>", "</s>"]
    assert tokenizer.convert_tokens_to_ids(["<s>", "<pad>", "</s>", "<unk>"]) == [0, 1, 2, 3]
    # The mask takes the space before it.
    assert tokenizer("the <mask> was")["input_ids"] == tokenizer("the<mask> was")["input_ids"]
