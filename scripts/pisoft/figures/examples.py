"""Samples to look at, and the tokens that each method holds most important in them."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pisoft.contracts import OK
from pisoft.statistics.scores import StepScores

NO_ORDER = "all equal"
LONGEST_ANSWER = 60  # characters of it in a heading
SHORTEST_SENTENCE = 5  # tokens; in shorter ones a single top token makes a crowd
_ENDS = re.compile(r"[.!?。！？؟…][\"'”’)\]]*\s*$")


@dataclass(frozen=True)
class Example:
    """One explained step of one sample.

    Attributes:
        heading: what the model answered, and which token is explained.
        texts: what each perturbable token says, (m,).
        positions: of these tokens in the prompt, (m,).
        evidence: whether a token is part of the known evidence, (m,); None: not known.
        top: by method, whether a token is among its highest scores, (m,).
        missing: by method without such tokens, why.
    """

    sample_id: str
    heading: str
    texts: tuple[str, ...]
    positions: np.ndarray
    evidence: np.ndarray | None
    top: Mapping[str, np.ndarray]
    missing: Mapping[str, str]


def chosen_answers(answers: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the samples to show, a choice that no score has a part in.

    With labels, the first correctly answered sample of each predicted label; without labels, or if
    no answer is correct, the first sample that could be answered.

    Args:
        answers: rows of `generations`, in the order of the samples.
    """
    answered = [answer for answer in answers if answer["status"] == OK]
    correct: dict[str, Mapping[str, Any]] = {}
    for answer in answered:
        if answer["correct"]:
            correct.setdefault(answer["predicted_label"], answer)
    return list(correct.values()) or answered[:1]


def examples(
    answers: Iterable[Mapping[str, Any]],
    steps: Iterable[StepScores],
    methods: Iterable[str],
    share: float,
) -> list[Example]:
    """Return the first explained step of each answer, with every method's top tokens.

    Args:
        answers: rows of `generations`; see :func:`chosen_answers`.
        steps: the scores of at least these samples.
        methods: names.
        share: of the perturbable tokens that are top tokens, in (0, 1].
    """
    wanted = {(answer["sample_id"], answer["steps"][0]): answer for answer in answers}
    found = [step for step in steps if (step.prompt["sample_id"], step.step) in wanted]
    names = list(methods)
    return [
        _example(step, wanted[step.prompt["sample_id"], step.step], names, share) for step in found
    ]


def top_count(tokens: int, share: float) -> int:
    """Return how many of the tokens are top tokens: their share, rounded up."""
    return math.ceil(round(share * tokens, 9))  # 0.07 * 100 is 7.000000000000001


def top_tokens(raw: np.ndarray, share: float) -> np.ndarray:
    """Return whether a token is among the highest raw scores; of equal ones, the earlier token.

    Args:
        raw: raw scores of the perturbable tokens of a step, finite, (m,).
        share: of these tokens, rounded up to a whole number of them.
    """
    top = np.zeros(raw.size, dtype=bool)
    top[np.argsort(-raw, kind="stable")[: top_count(raw.size, share)]] = True
    return top


def sentences(texts: Sequence[str], positions: np.ndarray) -> list[slice]:
    """Split tokens after `.`, `!`, `?` or `…` in front of a space, at line ends, and at gaps.

    Args:
        texts: of the tokens, leading spaces included, (m,).
        positions: of the tokens in the prompt, (m,); a gap in them is one between two texts.
    """
    last = len(texts) - 1
    ends = [
        place + 1
        for place, text in enumerate(texts)
        if place == last
        or positions[place + 1] != positions[place] + 1
        or (
            "\n" not in texts[place + 1]
            and ("\n" in text or (_ENDS.search(text) and texts[place + 1][:1].isspace()))
        )
    ]
    return [slice(first, end) for first, end in zip([0, *ends], ends, strict=False)]


def key_sentence(example: Example) -> Example:
    """Return the sentence with the most evidence; without evidence, the densest in top tokens.

    Density is the number of top tokens of all methods per token, in sentences of at least
    :data:`SHORTEST_SENTENCE` tokens if there is one. Of equal sentences, the first.
    """
    found = sentences(example.texts, example.positions)
    if example.evidence is not None:
        evidence = example.evidence
        return _part(example, max(found, key=lambda tokens: evidence[tokens].sum()), "evidence")
    long = [tokens for tokens in found if tokens.stop - tokens.start >= SHORTEST_SENTENCE]
    votes = np.sum([np.zeros(len(example.texts)), *example.top.values()], axis=0)
    return _part(example, max(long or found, key=lambda tokens: votes[tokens].mean()), "densest")


def _part(example: Example, tokens: slice, why: str) -> Example:
    """Return some of an example's tokens."""
    where = f"tokens {tokens.start + 1}\N{EN DASH}{tokens.stop} ({why})"
    return replace(
        example,
        heading=f"{example.heading} · {where}",
        texts=example.texts[tokens],
        positions=example.positions[tokens],
        evidence=None if example.evidence is None else example.evidence[tokens],
        top={method: top[tokens] for method, top in example.top.items()},
    )


def _example(
    step: StepScores, answer: Mapping[str, Any], methods: Iterable[str], share: float
) -> Example:
    positions = step.perturbable
    top, missing = {}, {}
    for method in methods:
        if method not in step.raw:
            missing[method] = step.status.get(method, "no row").replace("_", " ")
        elif np.ptp(raw := step.raw[method][positions]) == 0 and share < 1:
            missing[method] = NO_ORDER
        else:
            top[method] = top_tokens(raw, share)
    mask = step.prompt["evidence_mask"]
    evidence = None if mask is None else np.array(mask, dtype=bool)[positions]
    return Example(
        sample_id=answer["sample_id"],
        heading=_heading(answer, positions.size, share),
        texts=tuple(step.prompt["token_texts"][position] for position in positions),
        positions=positions,
        evidence=evidence if evidence is not None and evidence.any() else None,
        top=top,
        missing=missing,
    )


def _heading(answer: Mapping[str, Any], tokens: int, share: float) -> str:
    """Say what the model answered, and which token is explained."""
    if answer["predicted_label"] is None:
        said = f"answer: “{textwrap.shorten(answer['output_text'], LONGEST_ANSWER)}”"
    else:
        said = f"label: {answer['label'] or 'not known'} · predicted: {answer['predicted_label']}"
    step = answer["steps"][0]
    target = answer["output_token_texts"][step].strip()
    count = f"{top_count(tokens, share)} of {tokens} tokens are top"
    return f"{said} · explained token {step + 1}: “{target}” · {count}"
