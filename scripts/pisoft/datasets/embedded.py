"""Embedded datasets with planted evidence: the words that decide each answer are known.

Four tasks, with texts of our own:

- ``sentiment``: a short review; only its opinion words, all of one polarity, decide the label.
- ``why``: three persons and three reasons; the question asks for the reason of one of them, and
  the answer repeats that reason word for word.
- ``needle``: a text of given length, in which one statement names the colour that a person picked,
  among distractors (other persons, verbs and colours) and neutral sentences.
- ``conflict``: the same with two persons who picked different colours; the answer shows which
  statement was used.

The evidence of a statement is "picked" and its colour. Each statement has a counterfactual: the
same text with a colour in its place that occurs nowhere else in the text.

A record depends only on its task and options, the seed and its index, so a dataset can grow without
changing its existing records.
"""

import re
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from pisoft.config.datasets import Haystack

OPINIONS = {
    "positive": (
        "wonderful excellent delightful superb charming brilliant lovely great amazing fantastic "
        "enjoyable splendid marvellous impressive beautiful graceful touching hilarious clever "
        "inspiring captivating refreshing magnificent fabulous stunning gorgeous admirable perfect"
    ),
    "negative": (
        "awful terrible dreadful horrible boring dull tedious bad disappointing annoying clumsy "
        "mediocre pathetic atrocious ugly messy shallow lifeless stupid depressing irritating "
        "tiresome miserable lousy painful hideous pointless worthless"
    ),
}

# Frames and slot words carry no opinion; no frame puts "a" or "an" before an opinion word,
# because the article would hint at the word's initial, and so at its polarity.
OPINION_FRAMES: tuple[str, ...] = (
    "The {aspect} was {opinion} from the first {unit}.",
    "I found the {aspect} {opinion} that {time}.",
    "My {relative} called the {aspect} {opinion} twice.",
    "The {aspect} seemed {opinion} to everyone in the {place}.",
    "There was something {opinion} about the {aspect}.",
    "Its {opinion} {aspect} took up most of the {time}.",
    "To my {relative} the {aspect} looked {opinion}.",
    "They kept the {opinion} {aspect} until the last {unit}.",
)
NEUTRAL_FRAMES: tuple[str, ...] = (
    "We went to see the {work} in {month}.",
    "My {relative} bought two tickets for {day}.",
    "The {work} was made by people from {city}.",
    "It runs for {number} {unit}s without any break.",
    "They show the {work} every {day} at {number}.",
    "I read about the {work} in the {place}.",
    "This was the {ordinal} {work} by the same team.",
    "We took the train to {city} with my {relative}.",
    "The {place} opens at {number} on every {day}.",
    "Since {month} it has moved to {city}.",
)
SLOT_WORDS = {
    "aspect": (
        "plot cast music ending script dialogue costume scenery lighting story opening pace sound "
        "acting title poster narrator theme song dance camera setting language translation"
    ),
    "work": (
        "film novel album play series musical opera sequel show documentary comedy drama concert "
        "exhibition ballet cartoon"
    ),
    "relative": (
        "brother sister uncle aunt cousin neighbour father mother nephew niece colleague flatmate"
    ),
    "place": (
        "theatre library cinema hall office studio museum gallery school garden village town"
    ),
    "month": (
        "January February March April May June July August September October November December"
    ),
    "day": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "city": "Oslo Porto Vienna Krakow Lyon Turin Dublin Ghent Bergen Seville",
    "unit": "minute page scene act chapter part",
    "time": "morning afternoon evening night weekend hour",
    "number": "two three four five six seven eight nine ten twelve",
    "ordinal": "second third fourth fifth sixth seventh",
}

