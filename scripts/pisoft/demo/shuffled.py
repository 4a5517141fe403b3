"""Answers that say nothing of their records: for sanity checks of attributions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pisoft.demo.tokenizers import Dialogue
from pisoft.seeds import keyed_generator


def shuffle_answers(dialogues: Sequence[Dialogue], seed: int) -> list[Dialogue]:
    """Shuffle the answers over the dialogues of each group (Adebayo et al., 2018, data).

    What is asked and how often each answer is given stay, and with them the tokenizer.

    Args:
        dialogues: of one group or several; their order stays.
        seed: with a group's name it says how its answers are shuffled.
    """
    shuffled = list(dialogues)
    for group in dict.fromkeys(dialogue.group for dialogue in dialogues):
        places = [place for place, own in enumerate(dialogues) if own.group == group]
        order = keyed_generator(seed, "shuffled_answers", group).permutation(places)
        for place, other in zip(places, order, strict=True):
            shuffled[place] = replace(dialogues[place], answer=dialogues[other].answer)
    return shuffled
