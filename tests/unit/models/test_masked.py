"""Masked models: their proposals, replaceable tokens, and unloadable models."""

from __future__ import annotations

import copy
import json
import shutil

import pytest
import torch
from tokenizers import normalizers
from transformers import RobertaModel

from helpers.loaded_models import local_model
from helpers.quick_cases import one_quick
from helpers.random_masked_models import bert, numbered, roberta
from helpers.random_models import VOCABULARY
from helpers.tiny_tokenizers import (
    LLAMA_SPECIALS,
    llama_tokenizer,
    mistral_tokenizer,
    numbered_tokenizer,
)
from pisoft.errors import BenchmarkError
from pisoft.models.masked import _slots, load_masked_model, replacements, shared_vocabulary
from pisoft.models.tokenizer import load_tokenizer

CPU = torch.device("cpu")
FAMILIES = {"llama": llama_tokenizer, "mistral": mistral_tokenizer}
MESSAGES = [
    {"role": "system", "content": "Respond with the single word Positive or Negative."},
    {"role": "user", "content": "Text: the film was wonderful, \U0001f600 naïve unforgettable."},
]
SPECIALS = {*LLAMA_SPECIALS, "<unk>", "<s>", "</s>", "[INST]", "[/INST]"}
REAL = ("tiny-llama-chat", "tiny-mistral-chat")


@pytest.fixture(scope="module")
def masked():
    return roberta(context=128)


@pytest.fixture(params=FAMILIES)
def tokenizer(request):
    return FAMILIES[request.param]()


def prompt(tokenizer, messages=MESSAGES):
    return tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)


def text_of(tokenizer, ids):
    """The text of tokens in the middle of a text."""
    anchor = tokenizer("x\n", add_special_tokens=False)["input_ids"]
    whole = tokenizer.decode([*anchor, *ids], clean_up_tokenization_spaces=False)
    return whole[len(tokenizer.decode(anchor, clean_up_tokenization_spaces=False)) :]


def check_proposals(tokenizer, ids, candidates, probabilities):
    """Check the invariants of every prompt; return which tokens can be replaced."""
    assert candidates.dtype == torch.int64
    assert probabilities.dtype == torch.float32
    assert candidates.shape == probabilities.shape == (len(ids), candidates.shape[1])
    torch.testing.assert_close(probabilities.sum(dim=1), torch.ones(len(ids)))
    assert (probabilities.diff(dim=1) <= 1e-7).all(), "most probable first"
    special = set(tokenizer.all_special_ids)
    replaced = []
    for token, row in zip(ids, candidates.tolist(), strict=True):
        replaced.append(token not in row)
        if token in row:
            assert set(row) == {token}, "a row is replaced as a whole or not at all"
            continue
        assert len(set(row)) == len(row)
        assert not special & set(row)
        for candidate in row:
            text = text_of(tokenizer, [candidate])
            assert "\ufffd" not in text
            encoded = tokenizer("x\n" + text, add_special_tokens=False)["input_ids"]
            anchor = tokenizer("x\n", add_special_tokens=False)["input_ids"]
            assert encoded == [*anchor, candidate], "one token, as the model itself would read it"
    return replaced


def test_proposals_are_single_different_tokens_that_keep_the_space(masked, tokenizer):
    """Special tokens and parts of characters are not replaced."""
    ids = prompt(tokenizer)
    candidates, probabilities = replacements(masked, tokenizer, ids, 4, 512)
    replaced = check_proposals(tokenizer, ids, candidates, probabilities)
    forms = set()
    for token, was, row, shares in zip(ids, replaced, candidates, probabilities, strict=True):
        special = tokenizer.convert_ids_to_tokens(token) in SPECIALS
        assert was == (not special and "\ufffd" not in text_of(tokenizer, [token]))
        assert was or shares.eq(1 / 4).all()
        spaced = text_of(tokenizer, [token]).startswith(" ")
        assert {text_of(tokenizer, [other]).startswith(" ") for other in row.tolist()} == {spaced}
        forms.add(spaced)
    assert forms == {True, False}


