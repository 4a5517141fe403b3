"""A masked language model that proposes replacements for the tokens of a prompt.

The masked model has its own tokenizer. It reads the prompt as text with one position masked and
ranks its pieces there; a piece is proposed if its text is a single token of the explained model. A
token's text, including its leading space, is decoded after an anchor: without one, tokenizers of
the SentencePiece family drop or add the space.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.nn.utils.rnn import pad_sequence

from pisoft.config.jobs.fields import LoadedModel
from pisoft.errors import BenchmarkError
from pisoft.models.batching import token_batches
from pisoft.models.repository import pretrained_network
from pisoft.models.tokenizer import load_tokenizer

# No tokenizer joins a line end to the next word, and none skips a digit.
ANCHOR = "1\n"
FRAGMENT = "\ufffd"  # decoded from bytes that are not a whole character
MINIMUM_SHARED_PIECES = 10  # with fewer, proposals would hardly depend on the text


@dataclass(frozen=True)
class SharedVocabulary:
    """The P pieces of a masked model that are single tokens of the explained model."""

    pieces: torch.Tensor  # ids of the masked model, (P,)
    tokens: torch.Tensor  # ids of the explained model, (P,)
    spaced: torch.Tensor  # whether they begin with a space, (P,)


@dataclass(frozen=True)
class MaskedLanguageModel:
    """A masked language model with its tokenizer."""

    network: Any
    tokenizer: Any
    name: str
    commit: str | None = None  # on the hub

    @property
    def context(self) -> int:
        """Maximum input length in tokens, special tokens included."""
        limits = [self.tokenizer.model_max_length]
        embeddings = getattr(self.network.base_model, "embeddings", None)
        positions = getattr(embeddings, "position_embeddings", None)
        if positions is not None:
            # RoBERTa and its relatives number positions after the padding id.
            skipped = 0 if positions.padding_idx is None else positions.padding_idx + 1
            limits.append(positions.num_embeddings - skipped)
        elif (limit := getattr(self.network.config, "max_position_embeddings", None)) is not None:
            limits.append(limit)
        return min(limits)


class _Slot(NamedTuple):
    """One masked position of a prompt, as input of the masked model."""

    position: int  # in the prompt
    ids: list[int]  # of the masked model
    mask: int  # index of the mask in `ids`


def load_masked_model(
    settings: LoadedModel, folder: Path | None, device: torch.device
) -> MaskedLanguageModel:
    """Load a masked language model.

    Args:
        settings: the model and its dtype.
        folder: of local or trained weights; None loads from the hub.
        device: of the explained model; used unless the settings say `cpu`.

    Raises:
        BenchmarkError: the model is missing or unreadable, lacks the head that predicts masked
            tokens, or its tokenizer has no mask token or is not a fast one.
    """
    from transformers import AutoModelForMaskedLM

    tokenizer = load_tokenizer(settings, folder)
    if tokenizer.mask_token_id is None:
        raise BenchmarkError(
            f"model '{settings.name}': its tokenizer has no mask token, so it cannot serve as "
            "`masked_model`"
        )
    unused = "pooler", "seq_relationship"
    network, commit = pretrained_network(AutoModelForMaskedLM, settings, folder, *unused)
    network.to(torch.device("cpu") if settings.device == "cpu" else device)
    network.eval().requires_grad_(False)
    return MaskedLanguageModel(network, tokenizer, settings.name, commit)


@torch.no_grad()
def replacements(
    masked: MaskedLanguageModel,
    tokenizer: Any,
    ids: Sequence[int],
    count: int,
    token_budget: int,
    positions: Sequence[int] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the most probable replacements of tokens of a prompt.

    Tokens are masked one at a time, in the text of all others without special tokens, or in a
    window of it if it exceeds the masked model's context. A token with a leading space is replaced
    by tokens with one, any other by tokens without, unless fewer than ``count`` such tokens are
    shared. Special tokens, fragments of characters, and tokens at other positions are not replaced:
    their rows repeat the token itself.

    Args:
        ids: T token ids of the explained model.
        count: replacements per token.
        token_budget: tokens per forward batch of the masked model; affects rounding only.
        positions: of the tokens to replace; None: all.

    Returns:
        Token ids (T, count) of the explained model, int64, most probable first, all different from
        the token they replace; and their probabilities (T, count), float32, renormalised to sum
        to 1. Both on the CPU.

    Raises:
        BenchmarkError: too few pieces of the masked model are tokens of the explained model.
    """
    check_replacements(masked, tokenizer, count)
    vocabulary = shared_vocabulary(masked, tokenizer)
    texts, replaceable = _prompt_texts(tokenizer, ids)
    positions = range(len(ids)) if positions is None else positions
    original = torch.tensor(ids, dtype=torch.int64)
    spaced = torch.tensor([text.startswith(" ") for text in texts])
    candidates = original[:, None].repeat(1, count)
    probabilities = torch.full((len(ids), count), 1 / count)
    slots = _slots(masked, texts, [i for i in positions if replaceable[i]])
    for batch in token_batches(slots, lambda slot: len(slot.ids), token_budget):
        rows = torch.tensor([slot.position for slot in batch])
        logits = _mask_logits(masked, batch)[:, vocabulary.pieces]  # (B, P)
        allowed = _allowed(vocabulary, original[rows], spaced[rows], count)
        best = logits.masked_fill(~allowed, -torch.inf).topk(count)
        candidates[rows] = vocabulary.tokens[best.indices]
        probabilities[rows] = best.values.softmax(dim=-1)
    return candidates, probabilities


