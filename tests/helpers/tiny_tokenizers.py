"""Tokenizers trained on the fly: byte-level BPE like Llama 3, Metaspace BPE like Mistral, GPT-2."""

from functools import cache

from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE, WordLevel
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerFast

CORPUS = [
    "You are a helpful sentiment classifier. Respond with the single word Positive or Negative.",
    "Text: the film was wonderful from the first minute, and its dull ending did not hurt at all.",
    "Passage: a bridge crosses the river.\n\nQuestion: does the bridge cross the river? true false",
    "Why did Anna stay home? Anna stayed home because storms had damaged the old station.",
    " Positive Negative example [INST] [/INST] <|eot_id|> <|start_header_id|>",
] * 4

LLAMA_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA_SPECIALS = ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
LLAMA_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}"
    "<|start_header_id|>{{ m['role'] }}<|end_header_id|>\n\n{{ m['content'] | trim }}<|eot_id|>"
    "{% endfor %}{% if add_generation_prompt %}"
    "<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
# Like Mistral v0.3: the system message goes into the last turn, but only if that is the user's.
MISTRAL_TEMPLATE = (
    "{{ bos_token }}{% set ns = namespace(system='') %}{% for m in messages %}"
    "{% if m['role'] == 'system' %}{% set ns.system = m['content'] + '\n\n' %}"
    "{% elif m['role'] == 'user' %}"
    "[INST] {{ ns.system if loop.last else '' }}{{ m['content'] }}[/INST]"
    "{% else %} {{ m['content'] | trim }}{{ eos_token }}{% endif %}{% endfor %}"
)


@cache
def llama_tokenizer(trim_offsets: bool = False) -> PreTrainedTokenizerFast:
    """Byte-level BPE with Llama 3's word boundaries, special tokens and template style."""
    backend = Tokenizer(BPE())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(LLAMA_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.ByteLevel(trim_offsets=trim_offsets)
    _train(backend, LLAMA_SPECIALS, pre_tokenizers.ByteLevel.alphabet())
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<|begin_of_text|>",
        eos_token="<|eot_id|>",
        pad_token="<|eot_id|>",
    )
    tokenizer.chat_template = LLAMA_TEMPLATE
    return tokenizer


@cache
def mistral_tokenizer(byte_fallback: bool = True) -> PreTrainedTokenizerFast:
    """Metaspace BPE, as SentencePiece models are converted."""
    backend = Tokenizer(BPE(unk_token="<unk>", byte_fallback=byte_fallback, fuse_unk=True))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    specials = ("<unk>", "<s>", "</s>", "[INST]", "[/INST]", *(f"<0x{b:02X}>" for b in range(256)))
    whole = backend.pre_tokenizer
    # SentencePiece learns no piece that crosses words or joins letters with anything else.
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(), pre_tokenizers.Split(Regex(r"[^▁\p{L}]"), "isolated")]
    )
    _train(backend, specials, [])
    # Byte tokens were declared special only to enter the vocabulary.
    model = Tokenizer(backend.model)
    model.pre_tokenizer, model.decoder = whole, backend.decoder
    model.add_special_tokens([AddedToken(text, normalized=False) for text in specials[:5]])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=model,
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        pad_token="</s>",
    )
    tokenizer.chat_template = MISTRAL_TEMPLATE
    return tokenizer


@cache
def gpt2_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE with GPT-2's word boundaries and no chat template."""
    backend = Tokenizer(BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    _train(backend, ("<|endoftext|>",), pre_tokenizers.ByteLevel.alphabet())
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<|endoftext|>", eos_token="<|endoftext|>"
    )


@cache
def word_tokenizer() -> PreTrainedTokenizerFast:
    """Character tokens, and a control token that is an ordinary word of the vocabulary."""
    vocabulary = {
        character: index for index, character in enumerate("abcdefghijklmnopqrstuvwxyz<>")
    }
    vocabulary["<stop>"] = len(vocabulary)
    backend = Tokenizer(BPE(vocabulary, [], ignore_merges=True))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<stop>")
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }} <stop> {% endfor %}"
    return tokenizer


@cache
def numbered_tokenizer(size: int) -> PreTrainedTokenizerFast:
    """One token per number: the text `w5 w6` is the ids 5 and 6; padding is end of sequence."""
    words = ["<unk>", "<s>", "</s>", *(f"w{number}" for number in range(3, size))]
    backend = Tokenizer(
        WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>")
    )
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        pad_token="</s>",
    )


def _train(backend: Tokenizer, specials: tuple[str, ...], alphabet: list[str]) -> None:
    trainer = BpeTrainer(
        vocab_size=800,
        min_frequency=1,
        special_tokens=list(specials),
        initial_alphabet=alphabet,
        show_progress=False,
    )
    backend.train_from_iterator(CORPUS, trainer)
