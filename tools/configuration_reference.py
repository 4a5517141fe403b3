"""The tables of the configuration's reference page (Markdown).

They are generated from the pydantic models and every method's options, so they match the checks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from configuration_schemas import ENTRIES, catalogue_schema
from pisoft.config.base import NAME_PATTERN
from pisoft.config.methods import MethodClass
from pisoft.config.run_file import RunFile
from pisoft.errors import BenchmarkError

PAGE = "docs/reference/configuration.md"
MARK = "<!-- written by `make schema` from here on -->\n"

PASSES = """\
Passes: forward and backward passes through the model for one sample whose prompt has 100 tokens,
all in scope, with default options. ReAGent's number is an upper bound. Many passes are shorter:
tokens before the first difference are read once.
"""

Schema = Mapping[str, Any]  # part of a JSON schema
_LIMITS = {
    "exclusiveMinimum": "> {}",
    "minimum": "≥ {}",
    "exclusiveMaximum": "< {}",
    "maximum": "≤ {}",
    "minLength": "(not empty)",
    "minItems": "(at least {})",
    "minProperties": "(at least {})",
}


def reference(
    page: str, methods: Mapping[str, MethodClass], costs: Mapping[str, Sequence[float]]
) -> str:
    """Return the reference page with its generated tables below the mark, as Markdown.

    `costs` are each method's passes for one explained step and for ten; see :data:`PASSES`.

    Raises:
        BenchmarkError: the page has no mark.
    """
    text, mark, _ = page.partition(MARK)
    if not mark:
        raise BenchmarkError(f"{PAGE}: needs the line '{MARK.strip()}' above its tables")
    schema = RunFile.model_json_schema()
    parts = [text + mark, "## Run file\n", *_sections(schema, "", schema["$defs"])]
    for kind, entry in ENTRIES.items():
        words, definitions = kind.replace("_", " "), catalogue_schema(kind)["$defs"]
        parts += [
            f"## Catalogue of {words}\n",
            f"File `config/catalogue/{kind}.yaml`: one entry per {words.removesuffix('s')}.\n",
            *_sections(definitions[entry.__name__], "", definitions),
        ]
    parts += ["## Options of the attribution methods\n", *_methods(methods, costs)]
    return "\n".join(parts)


def _sections(schema: Schema, path: str, definitions: Schema) -> Iterator[str]:
    """Yield the table of a section's keys, then the tables of its subsections."""
    keys = {name: key for name, key in schema["properties"].items() if name != "kind"}
    nested = {name: [*_nested(key, f"{path}{name}", definitions)] for name, key in keys.items()}
    rows = _rows(schema, {name: sections[0][0] for name, sections in nested.items() if sections})
    yield markdown_table(("key", "type", "default", "meaning"), [*rows])
    for place, section in (item for sections in nested.values() for item in sections):
        kind = section["properties"].get("kind")
        yield f"### `{place}`" + (f" with `kind: {kind['const']}`\n" if kind else "\n")
        yield f"{section['description']}\n"
        yield from _sections(section, f"{place}.", definitions)


def _nested(key: Schema, path: str, definitions: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield the subsections of a key, with their key paths."""
    if "$ref" in key:
        yield path, definitions[key["$ref"].rpartition("/")[2]]
    inner = [("", choice) for choice in key.get("anyOf") or key.get("oneOf") or ()]
    inner += [("[]", key["items"])] if "items" in key else []
    inner += [(".NAME", values) for values in key.get("patternProperties", {}).values()]
    for suffix, part in inner:
        yield from _nested(part, path + suffix, definitions)


def _rows(schema: Schema, places: Mapping[str, str]) -> Iterator[tuple[str, str, str, str]]:
    """Yield key, type, default and meaning of every key; `places` are paths of subsections."""
    # An entry needs these keys unless it extends another entry.
    required = schema["anyOf"][0]["required"] if "anyOf" in schema else schema.get("required", ())
    for name, key in schema.get("properties", {}).items():
        if name == "kind":
            continue  # the section's heading says it
        default = _shortened(key["default"]) if "default" in key else "none"
        if name in places and "default" not in key:
            default = "its defaults"
        default = "**required**" if name in required else default
        kind = f"see `{places[name]}`" if name in places else _type(key)
        yield f"`{name}`", kind, default, key.get("description", "Where it comes from.")


def _type(key: Schema, plural: str = "") -> str:
    """Return one type and its limits, in YAML's terms."""
    limits = [text.format(key[name]) for name, text in _LIMITS.items() if name in key]
    return f"{_type_name(key, plural)} {' and '.join(limits)}".rstrip()


def _type_name(key: Schema, plural: str) -> str:
    if choices := key.get("enum") or ([key["const"]] if "const" in key else None):
        return ", ".join(f"`{choice}`" for choice in choices)
    if key.get("pattern") == NAME_PATTERN:
        return f"name{plural}"
    match key.get("type"):
        case "array":
            return f"list of {_type(key['items'], 's')}"
        case "object":
            values = [*key.get("patternProperties", {}).values(), key.get("additionalProperties")]
            inner = values[0] if isinstance(values[0], dict) else {}
            return "mappings" if plural else f"mapping to {_type(inner, 's')}"
        case "null":
            return "`null`"
        case "string":
            return "text"
        case None:  # an option of a method may be anything
            return " or ".join(map(_type, key.get("anyOf", ()))) or f"any value{plural}"
        case plain:
            return f"{plain}{plural}"


def _shortened(default: Any) -> str:
    """Return a default as YAML, shortened if it is long."""
    if isinstance(default, list) and len(default) > 4:
        first, second, *_, last = default
        return f"`[{first}, {second}, …, {last}]`"
    return f"`{json.dumps(default)}`".replace('"', "")


def _methods(
    methods: Mapping[str, MethodClass], costs: Mapping[str, Sequence[float]]
) -> Iterator[str]:
    """Yield the table of all attribution methods, then each method's options."""
    yield markdown_table(
        ("name", "label", "family", "passes, 1 step", "10 steps", "reference"),
        [
            (f"`{name}`", m.label, m.family, *(f"{cost:.0f}" for cost in costs[name]), m.reference)
            for name, m in methods.items()
        ],
    )
    yield PASSES
    options = {name: [*_rows(m.Options.model_json_schema(), {})] for name, m in methods.items()}
    yield f"Without options: {', '.join(f'`{name}`' for name in options if not options[name])}.\n"
    for name, rows in options.items():
        if rows:
            table = markdown_table(("option", "type", "default", "meaning"), rows)
            yield f"### `{name}`\n\n{table}"


def markdown_table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a Markdown table; cells may hold anything but a line break."""
    lines = [header, tuple("---" for _ in header), *rows]
    return "".join(f"| {' | '.join(_cell(cell) for cell in line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
