"""Editor schemas of the configuration (JSON Schema), generated from its pydantic models."""

from __future__ import annotations

import json
from typing import Any

from pisoft.config.base import NAME_PATTERN
from pisoft.config.loading import ENTRIES
from pisoft.config.run_file import RunFile

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
EXTENDS = "Start from another entry of the catalogue; keys given here replace its keys."


def schemas() -> dict[str, str]:
    """Return the text of every schema file by its path in the repository."""
    by_name = {"run": run_schema(), **{kind: catalogue_schema(kind) for kind in ENTRIES}}
    return {
        f"config/schema/{name}.schema.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        for name, schema in by_name.items()
    }


def run_schema() -> dict[str, Any]:
    """Return the JSON Schema of a run file."""
    schema = RunFile.model_json_schema()
    definitions = schema.pop("$defs")
    for kind in ENTRIES:
        catalogue = catalogue_schema(kind)
        definitions |= catalogue.pop("$defs")
        definitions["CatalogueAdditions"]["properties"][kind] = {
            "description": f"Additional {kind.replace('_', ' ')}.",
            **{key: catalogue[key] for key in ("type", "propertyNames", "additionalProperties")},
        }
    return {"$schema": _DIALECT, **schema, "title": "π-Soft Bench: run file", "$defs": definitions}


def catalogue_schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of a catalogue file, one of `ENTRIES`: from names to entries.

    An entry that extends another has no required keys.
    """
    model = ENTRIES[kind]
    entry = model.model_json_schema()
    definitions = entry.pop("$defs", {})
    entry["properties"] = {
        "extends": {"type": "string", "pattern": NAME_PATTERN, "description": EXTENDS},
        **entry["properties"],
    }
    if required := entry.pop("required", None):
        entry["anyOf"] = [{"required": required}, {"required": ["extends"]}]
    else:  # an entry with only defaults may be empty
        entry["type"] = ["object", "null"]
    return {
        "$schema": _DIALECT,
        "title": f"π-Soft Bench: catalogue of {kind.replace('_', ' ')}",
        "type": "object",
        "propertyNames": {"pattern": NAME_PATTERN},
        "additionalProperties": {"$ref": f"#/$defs/{model.__name__}"},
        "$defs": {**definitions, model.__name__: entry},
    }