def test_the_other_spacing_is_used_if_pieces_run_out(tokenizer):
    masked = bert()
    shared = shared_vocabulary(masked, tokenizer)
    spaced = int(shared.spaced.sum())
    assert 0 < spaced < len(shared.spaced) - spaced
    ids = shared.tokens[shared.spaced][:1].tolist()
    few, _ = replacements(masked, tokenizer, ids, spaced - 1, 512)
    assert all(text_of(tokenizer, [other]).startswith(" ") for other in few[0].tolist())
    many, probabilities = replacements(masked, tokenizer, ids, spaced, 512)
    assert not all(text_of(tokenizer, [other]).startswith(" ") for other in many[0].tolist())
    assert (probabilities[0] > 0).all()


@pytest.mark.parametrize("make", [roberta, bert])
def test_candidates_equal_a_brute_force_computation(make, tokenizer):
    """One position: mask it in the text by hand, rank all pieces, translate one by one."""
    masked = make(context=128)
    aside = " Anna stayed home because storms had damaged the old station." * 2
    text = f"Text:{aside} the film was wonderful.{aside}"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    texts = [text_of(tokenizer, [token]) for token in ids]
    position = texts.index(" film")
    before, after = "".join(texts[:position]), "".join(texts[position + 1 :])
    shown = masked.tokenizer(f"{before} {masked.tokenizer.mask_token}{after}", return_tensors="pt")
    place = shown["input_ids"][0].tolist().index(masked.tokenizer.mask_token_id)
    logits = masked.network(shown["input_ids"]).logits[0, place].double()
    ranked = {}
    for piece in logits.argsort(descending=True).tolist():
        text = text_of(masked.tokenizer, [piece])
        encoded = tokenizer(f"x\n{text}", add_special_tokens=False)["input_ids"]
        plain = tokenizer("x\n", add_special_tokens=False)["input_ids"]
        single = encoded[:-1] == plain and text_of(tokenizer, encoded[-1:]) == text
        if single and text.startswith(" ") and encoded[-1] != ids[position]:
            ranked[encoded[-1]] = logits[piece].item()
    expected = list(ranked)[:4]
    weights = torch.tensor([ranked[token] for token in expected]).double().softmax(0)
    candidates, probabilities = replacements(masked, tokenizer, ids, 4, 512)
    assert candidates[position].tolist() == expected
    torch.testing.assert_close(probabilities[position].double(), weights, rtol=1e-4, atol=1e-6)


def test_special_tokens_of_the_explained_model_are_hidden(masked, tokenizer):
    ids = tokenizer("Text: the film was wonderful.", add_special_tokens=False)["input_ids"]
    wrapped = [tokenizer.bos_token_id, *ids, tokenizer.eos_token_id]
    bare = replacements(masked, tokenizer, ids, 4, 512)
    inside = replacements(masked, tokenizer, wrapped, 4, 512)
    assert torch.equal(inside[0][1:-1], bare[0])
    torch.testing.assert_close(inside[1][1:-1], bare[1])


@pytest.mark.parametrize("text", ["film", "the <mask> film was dull"])
def test_empty_contexts_and_mask_tokens_in_records_are_supported(masked, tokenizer, text):
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    ids = ids[-1:] if text == "film" else ids
    check_proposals(tokenizer, ids, *replacements(masked, tokenizer, ids, 4, 512))


