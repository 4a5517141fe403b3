"""Shuffled answers, for sanity checks of attributions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pisoft.demo.tokenizers import Dialogue
from pisoft.seeds import keyed_generator


def shuffle_answers(dialogues: Sequence[Dialogue], seed: int) -> list[Dialogue]:
    """Shuffle the answers over the dialogues of each group (Adebayo et al., 2018, data).

    Questions and answer counts stay the same, and so does the tokenizer.

    Args:
        dialogues: of one or several groups; their order is kept.
        seed: determines, with a group's name, how its answers are shuffled.
    """
    shuffled = list(dialogues)
    for group in dict.fromkeys(dialogue.group for dialogue in dialogues):
        indices = [index for index, dialogue in enumerate(dialogues) if dialogue.group == group]
        order = keyed_generator(seed, "shuffled_answers", group).permutation(indices)
        for index, source in zip(indices, order, strict=True):
            shuffled[index] = replace(dialogues[index], answer=dialogues[source].answer)
    return shuffled
