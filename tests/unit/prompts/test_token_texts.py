"""Displayed texts of tokens: they add up to the text, and stray bytes are marked."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.tiny_tokenizers import gpt2_tokenizer, llama_tokenizer, mistral_tokenizer
from pisoft.prompts.token_texts import NOT_UTF8, token_texts

ALL = {"llama": llama_tokenizer, "gpt2": gpt2_tokenizer, "mistral": mistral_tokenizer}
ANY = st.text(alphabet="abc ABC.,'\"\n\t<>&éß🙂שע\u0301", min_size=1, max_size=30)
STRAY = re.compile(rb"<0x([0-9A-F]{2})>|\\x([0-9a-f]{2})")  # no text of these tests looks like it


@pytest.fixture(params=ALL, scope="module")
def tokenizer(request):
    return ALL[request.param]()


def encode(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False)


@given(text=ANY)
def test_the_texts_add_up_to_the_bytes_of_the_text(tokenizer, text):
    ids = encode(tokenizer, text)
    texts = token_texts(tokenizer, ids)
    assert len(texts) == len(ids)
    whole = STRAY.sub(
        lambda match: bytes.fromhex(match[match.lastindex].decode()), "".join(texts).encode()
    )
    assert whole in (text.encode(), b" " + text.encode())  # SentencePiece adds it


def test_a_leading_space_belongs_to_its_token_at_any_position(tokenizer):
    texts = token_texts(tokenizer, encode(tokenizer, "the film was wonderful"))
    assert {" film", " was"} <= set(texts)
    (film,) = set(encode(tokenizer, "a film")) - set(encode(tokenizer, "a"))
    assert token_texts(tokenizer, [film, film]) == [" film", " film"]


@pytest.mark.parametrize("name", ["llama", "gpt2"])
@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (["🙂"], r"\xf0\x9f\x99\x82"),
        ([" ", "é"], r" \xc3\xa9"),
        ([NOT_UTF8], r"\xef\xbf\xbd"),  # of the record, unlike a stray byte
    ],
)
def test_partial_characters_are_written_as_bytes(name, parts, expected):
    tokenizer = ALL[name]()
    ids = [token for part in parts for token in encode(tokenizer, part)]
    assert "".join(token_texts(tokenizer, ids)) == expected


def test_byte_pieces_keep_their_form_unless_they_are_characters():
    tokenizer = mistral_tokenizer()
    texts = token_texts(tokenizer, encode(tokenizer, "🙂"))
    assert texts[-4:] == ["<0xF0>", "<0x9F>", "<0x99>", "<0x82>"]
    newline = tokenizer.convert_tokens_to_ids("<0x0A>")
    assert token_texts(tokenizer, [newline]) == ["\n"]


def test_special_tokens_are_named_and_empty_inputs_have_no_texts(tokenizer):
    names = [tokenizer.eos_token, tokenizer.bos_token]
    assert token_texts(tokenizer, tokenizer.convert_tokens_to_ids(names)) == names
    assert token_texts(tokenizer, []) == []
