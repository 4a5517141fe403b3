"""Records in the layout of the ERASER benchmark's unpacked archives (DeYoung et al., 2020).

A file has one annotation per line: `annotation_id`, `query`, `classification`, and `evidences`, a
list of groups of token ranges in a document. The document is the file `docs/<docid>` beside it, one
sentence per line, tokens separated by spaces. BoolQ's documents are whole articles, of which one
paragraph answers the question.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from pisoft.config.validation import validate
from pisoft.datasets.hub import first_line
from pisoft.errors import BenchmarkError

Row = dict[str, Any]
COLUMNS = ("annotation_id", "query", "classification", "document", "passage")


class Evidence(BaseModel):
    """Tokens of a document, counted from 0; the end is exclusive."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    docid: str
    start_token: int = Field(ge=0)
    end_token: int


class Annotation(BaseModel):
    """The keys of a line that are used; ERASER has further keys."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    annotation_id: str
    query: str
    classification: str
    evidences: tuple[tuple[Evidence, ...], ...]


def document_of(line: Row, path: str, where: str) -> Path | None:
    """Return the file of the document with an annotation's evidence, or None without evidence.

    Raises:
        BenchmarkError: a key is missing or wrong, or evidence lies in several documents.
    """
    annotation: Annotation = validate(Annotation, line, where)
    names = sorted({piece.docid for group in annotation.evidences for piece in group})
    if len(names) > 1:
        raise BenchmarkError(f"{where}: has evidence in several documents: {', '.join(names)}")
    return Path(path).parent / "docs" / names[0] if names else None


def record_of(line: Row, path: str, where: str) -> Row:
    """Return a record with :data:`COLUMNS`, and its `evidence` as offsets into the last two.

    `document` is the whole document, `passage` its sentences from the first to the last with
    evidence. Tokens are separated by one space. Without evidence, both are empty.

    Raises:
        BenchmarkError: a key is missing or wrong, evidence lies outside its document or in several,
            or the document cannot be read.
    """
    document = document_of(line, path, where)
    annotation = Annotation.model_validate(line)
    pieces = (piece for group in annotation.evidences for piece in group)
    ranges = sorted({(piece.start_token, piece.end_token) for piece in pieces})
    return {
        **{name: getattr(annotation, name) for name in COLUMNS[:3]},
        **_texts(_sentences(document, where) if document else [], ranges, f"{where}: {document}"),
    }


def _sentences(path: Path, where: str) -> list[list[str]]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeError) as error:
        raise BenchmarkError(f"{where}: {path} cannot be read: {first_line(error)}") from error
    return [[token for token in line.strip().split(" ") if token] for line in lines]


def _texts(sentences: list[list[str]], ranges: list[tuple[int, int]], where: str) -> Row:
    tokens = list(chain.from_iterable(sentences))
    for start, end in ranges:
        if not start < end <= len(tokens):
            raise BenchmarkError(
                f"{where} has {len(tokens)} tokens, but evidence from {start} to {end}"
            )
    if not ranges:
        return {"document": "", "passage": "", "evidence": []}
    bounds = list(accumulate(map(len, sentences), initial=0))  # of sentences, in tokens
    first = bounds[bisect_right(bounds, ranges[0][0]) - 1]
    last = bounds[bisect_left(bounds, max(end for _, end in ranges))]
    starts = list(accumulate((len(token) + 1 for token in tokens), initial=0))  # in characters
    return {
        "document": " ".join(tokens),
        "passage": " ".join(tokens[first:last]),
        "evidence": [
            {"field": column, "start": starts[start] - offset, "end": starts[end] - 1 - offset}
            for column, offset in (("document", 0), ("passage", starts[first]))
            for start, end in ranges
        ],
    }
