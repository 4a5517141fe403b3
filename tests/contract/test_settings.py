"""A mistake in any key of a run file or catalogue gives one line with place, value and hint.

Keys, types and bounds come from `config/schema/`, which `test_schema` compares with the models.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pisoft.attribution import load_method
from pisoft.config.loading import load_config
from pisoft.errors import BenchmarkError

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "config/schema/run.schema.json").read_text(encoding="utf-8")
)
DEFINITIONS = SCHEMA["$defs"]
NAME = "a"  # of every catalogue entry
MASKED = '{"label": "b", "source": {"kind": "local", "path": "b"}}'
TYPE_VALUES = {  # a value of each type
    "string": "no such", "integer": 3, "number": 2.5, "boolean": True, "array": [2.5],
    "object": {"no": "such"}, "null": None,
}  # fmt: skip
WORDS = {
    "string": "must be a text", "integer": "must be a whole number", "number": "must be a number",
    "boolean": "must be true or false", "array": "must be a list", "object": "must be a section of",
}  # fmt: skip
MISSING = object()
FITS = {"integer": {"boolean"}, "number": {"boolean", "integer"}}  # other types that a type accepts
Place = tuple[tuple[Any, dict[str, Any]], ...]  # keys, each with the section that holds it


def variants(node: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the allowed schemas of a value, with references and alternatives resolved."""
    if "$ref" in node:
        return variants(DEFINITIONS[node["$ref"].rpartition("/")[2]])
    choices = [] if "properties" in node else node.get("anyOf", node.get("oneOf", []))
    return [one for choice in choices for one in variants(choice)] or [node]


def example(node: dict[str, Any], name: str = NAME) -> Any:
    """Return a shortest valid value."""
    node = variants(node)[0]
    if options := [node["const"]] if "const" in node else node.get("enum"):
        return options[0]
    match node["type"]:
        case "array":
            return [example(node["items"])] * node.get("minItems", 0)
        case "string":
            return name
        case "integer" | "number":
            return node.get("default", 0.5)
    required = node.get("required") or node.get("anyOf", [{}])[0].get("required", ())
    values = {key: example(node["properties"][key]) for key in required}
    names = ("a", "b")[: node.get("minProperties", 0)]
    return values | {key: example(of_any_name(node), key) for key in names}


def of_any_name(node: dict[str, Any]) -> Any:
    """Return the schema of a mapping's values, if its keys are names."""
    return {"": node.get("additionalProperties"), **node.get("patternProperties", {})}.popitem()[1]


def sections(node: dict[str, Any], place: Place = ()) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield every section below a place."""
    for one in variants(node):
        if "properties" in one:
            yield place, one
            for key, child in one["properties"].items():
                yield from sections(child, (*place, (key, one)))
        for key, below in ((NAME, of_any_name(one)), (0, one.get("items"))):
            if isinstance(below, dict):
                yield from sections(below, (*place, (key, one)))


def run_file(place: Place, value: Any) -> dict[str, Any]:
    """Return a run file with a value at a place, and all required keys around it."""
    for key, above in reversed(place):
        if key == 0:
            value = [value] * above.get("minItems", 1)
        else:
            value = {**example(above), key: value}
            value = {key: one for key, one in value.items() if one is not MISSING}
    chosen = NAME if [key for key, _ in place[:2]] == ["catalogue", "masked_models"] else "b"
    return {"masked_model": chosen} | value


def out_of_range(one: dict[str, Any]) -> Iterator[tuple[Any, str]]:
    """Yield values just outside the allowed range, each with a part of its error message."""
    step = 1 if one.get("type") == "integer" else 0
    for key, below in (("minimum", True), ("maximum", False)):
        if (bound := one.get(key)) is not None:
            sign = -1 if below else 1
            yield bound + sign if step else math.nextafter(bound, sign * math.inf), "or equal to"
        if (bound := one.get(f"exclusive{key.capitalize()}")) is not None:
            yield bound, f"than {bound} (got"
    if one.get("type") == "number":
        yield from ((value, "finite") for value in (math.nan, math.inf))
    for value in one.get("enum", [one["const"]] if "const" in one else ()):
        yield f"{value}x", f"did you mean '{value}'?"
    if one.get("minItems"):
        yield example(one)[1:], ""
    if "pattern" in one:
        yield "../x", "must be letters, digits, '.', '_' and '-'"
        yield "x" * (one["maxLength"] + 1), f"at most {one['maxLength']}"
    if "minLength" in one:
        yield "", "at least 1"
    if "minProperties" in one:
        yield dict([*example(one).items()][1:]), f"at least {one['minProperties']}"


def misfits(place: Place, node: dict[str, Any]) -> Iterator[tuple[Place, Any, str]]:
    """Yield invalid values of a key: other types, and values out of range."""
    allowed = variants(node)
    types = {name for one in allowed for name in np.atleast_1d(one.get("type", []))}
    fitting = types.union(*(FITS.get(name, ()) for name in types))
    single = len(allowed) == 1 + ({"type": "null"} in allowed)
    is_name = {"enum", "const"} & allowed[0].keys()
    word = "" if is_name or not single else WORDS[np.atleast_1d(allowed[0]["type"])[0]]
    yield from ((place, value, word) for name, value in TYPE_VALUES.items() if name not in fitting)
    for one in allowed:
        if single or one["type"] in ("integer", "number"):
            yield from ((place, value, hint) for value, hint in out_of_range(one))
    if single:
        for key, below in ((NAME, of_any_name(allowed[0])), (0, allowed[0].get("items"))):
            if isinstance(below, dict) and below:
                yield from misfits((*place, (key, allowed[0])), below)


def mistakes(place: Place, section: dict[str, Any]) -> Iterator[tuple[Place, Any, str]]:
    """Yield all possible mistakes in a section's keys: place, value and hint."""
    for key, node in section["properties"].items():
        if key == "extends":  # not a key of the models
            continue
        yield (*place, (f"{key}x", section)), 1, f"unknown key; did you mean '{key}'? allowed: "
        at = (*place, (key, section))
        if key in example(section):
            yield at, MISSING, "is required and missing"
        yield from misfits(at, node)


def named(place: Place) -> str:
    return ".".join(str(key) for key, _ in place) or "run"


SECTIONS = {f"{named(place)}:{one['title']}": (place, one) for place, one in sections(SCHEMA)}


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a catalogue with one masked model."""
    folder = tmp_path_factory.mktemp("catalogue")
    for kind in ("models", "datasets", "methods"):
        (folder / f"{kind}.yaml").write_text("{}")
    (folder / "masked_models.yaml").write_text(f'{{"b": {MASKED}}}')
    return folder


@pytest.mark.parametrize("section", SECTIONS)
def test_a_mistake_in_any_key_gives_one_line_with_place_and_hint(
    section: str, catalogue: Path
) -> None:
    for place, value, hint in mistakes(*SECTIONS[section]):
        with pytest.raises(BenchmarkError) as error:
            load_config(run_file(place, value), catalogue, "run.yaml", load_method)
        message = str(error.value)
        # `run.yaml: catalogue.models: a: source.path: must be …`
        assert message.replace(": ", ".").startswith(f"run.yaml.{named(place)}"), (value, message)
        assert hint in message, value
        if not isinstance(value, dict) and value is not MISSING:
            assert hint.startswith("unknown") or str(value) in message
        assert "\n" not in message


def test_every_section_of_the_models_is_tested() -> None:
    titles = {name.partition(":")[2] for name in SECTIONS}
    assert {name for name, one in DEFINITIONS.items() if "properties" in one} <= titles