@pytest.mark.parametrize("budget", [1, 100_000])
def test_results_do_not_depend_on_the_batch_size(masked, tokenizer, budget):
    ids = prompt(tokenizer)
    candidates, probabilities = replacements(masked, tokenizer, ids, 4, 512)
    other = replacements(masked, tokenizer, ids, 4, budget)
    assert torch.equal(candidates, other[0])
    torch.testing.assert_close(probabilities, other[1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("make", [roberta, bert])
def test_long_prompts_are_read_through_windows_around_each_token(make, tokenizer, monkeypatch):
    masked = make(context=32)
    assert masked.context == 32
    sentence = " the film was wonderful, and its dull ending did not hurt at all."
    unit = tokenizer(sentence, add_special_tokens=False)["input_ids"]
    ids = unit * 20
    read = []
    forward = type(masked.network).forward

    def recording(self, input_ids, **options):
        read.append(options["attention_mask"].sum(dim=1))
        return forward(self, input_ids, **options)

    monkeypatch.setattr(type(masked.network), "forward", recording)
    candidates, probabilities = replacements(masked, tokenizer, ids, 4, 4096)
    check_proposals(tokenizer, ids, candidates, probabilities)
    lengths = torch.cat(read)
    assert lengths.eq(32).all(), "windows at the ends reach further to the other side"
    for token in range(8 * len(unit), 9 * len(unit)):
        same = token + 4 * len(unit)  # far from both ends, with the same surroundings
        assert torch.equal(candidates[token], candidates[same])
        torch.testing.assert_close(probabilities[token], probabilities[same], rtol=1e-4, atol=1e-6)


def test_a_window_holds_the_context_of_its_token(tokenizer):
    sentences = [f" the film of {name} was wonderful." for name in "abcdefghijklmnopqrstuvwxyz"]
    ids = tokenizer("".join(sentences), add_special_tokens=False)["input_ids"]
    texts = [text_of(tokenizer, [token]) for token in ids]
    masked = roberta(context=32, vocabulary_size=300)  # splits words that the explained model knows
    slots = _slots(masked, texts, range(len(ids)))
    assert {len(slot.ids) for slot in slots} == {32}
    assert [slot.position for slot in slots] == list(range(len(ids)))
    for slot in slots:
        assert slot.ids[slot.mask] == masked.tokenizer.mask_token_id
        left, right = slot.ids[1 : slot.mask], slot.ids[slot.mask + 1 : -1]
        before, after = (text_of(masked.tokenizer, side) for side in (left, right))
        assert "".join(texts[: slot.position]).endswith(before)
        assert "".join(texts[slot.position + 1 :]).startswith(after)
        assert left or slot.position == 0
        assert right or slot.position == len(ids) - 1


def test_the_common_vocabulary_is_computed_once_per_tokenizer(masked, monkeypatch):
    first = shared_vocabulary(masked, llama_tokenizer())
    assert shared_vocabulary(masked, llama_tokenizer()) is first
    assert shared_vocabulary(masked, mistral_tokenizer()) is not first


def test_shared_pieces_are_read_unchanged_by_the_explained_model(masked):
    """Not one that is lowercased, or that merely looks like the replacement character."""
    tokenizer = copy.deepcopy(llama_tokenizer())
    tokenizer.backend_tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.add_tokens(["\ufffd"])
    shared = shared_vocabulary(masked, tokenizer)
    pairs = zip(shared.pieces.tolist(), shared.tokens.tolist(), strict=True)
    texts = [(text_of(masked.tokenizer, [p]), text_of(tokenizer, [t])) for p, t in pairs]
    assert all(piece == token for piece, token in texts)
    pieces = {piece for piece, _ in texts}
    assert {"t", "a"} <= pieces
    assert not {"T", "A", "\ufffd"} & pieces


@pytest.mark.follows("choose another one")
def test_too_small_an_overlap_of_vocabularies_is_an_error():
    masked, tokenizer = roberta(), numbered_tokenizer(VOCABULARY)
    message = r"0 of the 444 pieces of 'random-roberta' are single tokens of '.*', but at least 10"
    with pytest.raises(BenchmarkError, match=f"masked_model: {message}"):
        replacements(masked, tokenizer, [5, 6], 4, 512)
    masked = numbered(VOCABULARY)
    with pytest.raises(BenchmarkError, match=r"94 of the 94 .* at least 95 are needed"):
        replacements(masked, tokenizer, [5, 6], 94, 512)
    assert replacements(masked, tokenizer, [5, 6], 4, 512)


def test_tokenizers_that_skip_white_space_are_supported():
    tokenizer = numbered_tokenizer(VOCABULARY)
    ids = [1, 5, 6, 7, 2]
    candidates, probabilities = replacements(numbered(VOCABULARY), tokenizer, ids, 93, 512)
    assert candidates[0].eq(1).all()
    for token, row in zip(ids[1:4], candidates[1:4].tolist(), strict=True):
        assert set(row) == set(range(3, VOCABULARY)) - {token}
    torch.testing.assert_close(probabilities.sum(dim=1), torch.ones(5))


# Loading --------------------------------------------------------------------------------------


def test_the_context_is_the_smaller_of_tokenizer_limit_and_positions():
    masked = roberta(context=64)
    for longest in (64, 50, int(1e30)):  # the last means "no limit" in transformers
        masked.tokenizer.model_max_length = longest
        assert masked.context == min(longest, 64), "two of 66 positions are before the first token"
    assert bert(context=40).context == 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("masked")
    masked = roberta()
    masked.network.save_pretrained(folder)
    masked.tokenizer.save_pretrained(folder)
    return folder


CUT = {"direction": "Right", "max_length": 8, "strategy": "LongestFirst", "stride": 0}


@pytest.mark.parametrize("truncation", [None, CUT])
def test_a_loaded_model_proposes_like_the_saved_one(folder, tmp_path, truncation):
    """Even if its tokenizer.json truncates inputs to 8 tokens."""
    shutil.copytree(folder, tmp_path / "saved")
    file = tmp_path / "saved/tokenizer.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"truncation": truncation}))
    tokenizer = llama_tokenizer()
    loaded = load_masked_model(local_model(), file.parent, CPU)
    assert not loaded.network.training
    assert not any(p.requires_grad for p in loaded.network.parameters())
    assert loaded.context == 64
    ids = prompt(tokenizer)
    proposed, expected = (replacements(m, tokenizer, ids, 4, 512) for m in (loaded, roberta()))
    assert all(map(torch.equal, proposed, expected))


def test_settings_choose_its_device_and_dtype(folder):
    meta = torch.device("meta")
    assert load_masked_model(local_model(device="auto"), folder, meta).network.device == meta
    assert load_masked_model(local_model(device="cpu"), folder, meta).network.device == CPU
    half = load_masked_model(local_model(dtype="bfloat16"), folder, CPU)
    assert next(half.network.parameters()).dtype == torch.bfloat16
    ids = prompt(tokenizer := llama_tokenizer())
    check_proposals(tokenizer, ids, *replacements(half, tokenizer, ids, 4, 512))


def emptied(folder):
    shutil.rmtree(folder)
    folder.mkdir()


def pickled(folder):
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")


def headless(folder):
    config = roberta().network.config
    RobertaModel(config, add_pooling_layer=False).save_pretrained(folder)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (shutil.rmtree, "no such folder"),
        (emptied, "cannot be loaded from"),
        (lambda f: (f / "model.safetensors").write_bytes(b"broken"), "cannot be loaded from"),
        (pickled, ".*safetensors"),
        (llama_tokenizer().save_pretrained, "its tokenizer has no mask token"),
        (headless, r"its weights lack lm_head\."),
    ],
)
def test_models_other_than_masked_ones_are_refused(folder, tmp_path, damage, message):
    shutil.copytree(folder, tmp_path / "damaged")
    damage(tmp_path / "damaged")
    with pytest.raises(BenchmarkError, match=f"model 'toy': {message}"):
        load_masked_model(local_model(), tmp_path / "damaged", CPU)


# Real models ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real_masked(shared):
    return load_masked_model(local_model(name="mlm"), shared / "models/tiny-roberta-mlm", CPU)


@pytest.mark.parametrize("name", one_quick(REAL))
def test_every_ordinary_token_of_real_models_gets_proposals(real_masked, shared, name):
    tokenizer = load_tokenizer(local_model(name=name), shared / "models" / name)
    ids = prompt(tokenizer)
    replaced = check_proposals(tokenizer, ids, *replacements(real_masked, tokenizer, ids, 10, 2048))
    assert sum(replaced) > 0.7 * len(ids)
