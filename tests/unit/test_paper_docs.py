"""The pages on the paper name nothing that does not exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from pisoft.attribution import available_methods, load_method
from pisoft.config.run_file import RunFile
from pisoft.config.validation import read_yaml

ROOT = Path(__file__).parents[2]
PAGES = ("the-paper", "what-the-paper-leaves-open")
CATALOGUES = [read_yaml(path) for path in sorted((ROOT / "config/catalogue").glob("*.yaml"))]


def named() -> Iterator[tuple[str, str]]:
    """Yield page and every word of code in its tables."""
    for page in PAGES:
        text = (ROOT / f"docs/explanation/{page}.md").read_text(encoding="utf-8")
        rows = [line for line in text.splitlines() if line.startswith("|")]
        yield from ((page, word) for row in rows for word in re.findall(r"`([^`]+)`", row))


def field_of(model: type[BaseModel], key: str) -> Any:
    """Return the type of a key's model field; None if there is none."""
    field = model.model_fields.get(key)
    return None if field is None else field.annotation


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models that an annotation allows."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in getattr(annotation, "__args__", ()):
        yield from models_in(part)


def is_key(word: str) -> bool:
    """Tell whether a word is a key of a run file, or an option of a method."""
    first, _, rest = word.partition(".")
    if first in available_methods():
        return rest in load_method(first).Options.model_fields
    if not rest:
        return first in RunFile.model_fields
    return any(rest in model.model_fields for model in models_in(field_of(RunFile, first)))


def exists(word: str) -> bool:
    """Tell whether a word is a file, a catalogue entry, a key or an option."""
    key = word.partition(":")[0]
    return (
        (ROOT / word).is_file()
        if "/" in word
        else is_key(key) or any(word in c for c in CATALOGUES)
    )


def test_words_that_do_not_exist_are_found() -> None:
    wrong = ("scripts/pisoft/none.py", "evaluation.clmp", "grad_ellm.layer", "imdbb", "ranking.no")
    assert not any(map(exists, wrong))


@pytest.mark.parametrize("page", PAGES)
def test_every_file_entry_and_option_that_is_named_exists(page: str) -> None:
    words = [word for of, word in named() if of == page]
    assert len(words) > 15
    assert [word for word in words if not exists(word)] == []


def test_every_reading_of_the_evaluation_is_named_in_paper_yaml() -> None:
    run = read_yaml(ROOT / "config/paper.yaml")
    words = {word.partition(":")[0] for page, word in named() if page == PAGES[1]}
    sections = ("evaluation", "generation", "ranking", "layer_study")
    keys = {word for word in words if word.partition(".")[0] in sections}
    assert len(keys) > 8
    for key in keys:
        section, _, name = key.partition(".")
        assert name in run[section], f"{key} is not in config/paper.yaml"
