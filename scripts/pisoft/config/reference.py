"""The configuration's reference page (Markdown).

It is generated from the pydantic models of this package and from the options of every attribution
method, so that it cannot say anything else than what is checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from pisoft.config.base import NAME_PATTERN
from pisoft.config.methods import MethodClass
from pisoft.config.run_file import RunFile
from pisoft.config.schema import ENTRIES, EXTENDS

PAGE = "docs/reference/configuration.md"


_INTRODUCTION = """\
# Configuration

*This page and `config/schema/` are written by `make schema`; edit `scripts/pisoft/config/`.*

A **run file** (`config/*.yaml`) says what is benchmarked and how. It selects by name from three
**catalogues** (`config/catalogue/`): models, datasets and attribution methods. A fourth lists the
masked language models, of which a run has one, for the methods that replace tokens.

```sh
snakemake --cores all                                  # config/config.yaml, the embedded demo
snakemake --cores all --configfile config/paper.yaml   # another run file
snakemake --cores all --config max_samples=8           # change a key for one call
```

A run file has this form; every other key has a default:

```yaml
run: my-study  # results go to results/my-study/
models: [llama-3.1-8b-instruct]  # names from the catalogue
datasets: [sst2, imdb]
methods: all  # every method of the catalogue
```

- **Selecting.** A list of names, or `all`. The order is the order of tables and legends.
- **Unknown keys and names are errors**; the message gives the key path and the nearest match.
- **`extends`.** `big: {extends: small, dtype: bfloat16}` is the entry `small` with another `dtype`.
  Keys are replaced whole: a `source` given here replaces the other entry's entire `source`.
- **`{local_root}`** in a local path stands for the run's `local_root`, so that one catalogue serves
  several machines: `--config local_root=/data`.
- **Adding** a [model](../how-to/add-a-model.md) or a [dataset](../how-to/add-a-dataset.md) is one
  entry in its catalogue, a [method](../how-to/add-a-method.md) one file and one entry. An entry
  that only one run needs may stand in that run file, under `catalogue`. Two entries may name the
  same method with different options, to compare them.

Editors that know the YAML language server check and complete a file that begins with
`# yaml-language-server: $schema=…` and the path of the matching file in `config/schema/`.
"""


_PUBLISHED = """\
## Published numbers

File `config/published.csv`: every number that the paper's tables print, which runs of its models on
its datasets are compared with. From Xin Huang and Antoni B. Chan, *Faithfulness Evaluation for
Decoder-only LLM Attributions with Controlled Retained Information*. `table` is the paper's label of
the table, `protocol` is empty for metrics that have none, `model`, `dataset` (or `average`) and
`method` are names of the catalogues, `metric` is that of `data/summary/statistics.parquet`, and
`value` is as printed, with its trailing zeros.
"""


Schema = Mapping[str, Any]  # a part of a JSON schema
_PLAIN = {"string": "text", "integer": "integer", "number": "number", "boolean": "boolean"}
_LIMITS = {
    "exclusiveMinimum": "> {}",
    "minimum": "≥ {}",
    "exclusiveMaximum": "< {}",
    "maximum": "≤ {}",
    "minLength": "(not empty)",
    "minItems": "(at least {})",
    "minProperties": "(at least {})",
}


def reference(methods: Mapping[str, MethodClass]) -> str:
    """Return the configuration reference as Markdown."""
    parts = [_INTRODUCTION, "## Run file\n", *_page(RunFile)]
    for kind, entry in ENTRIES.items():
        words = kind.replace("_", " ")
        parts += [
            f"## Catalogue of {words}\n",
            f"File `config/catalogue/{kind}.yaml`: one entry per {words.removesuffix('s')}.\n",
            *_page(entry, ("`extends`", "name", "none", EXTENDS)),
        ]
    parts += ["## Options of the attribution methods\n", *_methods(methods), _PUBLISHED]
    return "\n".join(parts)


def _page(model: type[BaseModel], *rows: tuple[str, ...]) -> Iterator[str]:
    """Yield the table of a model's keys, further rows first, then those of the sections inside."""
    schema = model.model_json_schema()
    return _sections(schema, "", schema.get("$defs", {}), rows)


def _sections(
    schema: Schema, path: str, definitions: Schema, rows: Iterable[tuple[str, ...]] = ()
) -> Iterator[str]:
    keys = {name: key for name, key in schema["properties"].items() if name != "kind"}
    nested = {name: [*_nested(key, f"{path}{name}", definitions)] for name, key in keys.items()}
    rows = [*rows, *_rows(schema, {name: found[0][0] for name, found in nested.items() if found})]
    yield markdown_table(("key", "type", "default", "meaning"), rows)
    for place, section in (one for found in nested.values() for one in found):
        kind = section["properties"].get("kind")
        yield f"### `{place}`" + (f" with `kind: {kind['const']}`\n" if kind else "\n")
        yield f"{section['description']}\n"
        yield from _sections(section, f"{place}.", definitions)


def _nested(key: Schema, path: str, definitions: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield the sections that a key leads to, with their key paths."""
    if "$ref" in key:
        yield path, definitions[key["$ref"].rpartition("/")[2]]
    inner = [("", choice) for choice in key.get("anyOf") or key.get("oneOf") or ()]
    inner += [("[]", key["items"])] if "items" in key else []
    inner += [(".NAME", values) for values in key.get("patternProperties", {}).values()]
    for suffix, part in inner:
        yield from _nested(part, path + suffix, definitions)


def _rows(schema: Schema, places: Mapping[str, str]) -> Iterator[tuple[str, str, str, str]]:
    """Yield key, type, default and meaning of every key; `places` are those of sections inside."""
    for name, key in schema.get("properties", {}).items():
        if name == "kind":
            continue  # the section's heading says it
        place = places.get(name)
        if name in schema.get("required", ()):
            default = "**required**"
        elif "default" in key:
            default = _shortened(key["default"])
        else:
            default = "its defaults" if place else "none"
        kind = f"see `{place}`" if place else _type(key)
        yield f"`{name}`", kind, default, key.get("description", "Where it comes from.")


def _type(key: Schema, plural: str = "") -> str:
    """Return one type and its limits in the words of YAML."""
    limits = [text.format(key[name]) for name, text in _LIMITS.items() if name in key]
    return " ".join([_type_name(key, plural), *limits])


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


def _methods(methods: Mapping[str, MethodClass]) -> Iterator[str]:
    """Yield the table of all attribution methods, then each method's options."""
    yield markdown_table(
        ("name", "label", "family", "reference"),
        [(f"`{name}`", m.label, m.family, m.reference) for name, m in methods.items()],
    )
    options = {name: [*_rows(m.Options.model_json_schema(), {})] for name, m in methods.items()}
    yield f"Without options: {', '.join(f'`{name}`' for name in options if not options[name])}.\n"
    for name, rows in options.items():
        if rows:
            yield f"### `{name}`\n"
            yield markdown_table(("option", "type", "default", "meaning"), rows)


def markdown_table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a Markdown table; cells may hold anything but a line break."""
    lines = [header, tuple("---" for _ in header), *rows]
    return "".join(f"| {' | '.join(_cell(cell) for cell in line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