def check_replacements(masked: MaskedLanguageModel, tokenizer: Any, count: int) -> None:
    """Raise a BenchmarkError if a masked model cannot propose `count` replacements.

    Arguments are as for :func:`replacements`.
    """
    vocabulary = shared_vocabulary(masked, tokenizer)
    needed = max(MINIMUM_SHARED_PIECES, count + 1)  # one may be the original token
    if len(vocabulary.pieces) < needed:
        raise BenchmarkError(
            f"masked_model: {len(vocabulary.pieces)} of the {len(_ordinary_ids(masked.tokenizer))} "
            f"pieces of '{masked.name}' are single tokens of '{tokenizer.name_or_path}', but at "
            f"least {needed} are needed to propose {count} replacements; choose another one"
        )


def _allowed(
    vocabulary: SharedVocabulary, original: torch.Tensor, spaced: torch.Tensor, count: int
) -> torch.Tensor:
    """Return a mask (B, P) of the pieces that may replace original tokens (B,), spaced or not."""
    different = vocabulary.tokens != original[:, None]
    fitting = different & (vocabulary.spaced == spaced[:, None])
    enough = fitting.sum(dim=1, keepdim=True) >= count
    return torch.where(enough, fitting, different)


# Texts of tokens ------------------------------------------------------------------------------


@cache
def shared_vocabulary(masked: MaskedLanguageModel, tokenizer: Any) -> SharedVocabulary:
    """Return the pieces whose text is exactly one ordinary token of the explained model.

    Encoding finds the token that the explained model would read; decoding checks its exact text.
    """
    pieces = _ordinary_ids(masked.tokenizer)
    texts = _texts(masked.tokenizer, [[piece] for piece in pieces])
    length = len(_encode(tokenizer, [ANCHOR])[0]) + 1
    encoded = _encode(tokenizer, [ANCHOR + text for text in texts])
    ordinary = set(_ordinary_ids(tokenizer))
    single = [
        (piece, read[-1], text)
        for piece, text, read in zip(pieces, texts, encoded, strict=True)
        if len(read) == length and read[-1] in ordinary and text and FRAGMENT not in text
    ]
    reread = _texts(tokenizer, [[token] for _, token, _ in single])
    shared: dict[int, tuple[int, str]] = {}  # by token, so that none is proposed twice
    for (piece, token, text), decoded in zip(single, reread, strict=True):
        if decoded == text:
            shared.setdefault(token, (piece, text))
    return SharedVocabulary(
        pieces=torch.tensor([piece for piece, _ in shared.values()], dtype=torch.int64),
        tokens=torch.tensor(list(shared), dtype=torch.int64),
        spaced=torch.tensor([text[0] == " " for _, text in shared.values()], dtype=torch.bool),
    )


