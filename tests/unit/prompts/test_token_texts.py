"""What tokens say to a reader: their texts add up to the text, and stray bytes differ."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.tiny_tokenizers import gpt2_tokenizer, llama_tokenizer, mistral_tokenizer
from pisoft.prompts.token_texts import NOT_UTF8, token_texts

BYTE_LEVEL = {"llama": llama_tokenizer, "gpt2": gpt2_tokenizer}
ALL = {**BYTE_LEVEL, "mistral": mistral_tokenizer}
ANY = st.text(alphabet="abc ABC.,'\"\n\t<>&éß🙂שע\u0301", min_size=1, max_size=30)
STRAY = re.compile(rb"<0x([0-9A-F]{2})>|\\x([0-9a-f]{2})")  # no text of these tests looks like it


@pytest.fixture(params=ALL, scope="module")
def tokenizer(request):
    return ALL[request.param]()


@pytest.fixture(params=BYTE_LEVEL, scope="module")
def byte_level(request):
    return BYTE_LEVEL[request.param]()


def joined(texts):
    return "".join(texts).encode()


def encode(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False)


def test_a_leading_space_belongs_to_its_token(tokenizer):
    ids = encode(tokenizer, "the film was wonderful")
    texts = token_texts(tokenizer, ids)
    assert "".join(texts).lstrip() == "the film was wonderful"
    assert {" film", " was"} <= set(texts)


def test_a_token_says_the_same_wherever_it_stands(tokenizer):
    (film,) = set(encode(tokenizer, "a film")) - set(encode(tokenizer, "a"))
    assert token_texts(tokenizer, [film]) == [" film"]
    assert token_texts(tokenizer, [film, film]) == [" film", " film"]


@given(text=ANY)
def test_the_texts_add_up_to_the_bytes_of_the_text(tokenizer, text):
    ids = encode(tokenizer, text)
    texts = token_texts(tokenizer, ids)
    assert len(texts) == len(ids)
    said = STRAY.sub(lambda found: bytes.fromhex(found[found.lastindex].decode()), joined(texts))
    assert said in (text.encode(), b" " + text.encode())  # SentencePiece adds it


def test_no_tokens_have_no_texts(tokenizer):
    assert token_texts(tokenizer, []) == []


def test_parts_of_a_character_are_written_as_bytes(byte_level):
    ids = encode(byte_level, "🙂")
    texts = token_texts(byte_level, ids)
    assert len(ids) > 1
    assert "".join(texts) == r"\xf0\x9f\x99\x82"


def test_a_whole_character_beside_stray_bytes_is_kept(byte_level):
    ids = [*encode(byte_level, " "), *encode(byte_level, "é")]
    assert token_texts(byte_level, ids) == [" ", r"\xc3", r"\xa9"]


def test_byte_pieces_are_written_as_their_vocabulary_does():
    tokenizer = mistral_tokenizer()
    ids = encode(tokenizer, "🙂")
    assert token_texts(tokenizer, ids)[-4:] == ["<0xF0>", "<0x9F>", "<0x99>", "<0x82>"]


def test_a_byte_piece_of_a_whole_character_is_that_character():
    tokenizer = mistral_tokenizer()
    newline = tokenizer.convert_tokens_to_ids("<0x0A>")
    assert token_texts(tokenizer, [newline]) == ["\n"]


def test_special_tokens_are_named(tokenizer):
    specials = {
        tokenizer.eos_token_id: tokenizer.eos_token,
        tokenizer.bos_token_id: tokenizer.bos_token,
    }
    assert token_texts(tokenizer, list(specials)) == list(specials.values())


def test_a_replacement_character_of_the_record_is_told_apart_from_a_stray_byte(byte_level):
    texts = token_texts(byte_level, encode(byte_level, NOT_UTF8))
    assert "".join(texts) == r"\xef\xbf\xbd"
