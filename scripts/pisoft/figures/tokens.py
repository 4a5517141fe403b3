"""Token bars: which tokens each method holds most important (paper, qualitative figures).

Every text is set token by token in the model's order, left to right also in scripts that are
written from right to left, and wrapped into lines. Above each line, every method has a row of its
own with a bar over each of its top tokens.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.ft2font import FT2Font, LoadFlags
from matplotlib.patches import Rectangle

from pisoft.displays import display
from pisoft.figures.examples import Example, chosen_answers, examples, key_sentence
from pisoft.figures.style import line_styles, theme
from pisoft.relations import read_generations, read_prompts
from pisoft.statistics.scores import read_scores
from pisoft.views import View

NO_GLYPH = "\N{WHITE SQUARE}"  # stands for a character that the font lacks
MOST_LINES = 40  # of one text; the rest is cut
GUIDE_COLOUR = "#E6E6E6"
EVIDENCE_COLOUR = "#1A1A1A"

# Points, 1/72 inch.
WIDTH = 11 * 72
TEXT_SIZE = 8.5
LABEL_SIZE = 7
HEADING_SIZE = 8
MARGIN = 8
ROW = 8.6  # height of a method's row
BAR = 6.4  # height of a bar in it
TEXT_HEIGHT = 15  # of a line of text, underline included
LINE_GAP = 7
LONGEST_TOKEN = 200  # width
LONGEST_LABEL = 150  # width, beside a row
HEADING = 16


@dataclass(frozen=True)
class _Token:
    """A token on its line: where its visible text begins and ends, in points."""

    index: int
    text: str
    left: float
    right: float


_Line = list[_Token]


@display(
    title="Most important tokens of single texts",
    by=("model", "dataset"),
    reads={
        "prompts": "prompts/{model}/{part}",
        "generations": "generations/{model}/{part}",
        "attributions": "attributions/{model}/{method}/{part}",
    },
    parts=("sentence", "text"),
    cells="qualitative",
)
def plot(view: View) -> Figure:
    """Draw key sentences, or whole texts, of one model and dataset."""
    files, settings, cell = view.files, view.settings, view.cell
    (prompts,), (generations,) = files["prompts"], files["generations"]
    answers = read_generations(generations, prompts, read_prompts(prompts))
    chosen = chosen_answers(answers)
    identifiers = [answer["sample_id"] for answer in answers]
    last = max((identifiers.index(answer["sample_id"]) for answer in chosen), default=-1)
    steps = read_scores(prompts, files["attributions"], settings, samples=last + 1)
    explained_by = {path.parts[-2] for path in files["attributions"]}
    methods = {name: label for name, label in settings.methods.items() if name in explained_by}
    share = settings.top_share
    assert share is not None, "without it, there are no such figures"
    texts = examples(chosen, steps, methods, share)
    where = f"{settings.where(cell)} · top {100 * share:g} % of tokens"
    shown = [key_sentence(text) for text in texts] if cell["part"] == "sentence" else texts
    return plot_tokens(shown, methods, where)


def plot_tokens(examples: Sequence[Example], methods: Mapping[str, str], where: str) -> Figure:
    """Draw the tokens of examples, one below the other, with bars above every method's top tokens.

    Known evidence is underlined. A method without top tokens has a row that says why. Texts of more
    than :data:`MOST_LINES` lines are cut, and the heading says where.

    Args:
        examples: none if no sample could be answered, which the figure then says.
        methods: label of each method, in the order of the rows.
        where: model and dataset, for the title.
    """
    with theme():
        labels = [_row_label(label) for label in methods.values()]
        margin = 2 * MARGIN + max(_width(label, LABEL_SIZE) for label in labels)
        texts = [_wrapped(example, margin) for example in examples]
        block = ROW * len(methods) + TEXT_HEIGHT + LINE_GAP
        lines = sum(len(text) for text in texts)
        height = 2 * HEADING + HEADING * len(texts) + block * lines
        figure = Figure(figsize=(WIDTH / 72, height / 72))
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(0, height))
        axes.set_axis_off()
        title = where if examples else f"{where} · no sample could be answered"
        if any(example.evidence is not None for example in examples):
            title += " · underlined: evidence"
        axes.text(
            WIDTH / 2, height - MARGIN, printable(title), ha="center", va="top", fontsize="medium"
        )
        top = height - 2 * HEADING
        for example, text in zip(examples, texts, strict=True):
            heading = _clipped(_heading(example, text), HEADING_SIZE, WIDTH - 2 * MARGIN)
            axes.text(MARGIN, top - HEADING_SIZE, heading, fontsize=HEADING_SIZE)
            top -= HEADING
            for line in text:
                _draw_line(axes, line, example, methods, top)
                top -= block
    return figure


def printable(text: str) -> str:
    """Return a text as the figure's font can show it.

    A line end becomes an arrow; any other character without a glyph, and what would steer the
    direction of writing, becomes an empty box.
    """
    glyphs = _font().get_charmap()
    return "".join(
        "↵" if c == "\n" else c if ord(c) in glyphs and _visible(c) else NO_GLYPH for c in text
    )


def _visible(character: str) -> bool:
    return not unicodedata.category(character).startswith("C")


@cache
def _font() -> FT2Font:
    return get_font(findfont(FontProperties(family="DejaVu Sans")))


@cache
def _advance(character: str) -> float:
    """Return how far a character moves the pen, in points of a font of 1 point."""
    font = _font()
    font.set_size(100, 72)
    return font.load_char(ord(character), LoadFlags.NO_HINTING).linearHoriAdvance / 65536 / 100


def _width(text: str, size: float) -> float:
    return size * sum(_advance(character) for character in text)


def _clipped(text: str, size: float, room: float) -> str:
    """Return what is shown of a text that may be `room` points wide."""
    shown = printable(text)
    if _width(shown, size) <= room:
        return shown
    ends = itertools.accumulate(_width(character, size) for character in shown + "…")
    return shown[: sum(end <= room - _width("…", size) for end in ends)] + "…"


def _row_label(label: str) -> str:
    return _clipped(label, LABEL_SIZE, LONGEST_LABEL)


def _wrapped(example: Example, margin: float) -> list[_Line]:
    """Arrange an example's tokens in lines; each gap in the prompt begins a new one."""
    lines: list[_Line] = [[]]
    pen = margin
    for index, text in enumerate(example.texts):
        shown = _clipped(text, TEXT_SIZE, LONGEST_TOKEN)
        visible = shown.strip() or shown
        space = _width(shown[: len(shown) - len(shown.lstrip())], TEXT_SIZE)
        width = _width(visible, TEXT_SIZE)
        gap = index and example.positions[index] != example.positions[index - 1] + 1
        if lines[-1] and (gap or pen + space + width > WIDTH - MARGIN):
            lines.append([])
            pen = margin
        left = pen + (space if lines[-1] and visible != shown else 0)
        lines[-1].append(_Token(index, visible, left, left + width))
        pen = left + width
    return lines[:MOST_LINES]