def _prompt_texts(tokenizer: Any, ids: Sequence[int]) -> tuple[list[str], list[bool]]:
    """Return the text that each token adds to the prompt, and whether it can be replaced.

    Special tokens add none. A character that spans several tokens is added by the first of them.
    """
    ordinary = set(_ordinary_ids(tokenizer))
    texts = _texts(tokenizer, [[token] for token in ids])
    texts = [text if token in ordinary else "" for token, text in zip(ids, texts, strict=True)]
    replaceable = [bool(text) and FRAGMENT not in text for text in texts]
    runs: list[list[int]] = []  # positions of consecutive fragments of characters
    for position, text in enumerate(texts):
        if FRAGMENT in text:
            if runs and runs[-1][-1] == position - 1:
                runs[-1].append(position)
            else:
                runs.append([position])
    joined = _texts(tokenizer, [[ids[position] for position in run] for run in runs])
    for run, text in zip(runs, joined, strict=True):
        for position in run:
            texts[position] = text if position == run[0] else ""
    return texts, replaceable


def _texts(tokenizer: Any, sequences: Sequence[list[int]]) -> list[str]:
    """Return the text of each sequence of ids in the middle of a text."""
    anchor = _encode(tokenizer, [ANCHOR])[0]
    anchor_text, *texts = tokenizer.batch_decode(
        [anchor, *([*anchor, *sequence] for sequence in sequences)],
        skip_special_tokens=False,
        clean_up_tokenization_spaces=False,
    )
    return [text[len(anchor_text) :] for text in texts]


def _encode(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    """Return the ids of texts of any length, without special tokens."""
    return tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"] if texts else []


def _ordinary_ids(tokenizer: Any) -> list[int]:
    """Return the ids of all tokens that are not special, in ascending order."""
    added = {token for token, added in tokenizer.added_tokens_decoder.items() if added.special}
    return sorted(set(tokenizer.get_vocab().values()) - added - set(tokenizer.all_special_ids))


# Masked forwards ------------------------------------------------------------------------------


def _slots(
    masked: MaskedLanguageModel, texts: Sequence[str], positions: Sequence[int]
) -> list[_Slot]:
    """Mask one position at a time, with as much text on both sides as the context holds.

    The mask includes the token's leading space: pieces have their own, and most masked models
    (RoBERTa, BERT) do not distinguish a mask with a space before it.
    """
    before, after = _frame(masked.tokenizer)
    room = masked.context - len(before) - len(after)
    lefts, rights = [], []
    for position in positions:
        # Cut a window of the explained model's tokens first: tokenising a long text once per token
        # would take longer than the masked model.
        first = max(0, min(position - room // 2, len(texts) - room))
        lefts.append("".join(texts[first:position]))
        rights.append("".join(texts[position + 1 : first + room]))
    encoded = zip(
        positions, _encode(masked.tokenizer, lefts), _encode(masked.tokenizer, rights), strict=True
    )
    slots = []
    for position, left, right in encoded:
        left, right = _trim(left, right, room - 1)
        ids = [*before, *left, masked.tokenizer.mask_token_id, *right, *after]
        slots.append(_Slot(position, ids, len(before) + len(left)))
    return slots


def _trim(left: list[int], right: list[int], room: int) -> tuple[list[int], list[int]]:
    """Trim the outer ends so that both sides fit, each to half of the room if both are long."""
    kept = min(len(left), room - min(len(right), room // 2))
    return left[len(left) - kept :], right[: room - kept]


def _frame(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the special tokens of the masked model before and after a text."""
    plain = _encode(tokenizer, [ANCHOR])[0]
    framed = tokenizer(ANCHOR)["input_ids"]
    first = next(k for k in range(len(framed)) if framed[k : k + len(plain)] == plain)
    return framed[:first], framed[first + len(plain) :]


def _mask_logits(masked: MaskedLanguageModel, batch: Sequence[_Slot]) -> torch.Tensor:
    """Return the logits (B, V) at the masks, float32, on the CPU."""
    ids = [torch.tensor(slot.ids) for slot in batch]
    filler = masked.tokenizer.pad_token_id or 0  # some models derive positions from it
    input_ids = pad_sequence(ids, batch_first=True, padding_value=filler)
    attention_mask = pad_sequence([torch.ones_like(row) for row in ids], batch_first=True)
    rows = torch.arange(len(batch))
    masks = torch.tensor([slot.mask for slot in batch])

    def keep_masks(module: Any, inputs: Any, output: Any) -> Any:
        output.last_hidden_state = output.last_hidden_state[rows, masks][:, None]
        return output

    # On the whole sequence, a head of 50 000 pieces would cost more than the encoder.
    with masked.network.base_model.register_forward_hook(keep_masks):
        device = masked.network.device
        output = masked.network(input_ids.to(device), attention_mask=attention_mask.to(device))
    return output.logits[:, 0].float().cpu()
