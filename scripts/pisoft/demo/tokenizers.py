"""The tiny models' tokenizers and chat templates, in the style of Llama-3's and Mistral's.

They share the pitfalls of the real ones: the padding token *is* the end-of-turn token, and
tokenising plain text prepends a begin-of-text token that rendered chat templates already contain.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerFast

# A token is a word with the space before it, a run of line ends, or other white space: text next
# to a special token is cut the same way whether or not more text follows.
TOKEN_BOUNDARIES = r" ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s*[\r\n]+|\s+"

LLAMA_TEMPLATE = """\
{{- bos_token -}}
{%- for message in messages -%}
{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' -}}
{{- message['content'] | trim + '<|eot_id|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
{%- endif -%}
"""
MISTRAL_TEMPLATE = """\
{{- bos_token -}}
{%- set pending = namespace(system='') -%}
{%- for message in messages -%}
{%- if message['role'] == 'system' -%}
{%- set pending.system = message['content'] | trim + '\\n\\n' -%}
{%- elif message['role'] == 'user' -%}
{{- '[INST] ' + pending.system + message['content'] | trim + '[/INST]' -}}
{%- set pending.system = '' -%}
{%- elif message['role'] == 'assistant' -%}
{{- ' ' + message['content'] | trim + eos_token -}}
{%- else -%}
{{- raise_exception('unknown role: ' + message['role']) -}}
{%- endif -%}
{%- endfor -%}
"""
# What sets the chat format of a model family apart.
STYLES: dict[str, dict[str, Any]] = {
    "llama": {
        "bos_token": "<|begin_of_text|>",
        "eos_token": "<|eot_id|>",
        "additional_special_tokens": ["<|start_header_id|>", "<|end_header_id|>"],
        "chat_template": LLAMA_TEMPLATE,
    },
    "mistral": {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "additional_special_tokens": ["[INST]", "[/INST]"],
        "chat_template": MISTRAL_TEMPLATE,
    },
}


@dataclass(frozen=True)
class Dialogue:
    """One training conversation: the messages and the turn to produce."""

    messages: list[dict[str, str]]
    answer: str
    group: str = "all"


def train_tokenizer(
    dialogues: Sequence[Dialogue], architecture: str, vocabulary_size: int
) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer with the chat template of `llama` or `mistral`.

    The padding token is the end-of-turn token.
    """
    style = STYLES[architecture]
    begin, end = style["bos_token"], style["eos_token"]
    specials = [begin, end, *style["additional_special_tokens"]]
    options = {**style, "pad_token": end, "clean_up_tokenization_spaces": False}
    untrained = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(BPE()), **options)
    boundaries = re.compile("|".join(map(re.escape, specials)))
    rendered = (render(dialogue, untrained) for dialogue in dialogues)
    texts = [text for whole in rendered for text in boundaries.split(whole) if text]
    backend = train_backend(texts, vocabulary_size, specials, f"{begin} $A")
    return PreTrainedTokenizerFast(tokenizer_object=backend, **options)


def render(dialogue: Dialogue, tokenizer: PreTrainedTokenizerFast) -> str:
    """Return the dialogue as text, answer included."""
    answered = [*dialogue.messages, {"role": "assistant", "content": dialogue.answer}]
    return tokenizer.apply_chat_template(answered, tokenize=False)


def train_backend(
    texts: Iterable[str],
    vocabulary_size: int,
    special_tokens: Sequence[str | AddedToken],
    frame: str,
) -> Tokenizer:
    """Train a byte-level BPE tokenizer.

    Args:
        vocabulary_size: special tokens, which get the first ids, the 256 bytes, and the merges.
        frame: template around a text, such as `<s> $A`.
    """
    backend = Tokenizer(BPE())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(TOKEN_BOUNDARIES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=vocabulary_size,
        special_tokens=list(special_tokens),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    added = [token for token in frame.split() if token != "$A"]
    backend.post_processor = processors.TemplateProcessing(
        single=frame, special_tokens=[(token, backend.token_to_id(token)) for token in added]
    )
    return backend
