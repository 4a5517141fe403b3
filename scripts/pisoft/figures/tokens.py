"""Token bars: the most important tokens by each method (paper, qualitative figures).

Texts are set token by token in the model's order, left to right in all scripts, and wrapped. Above
each line, every method has a row with bars over its top tokens.
"""

from __future__ import annotations

import itertools
import math
import textwrap
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.ft2font import FT2Font, LoadFlags
from matplotlib.patches import Rectangle

from pisoft.config.base import Target
from pisoft.figures.panels import heading, in_width
from pisoft.figures.style import line_styles, share, theme, width
from pisoft.formatting import NOTHING
from pisoft.segments import sentences
from pisoft.statistics.scores import StepScores, read_scores
from pisoft.store.cells import read_generations, read_prompts, target_text
from pisoft.store.parquet import OK
from pisoft.views.titles import shared_top_tokens
from pisoft.views.view import View, display

LONGEST_ANSWER = 60  # characters of it in a heading
SHORTEST_SENTENCE = 5  # tokens; in shorter ones a single top token makes a crowd
NO_GLYPH = "\N{WHITE SQUARE}"  # stands for a character that the font lacks
MOST_LINES = 40  # of one text; the rest is cut
GUIDE_COLOUR = "#E6E6E6"
EVIDENCE_COLOUR = "#1A1A1A"

# Points, 1/72 inch.
TEXT_SIZE = 7.5
LABEL_SIZE = 6.5
HEADING_SIZE = 7
MARGIN = 8
ROW = 7.6  # height of a method's row
BAR = 5.6  # height of a bar in it
TEXT_HEIGHT = 13  # of a line of text, underline included
LINE_GAP = 7
LONGEST_TOKEN = 200  # width, on a full page
LONGEST_LABEL = 150  # width, beside a row
HEADING = 13


@dataclass(frozen=True)
class Example:
    """One explained step: its m perturbable tokens, and their scores by each method."""

    sample_id: str
    heading: str  # what the model answered, and which token is explained
    texts: tuple[str, ...]  # (m,)
    positions: np.ndarray  # in the prompt, (m,)
    evidence: np.ndarray | None  # whether a token is part of it, (m,); None: none is marked
    top: Mapping[str, np.ndarray]  # by method, whether a token is among its highest scores, (m,)
    missing: Mapping[str, str]  # by method without such tokens, why


@dataclass(frozen=True)
class _Token:
    """A token on its line, with the start and end of its visible text in points."""

    index: int
    text: str
    left: float
    right: float


@display(
    title="Most important tokens in example texts",
    by=("model", "dataset"),
    reads=("prompts", "generations", "attributions"),
    parts=("sentence", "text"),
    cells="qualitative",
)
def plot(view: View) -> Figure:
    """Draw key sentences, or whole texts, of one model and dataset."""
    files, settings, cell = view.files, view.settings, view.cell
    (prompts,), (generations,) = files["prompts"], files["generations"]
    answers = read_generations(generations, prompts, read_prompts(prompts))
    chosen = chosen_answers(answers)
    last = max((index for index, answer in enumerate(answers) if answer in chosen), default=-1)
    steps = read_scores(prompts, files["attributions"], settings, samples=last + 1)
    explained_by = {path.parts[-2] for path in files["attributions"]}
    methods = {name: label for name, label in settings.methods.items() if name in explained_by}
    share = settings.top_share
    assert share is not None, "without it, there are no such figures"
    aggregated = settings.step_scores == "aggregated"
    texts = examples(chosen, steps, methods, share, settings.targets[cell["dataset"]], aggregated)
    if cell["part"] == "sentence":
        texts = [key_sentence(text) for text in texts]
    title = heading(view, f"top {100 * share:g} % of tokens", message=message(texts, methods))
    return plot_tokens(texts, methods, title)


# Samples, and what is shown of them ---------------------------------------------------------------


def chosen_answers(answers: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the samples to show, rows of `generations`, chosen independently of scores.

    With labels, they are the first correctly answered sample of each predicted label; without
    labels or correct answers, the first answered sample.
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
    methods: Collection[str],
    share: float,
    targets: Collection[Target],
    aggregated: bool = False,
) -> list[Example]:
    """Return the first explained step of each answer, with every method's top tokens.

    Top tokens are a share in (0, 1] of the perturbable tokens, rounded up. The heading names the
    target tokens of the methods, or says that scores are aggregated over steps.
    """
    explained = {(answer["sample_id"], answer["steps"][0]): answer for answer in answers}
    return [
        _example(step, explained[key], methods, share, targets, aggregated)
        for step in steps
        if (key := (step.prompt["sample_id"], step.step)) in explained
    ]


def top_count(tokens: int, share: float) -> int:
    """Return the number of top tokens: their share, rounded up."""
    return math.ceil(round(share * tokens, 9))  # 0.07 * 100 is 7.000000000000001