def _heading(example: Example, text: Sequence[_Line]) -> str:
    shown = sum(len(line) for line in text)
    cut = "" if shown == len(example.texts) else f" · cut: the first {shown} tokens are shown"
    return f"{example.heading}{cut} · {example.sample_id}"


def _draw_line(
    axes: Axes, line: _Line, example: Example, methods: Mapping[str, str], top: float
) -> None:
    """Draw one line of text with the rows of all methods above it."""
    styles = line_styles(methods)
    first, end = line[0].left, line[-1].right
    rows = [top - ROW * (place + 1) for place in range(len(methods))]
    axes.hlines(rows, first, end, colors=GUIDE_COLOUR, linewidth=0.4, zorder=0)
    for (method, label), row in zip(methods.items(), rows, strict=True):
        axes.text(first - 3, row, _row_label(label), ha="right", fontsize=LABEL_SIZE)
        if method in example.missing and line[0].index == 0:
            reason = printable(f"none: {example.missing[method]}")
            axes.text(first, row, reason, fontsize=LABEL_SIZE, style="italic")
        for token in line:
            if method in example.top and example.top[method][token.index]:
                colour = styles[method].colour
                axes.add_patch(
                    Rectangle((token.left, row), token.right - token.left, BAR, color=colour, lw=0)
                )
    baseline = top - ROW * len(methods) - TEXT_SIZE
    for token in line:
        axes.text(token.left, baseline, token.text, fontsize=TEXT_SIZE)
    for left, right in _underlines(line, example):
        axes.plot([left, right], [baseline - 3] * 2, color=EVIDENCE_COLOUR, linewidth=1.2)


def _underlines(line: _Line, example: Example) -> Iterator[tuple[float, float]]:
    """Yield the ends of each token of the evidence."""
    if example.evidence is not None:
        for token in line:
            if example.evidence[token.index]:
                yield token.left, token.right
