"""The tiny models' tokenizers and chat templates, in the style of Llama-3's and Mistral's.

The traps of the real ones are included: the padding token *is* the end-of-turn token, and calling
the tokenizer on plain text prepends the begin-of-text token that a rendered chat template already
holds.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from tokenizers import Tokenizer, processors
from transformers import (
    PreTrainedTokenizerFast,
)

from pisoft.demo.training import (
    byte_level_backend,
    train_backend,
)
from pisoft.errors import BenchmarkError

Architecture = Literal["llama", "mistral"]


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


@dataclass(frozen=True)
class Dialogue:
    """One training conversation: the messages the model reads and the turn it has to produce."""

    messages: list[dict[str, str]]
    answer: str
    group: str = "all"


@dataclass(frozen=True)
class TemplateStyle:
    """What sets the chat format of one model family apart."""

    chat_template: str
    begin_token: str
    end_token: str
    other_special_tokens: tuple[str, ...]


STYLES: dict[str, TemplateStyle] = {
    "llama": TemplateStyle(
        chat_template=LLAMA_TEMPLATE,
        begin_token="<|begin_of_text|>",
        end_token="<|eot_id|>",
        other_special_tokens=("<|start_header_id|>", "<|end_header_id|>"),
    ),
    "mistral": TemplateStyle(
        chat_template=MISTRAL_TEMPLATE,
        begin_token="<s>",
        end_token="</s>",
        other_special_tokens=("[INST]", "[/INST]"),
    ),
}


def train_tokenizer(
    dialogues: Sequence[Dialogue], architecture: Architecture, vocabulary_size: int
) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer with the chat template of a model family.

    The vocabulary holds the 256 bytes, the special tokens and the merges learnt from the dialogues;
    the padding token is the end-of-turn token.

    Raises:
        BenchmarkError: the architecture is unknown.
    """
    style = _style(architecture)
    backend = byte_level_backend()
    texts = list(_plain_texts(dialogues, _with_template(backend, style)))
    specials = [style.begin_token, style.end_token, *style.other_special_tokens]
    train_backend(backend, texts, vocabulary_size, specials)
    backend.post_processor = processors.TemplateProcessing(
        single=f"{style.begin_token} $A",
        special_tokens=[(style.begin_token, backend.token_to_id(style.begin_token))],
    )
    return _with_template(backend, style)


def _style(architecture: str) -> TemplateStyle:
    """The chat format of an architecture."""
    if architecture not in STYLES:
        raise BenchmarkError(
            f"unknown architecture {architecture!r}; choose one of: {', '.join(STYLES)}"
        )
    return STYLES[architecture]


def _with_template(tokenizer: Tokenizer, style: TemplateStyle) -> PreTrainedTokenizerFast:
    """A tokenizer as transformers uses it, with special tokens and chat template."""
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=style.begin_token,
        eos_token=style.end_token,
        pad_token=style.end_token,
        additional_special_tokens=list(style.other_special_tokens),
        chat_template=style.chat_template,
        clean_up_tokenization_spaces=False,
    )


def _plain_texts(
    dialogues: Sequence[Dialogue], tokenizer: PreTrainedTokenizerFast
) -> Iterator[str]:
    """The texts between the special tokens of the rendered dialogues."""
    special = re.compile("|".join(map(re.escape, tokenizer.all_special_tokens)))
    for dialogue in dialogues:
        yield from filter(None, special.split(render(dialogue, tokenizer)))


def render(dialogue: Dialogue, tokenizer: PreTrainedTokenizerFast) -> str:
    """The dialogue as text, answer included."""
    answered = [*dialogue.messages, {"role": "assistant", "content": dialogue.answer}]
    return tokenizer.apply_chat_template(answered, tokenize=False)