def top_tokens(raw: np.ndarray, share: float) -> np.ndarray:
    """Return whether each token is among the highest raw scores (m,); ties go to earlier ones."""
    top = np.zeros(raw.size, dtype=bool)
    top[np.argsort(-raw, kind="stable")[: top_count(raw.size, share)]] = True
    return top


def key_sentence(example: Example) -> Example:
    """Return the sentence with the most evidence; without evidence, the densest in top tokens.

    Density is the number of top tokens of all methods per token, among sentences of at least
    :data:`SHORTEST_SENTENCE` tokens, if any. Ties go to the first sentence.
    """
    parts = sentences(example.texts, example.positions)
    if (evidence := example.evidence) is not None:
        part, why = max(parts, key=lambda tokens: evidence[tokens].sum()), "evidence"
    else:
        long = [tokens for tokens in parts if tokens.stop - tokens.start >= SHORTEST_SENTENCE]
        votes = np.sum([np.zeros(len(example.texts)), *example.top.values()], axis=0)
        part, why = max(long or parts, key=lambda tokens: votes[tokens].mean()), "densest"
    where = f"tokens {part.start + 1}\N{EN DASH}{part.stop} ({why})"
    return replace(
        example,
        heading=f"{example.heading} · {where}",
        texts=example.texts[part],
        positions=example.positions[part],
        evidence=None if evidence is None else evidence[part],
        top={method: top[part] for method, top in example.top.items()},
    )


def _example(
    step: StepScores,
    answer: Mapping[str, Any],
    methods: Iterable[str],
    share: float,
    targets: Iterable[Target],
    aggregated: bool,
) -> Example:
    positions = step.perturbable
    top, missing = {}, {}
    for method in methods:
        if method not in step.raw:
            missing[method] = step.status.get(method, "no row").replace("_", " ")
        elif np.ptp(raw := step.raw[method][positions]) == 0 and share < 1:
            missing[method] = "all equal"
        else:
            top[method] = top_tokens(raw, share)
    mask = step.prompt["evidence_mask"]
    evidence = None if mask is None else np.array(mask, dtype=bool)[positions]
    if answer["predicted_label"] is None:
        output = f"answer: “{textwrap.shorten(answer['output_text'], LONGEST_ANSWER)}”"
    else:
        label = answer["label"] or "not known"
        output = f"label: {label} · predicted: {answer['predicted_label']}"
    if aggregated and len(answer["steps"]) > 1:
        explained = f"mean over {len(answer['steps'])} explained tokens"
    else:
        texts = [target_text(answer, step.step, target) or NOTHING for target in targets]
        words = " or ".join(f"“{text.strip()}”" for text in texts)
        explained = f"explained token {step.step + 1}: {words}"
    count = f"{top_count(positions.size, share)} of {positions.size} tokens are top"
    return Example(
        sample_id=answer["sample_id"],
        heading=f"{output} · {explained} · {count}",
        texts=tuple(step.prompt["token_texts"][position] for position in positions),
        positions=positions,
        evidence=evidence if evidence is not None and evidence.any() else None,
        top=top,
        missing=missing,
    )


def message(texts: Sequence[Example], methods: Mapping[str, str]) -> str:
    """Return the joint finding of methods with top tokens in all texts, or in all with evidence."""
    marked = [text for text in texts if text.evidence is not None]
    compared = marked or texts
    top = {
        name: np.concatenate([text.top[name] for text in compared])
        for name in methods
        if compared and all(name in text.top for text in compared)
    }
    masks = [text.evidence for text in marked if text.evidence is not None]
    return shared_top_tokens(top, np.concatenate(masks) if masks else None, methods)


# The figure ---------------------------------------------------------------------------------------


def plot_tokens(examples: Sequence[Example], methods: Mapping[str, str], title: str) -> Figure:
    """Draw the tokens of examples, one below the other, with bars above every method's top tokens.

    Evidence is underlined. The row of a method without top tokens says why. Texts longer than
    :data:`MOST_LINES` lines are cut, as the heading says. Without examples, no sample could be
    answered.
    """
    page = 72 * width()  # points
    with theme():
        room = min(LONGEST_LABEL, page / 3)
        labels = {name: _clipped(label, LABEL_SIZE, room) for name, label in methods.items()}
        margin = 2 * MARGIN + max(_width(label, LABEL_SIZE) for label in labels.values())
        texts = [_wrapped(example, margin, page - MARGIN) for example in examples]
        block = ROW * len(methods) + TEXT_HEIGHT + LINE_GAP
        title = title if examples else f"{title} · no sample could be answered"
        if any(example.evidence is not None for example in examples):
            title += " · underlined: evidence"
        title = "\n".join(map(in_width, title.splitlines()))
        above = HEADING * (1 + len(title.splitlines()))
        headings = [_heading(*one, page - 2 * MARGIN) for one in zip(examples, texts, strict=True)]
        height = above + HEADING * sum(map(len, headings)) + block * sum(map(len, texts))
        figure = Figure(figsize=(width(), height / 72))
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, page), ylim=(0, height))
        axes.set_axis_off()
        placement: dict[str, Any] = {"ha": "center", "va": "top", "fontsize": "medium"}
        for number, line in enumerate(title.splitlines()):
            axes.text(page / 2, height - MARGIN - number * HEADING, printable(line), **placement)
        top = height - above
        for example, heading, lines in zip(examples, headings, texts, strict=True):
            for text in heading:
                axes.text(MARGIN, top - HEADING_SIZE, text, fontsize=HEADING_SIZE)
                top -= HEADING
            for tokens in lines:
                _draw_line(axes, tokens, example, labels, top)
                top -= block
    return figure


