"""The configuration's editor schemas (JSON Schema), generated from the models of this package."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from pisoft.config.base import NAME_PATTERN
from pisoft.config.datasets import DatasetEntry
from pisoft.config.loading import CATALOGUES, ENTRIES
from pisoft.config.run_file import RunFile

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


EXTENDS = "Start from another entry of the catalogue; keys given here replace its keys."


def schemas() -> dict[str, str]:
    """Return the text of every schema file by its path in the repository."""
    made = {"run": run_schema(), **{kind: catalogue_schema(kind) for kind in CATALOGUES}}
    return {
        f"config/schema/{name}.schema.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        for name, schema in made.items()
    }


def run_schema() -> dict[str, Any]:
    """Return the JSON Schema of a run file."""
    schema = RunFile.model_json_schema()
    definitions = schema.pop("$defs")
    for kind, entry in ENTRIES.items():
        definitions |= _entry_definitions(entry)
        definitions["CatalogueAdditions"]["properties"][kind] = {
            "description": f"Additional {_words(kind)}.",
            **_named(entry),
        }
    return {"$schema": _DIALECT, **schema, "title": "π-Soft Bench: run file", "$defs": definitions}


def catalogue_schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of a catalogue file: a mapping from names to entries.

    Args:
        kind: one of :data:`pisoft.config.loading.CATALOGUES`.
    """
    entry = ENTRIES[kind]
    return {
        "$schema": _DIALECT,
        "title": f"π-Soft Bench: catalogue of {_words(kind)}",
        **_named(entry),
        "$defs": _entry_definitions(entry),
    }


def _words(kind: str) -> str:
    """Return a catalogue's name as words."""
    return kind.replace("_", " ")


def _named(entry: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a mapping from names to entries."""
    return {
        "type": "object",
        "propertyNames": {"pattern": NAME_PATTERN},
        "additionalProperties": {"$ref": f"#/$defs/{entry.__name__}"},
    }


def _entry_definitions(entry: type[BaseModel]) -> dict[str, Any]:
    """Return the definitions that an entry needs, its own included.

    An entry may extend another one, and then nothing is required of it.
    """
    schema = entry.model_json_schema()
    definitions: dict[str, Any] = schema.pop("$defs", {})
    schema["properties"] = {
        "extends": {"type": "string", "pattern": NAME_PATTERN, "description": EXTENDS},
        **schema["properties"],
    }
    if required := schema.pop("required", None):
        schema["anyOf"] = [{"required": required}, {"required": ["extends"]}]
    else:  # an entry of defaults only may be left empty
        schema["type"] = ["object", "null"]
    if entry is DatasetEntry:
        _allow_short_fields(schema)
    return {**definitions, entry.__name__: schema}


def _allow_short_fields(schema: dict[str, Any]) -> None:
    """Allow `text: sentence`, short for `text: {column: sentence}`."""
    patterns = schema["properties"]["fields"]["patternProperties"]
    patterns[NAME_PATTERN] = {"anyOf": [{"type": "string"}, patterns[NAME_PATTERN]]}