NAMES = (
    "Anna Boris Clara David Elena Felix Greta Henry Irene Jonas Karim Laura Marta Nadia Oscar "
    "Paula Rosa Simon Tomas Vera"
)
# Actions of a person: in the past tense for the narrative, as an infinitive for the question.
ACTIONS = (
    ("stayed home", "stay home"), ("missed the ferry", "miss the ferry"),
    ("cancelled the picnic", "cancel the picnic"), ("walked to work", "walk to work"),
    ("called a taxi", "call a taxi"), ("left early", "leave early"),
    ("bought candles", "buy candles"), ("slept upstairs", "sleep upstairs"),
    ("took the bus", "take the bus"), ("changed jobs", "change jobs"),
    ("sold the van", "sell the van"), ("hired a guide", "hire a guide"),
    ("wrote a letter", "write a letter"), ("moved abroad", "move abroad"),
    ("arrived late", "arrive late"), ("borrowed a tent", "borrow a tent"),
    ("ate outside", "eat outside"), ("phoned the mayor", "phone the mayor"),
    ("carried a lamp", "carry a lamp"), ("skipped the lesson", "skip the lesson"),
)  # fmt: skip
# A reason reads "<culprit and deed> <owner> <quality> <building> <moment>", with parts drawn
# independently: no word predicts the next one, except the culprit its deed.
DEEDS = (
    "storms damaged, thieves emptied, floods reached, builders closed, wolves circled, "
    "frost covered, lightning struck, mice invaded, painters blocked, smoke filled, police sealed, "
    "goats entered, sailors rented, tourists crowded, students occupied, bees surrounded"
)
OWNERS = "the, his, her, their, our, my, one, another, every"
QUALITIES = "old, small, public, empty, narrow, main, stone, wooden, northern, quiet"
BUILDINGS = (
    "kitchen, station, garden, library, workshop, harbour, school, market, stable, theatre, "
    "bakery, cellar, museum, chapel, office, barn"
)
MOMENTS = "overnight, again, yesterday, that morning, last week, before dawn, at noon, on Sunday"
# Sentences about the other persons, which carry no information about the reason.
ASIDES: tuple[str, ...] = (
    "{name} brought warm soup.",
    "{name} wore a green scarf.",
    "{name} liked the weather.",
    "{name} played the flute.",
    "{name} told a long story.",
    "{name} had a red bicycle.",
    "{name} spoke very little.",
    "{name} knew many people.",
)
PERSONS_PER_NARRATIVE = 3

COLOURS = ("red", "blue", "green", "black", "white", "brown", "yellow", "orange")
STATEMENT = "{name} {evidence}."
EVIDENCE = "picked {colour}"
# Distractors also name a colour: only the verb distinguishes them from statements.
OTHER_VERBS = ("wore", "sold", "washed", "painted", "lost", "carried", "wrapped", "stole")


def make_records(
    task: str, count: int, seed: int, haystack: Haystack | None = None
) -> list[dict[str, Any]]:
    """Make the first ``count`` records of a task under a seed; see the module.

    Each has ``record_id``, ``fields`` (text by field name), ``label`` or ``answer`` (the other is
    None), ``evidence``: ``{"field", "start", "end"}`` with end-exclusive character offsets into
    that field, and ``counterfactuals``: ``{"answer", "evidence", "fields"}`` (the label that a
    statement supports, its evidence, the texts with another colour there), or None for tasks
    without statements, which need no ``haystack``.
    """

    def make_record(index: int) -> dict[str, Any]:
        generator = Random(f"{task}/{seed}/{index}")
        if haystack is not None:
            return _haystack_record(task, index, generator, haystack)
        make = {"sentiment": _sentiment_record, "why": _why_record}[task]
        return make(index, generator) | {"counterfactuals": None}

    return [{"record_id": f"{task}-{i:06d}"} | make_record(i) for i in range(count)]


def count_tokens(text: str) -> int:
    """Return the number of words and punctuation marks, most of which are one token each."""
    return len(re.findall(r"\w+|[^\w\s]", text))


def _sentiment_record(index: int, generator: Random) -> dict[str, Any]:
    """Write a review of two or three sentences, at least one of them with an opinion word."""
    label = ("positive", "negative")[index % 2]
    sentence_count = generator.choice((2, 3))
    opinion_count = generator.randint(1, sentence_count)
    opinionated = set(generator.sample(range(sentence_count), opinion_count))
    # Both labels have equally many words, so the draws below do not depend on the label.
    opinions = iter(generator.sample(OPINIONS[label].split(), opinion_count))
    opinion_frames = _shuffled(OPINION_FRAMES, generator)
    neutral_frames = _shuffled(NEUTRAL_FRAMES, generator)
    slots = {name: _shuffled(words.split(), generator) for name, words in SLOT_WORDS.items()}

    text, evidence = "", []
    for position in range(sentence_count):
        text += " " if text else ""
        if position not in opinionated:
            text += _fill(next(neutral_frames), slots)
            continue
        before, after = next(opinion_frames).split("{opinion}")
        text += _fill(before, slots)
        opinion = next(opinions)
        evidence.append({"field": "text", "start": len(text), "end": len(text) + len(opinion)})
        text += opinion + _fill(after, slots)
    return {"fields": {"text": text}, "label": label, "answer": None, "evidence": evidence}