def _heading(example: Example, lines: Sequence[Sequence[_Token]], room: float) -> list[str]:
    """Return the heading of an example as lines; a full page has one."""
    n = sum(map(len, lines))
    cut = "" if n == len(example.texts) else f" · cut: the first {n} tokens are shown"
    text = f"{example.heading}{cut} · {example.sample_id}"
    parts = [text] if share() >= 1 else in_width(text).splitlines()
    return [_clipped(part, HEADING_SIZE, room) for part in parts]


def printable(text: str) -> str:
    """Return a text that the font of the figure can show.

    Line ends become arrows; other characters without a glyph, and direction marks, become boxes.
    """
    glyphs = _font().get_charmap()
    visible = {c for c in text if ord(c) in glyphs and unicodedata.category(c)[0] != "C"}
    return "".join("↵" if c == "\n" else c if c in visible else NO_GLYPH for c in text)


@cache
def _font() -> FT2Font:
    return get_font(findfont(FontProperties(family="DejaVu Sans")))


@cache
def _advance(character: str) -> float:
    """Return the advance width of a character, in points, for a font size of 1 point."""
    font = _font()
    font.set_size(100, 72)
    return font.load_char(ord(character), LoadFlags.NO_HINTING).linearHoriAdvance / 65536 / 100


def _width(text: str, size: float) -> float:
    return size * sum(_advance(character) for character in text)


def _clipped(text: str, size: float, room: float) -> str:
    """Return a text cut to `room` points."""
    printed = printable(text)
    if _width(printed, size) <= room:
        return printed
    ends = itertools.accumulate(_width(character, size) for character in printed + "…")
    return printed[: sum(end <= room - _width("…", size) for end in ends)] + "…"


def _wrapped(example: Example, left: float, right: float) -> list[list[_Token]]:
    """Wrap the tokens of an example into lines; each gap in the prompt begins a new line."""
    lines: list[list[_Token]] = [[]]
    pen = left
    for index, text in enumerate(example.texts):
        printed = _clipped(text, TEXT_SIZE, LONGEST_TOKEN * share())
        visible = printed.strip() or printed
        space = _width(printed.partition(visible)[0], TEXT_SIZE)
        width = _width(visible, TEXT_SIZE)
        gap = index and example.positions[index] != example.positions[index - 1] + 1
        if lines[-1] and (gap or pen + space + width > right):
            lines.append([])
            pen = left
        begin = pen + (space if lines[-1] else 0)
        pen = begin + width
        lines[-1].append(_Token(index, visible, begin, pen))
    return lines[:MOST_LINES]


def _draw_line(
    axes: Axes, line: Sequence[_Token], example: Example, labels: Mapping[str, str], top: float
) -> None:
    first, end = line[0].left, line[-1].right
    rows = [top - ROW * (row + 1) for row in range(len(labels))]
    axes.hlines(rows, first, end, colors=GUIDE_COLOUR, linewidth=0.4, zorder=0)
    for (method, look), row in zip(line_styles(labels).items(), rows, strict=True):
        axes.text(first - 3, row, labels[method], ha="right", fontsize=LABEL_SIZE)
        if method in example.missing and line[0].index == 0:
            reason = printable(f"none: {example.missing[method]}")
            axes.text(first, row, reason, fontsize=LABEL_SIZE, style="italic")
        for token in line:
            if method in example.top and example.top[method][token.index]:
                width = token.right - token.left
                bar = Rectangle((token.left, row), width, BAR, color=look.colour, linewidth=0)
                axes.add_patch(bar)
    baseline = rows[-1] - TEXT_SIZE
    for token in line:
        axes.text(token.left, baseline, token.text, fontsize=TEXT_SIZE)
        if example.evidence is not None and example.evidence[token.index]:
            ends = [token.left, token.right]
            axes.plot(ends, [baseline - 3] * 2, color=EVIDENCE_COLOUR, linewidth=1.2)