def _why_record(index: int, generator: Random) -> dict[str, Any]:
    """Tell why one of three persons acted, and ask for that reason."""
    names = generator.sample(NAMES.split(), PERSONS_PER_NARRATIVE)
    action, question = generator.choice(ACTIONS)
    asides = generator.sample(ASIDES, PERSONS_PER_NARRATIVE - 1)
    sentences = [aside.format(name=name) for aside, name in zip(asides, names[1:], strict=True)]
    parts = (DEEDS, OWNERS, QUALITIES, BUILDINGS, MOMENTS)
    reason = " ".join(generator.choice(words.split(", ")) for words in parts)
    position = generator.randrange(PERSONS_PER_NARRATIVE)
    sentences.insert(position, f"{names[0]} {action} because {reason}.")
    narrative = " ".join(sentences)
    start = narrative.index(reason)
    return {
        "fields": {"narrative": narrative, "question": f"Why did {names[0]} {question}?"},
        "label": None,
        "answer": reason,
        "evidence": [{"field": "narrative", "start": start, "end": start + len(reason)}],
    }


def _haystack_record(
    task: str, index: int, generator: Random, haystack: Haystack
) -> dict[str, Any]:
    """State a picked colour once (needle) or twice (conflict); the label is the first colour.

    Persons and colours are drawn before the filler, so they do not depend on the length.
    """
    depths = [haystack.depths[index // len(COLOURS) % len(haystack.depths)]]
    if task == "conflict":
        depths = sorted(generator.sample(haystack.depths, 2))
    names = _shuffled(NAMES.split(), generator)
    label = COLOURS[index % len(COLOURS)]
    replacement, *unused = generator.sample(
        [colour for colour in COLOURS if colour != label], len(COLOURS) - 1
    )
    colours, remaining = [label, *unused[: len(depths) - 1]], unused[len(depths) - 1 :]
    evidence = [EVIDENCE.format(colour=colour) for colour in colours]
    planted = [STATEMENT.format(name=next(names), evidence=phrase) for phrase in evidence]
    hay = [
        f"{next(names)} {generator.choice(OTHER_VERBS)} {generator.choice(remaining)}."
        for _ in range(haystack.distractors)
    ]
    hay += _filler(haystack.length - count_tokens(" ".join([*planted, *hay])), generator)
    generator.shuffle(hay)

    sentences = [*hay]
    for depth, statement in reversed([*zip(depths, planted, strict=True)]):
        sentences.insert(round(depth * len(hay)), statement)
    text = " ".join(sentences)
    counterfactuals = []
    for colour, phrase in zip(colours, evidence, strict=True):
        start = text.index(phrase)
        end = start + len(phrase)
        changed = text[:start] + EVIDENCE.format(colour=replacement) + text[end:]
        spans = [{"field": "text", "start": start, "end": end}]
        counterfactuals.append({"answer": colour, "evidence": spans, "fields": {"text": changed}})
    return {
        "fields": {"text": text},
        "label": label,
        "answer": None,
        "evidence": [span for changed in counterfactuals for span in changed["evidence"]],
        "counterfactuals": counterfactuals,
    }


def _filler(tokens: int, generator: Random) -> list[str]:
    """Return neutral sentences until the next one would exceed the number of tokens."""
    sentences: list[str] = []
    while True:
        slots = {slot: generator.choice(words.split()) for slot, words in SLOT_WORDS.items()}
        sentence = generator.choice(NEUTRAL_FRAMES).format(**slots)
        tokens -= count_tokens(sentence)
        if tokens < 0:
            return sentences
        sentences.append(sentence)


def _shuffled(items: Sequence[str], generator: Random) -> Iterator[str]:
    """Iterate over all items in random order, so no review repeats one."""
    return iter(generator.sample(items, len(items)))


def _fill(frame: str, slots: dict[str, Iterator[str]]) -> str:
    """Replace every ``{slot}`` of a frame by the next word of that slot."""
    used = {name: next(words) for name, words in slots.items() if f"{{{name}}}" in frame}
    return frame.format(**used)
