"""The configuration's reference page (Markdown).

It is generated from the pydantic models of this package and from the options of every attribution
method, so that it cannot say anything else than what is checked.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from pisoft.config.base import NAME_PATTERN
from pisoft.config.datasets import DatasetEntry
from pisoft.config.methods import MethodClass, MethodEntry
from pisoft.config.models import MaskedModelEntry, ModelEntry
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


def reference(methods: Mapping[str, MethodClass]) -> str:
    """Return the configuration reference as Markdown."""
    parts = [
        _INTRODUCTION,
        "## Run file\n",
        *_sections(RunFile, ""),
        "## Catalogue of models\n",
        "File `config/catalogue/models.yaml`: one entry per model.\n",
        *_sections(ModelEntry, ""),
        "## Catalogue of masked models\n",
        "File `config/catalogue/masked_models.yaml`: one entry per masked language model.\n",
        *_sections(MaskedModelEntry, ""),
        "## Catalogue of datasets\n",
        "File `config/catalogue/datasets.yaml`: one entry per dataset. Under `fields`,\n"
        "`text: sentence` is short for `text: {column: sentence}`.\n",
        *_sections(DatasetEntry, ""),
        "## Catalogue of methods\n",
        "File `config/catalogue/methods.yaml`: one entry per method.\n",
        *_sections(MethodEntry, ""),
        "## Options of the attribution methods\n",
        *_methods(methods),
        _PUBLISHED,
    ]
    return "\n".join(parts)


def _sections(model: type[BaseModel], path: str) -> Iterator[str]:
    """Yield the table of a model's keys, then the tables of the sections inside it."""
    entry = model in ENTRIES.values()
    every = [("`extends`", "name", "none", EXTENDS)]
    rows = [*(every if entry else []), *_rows(model, path)]
    yield markdown_table(("key", "type", "default", "meaning"), rows)
    for name, field in model.model_fields.items():
        for place, section in _nested(field.annotation, f"{path}{name}"):
            kind = section.model_fields.get("kind")
            with_kind = f" with `kind: {typing.get_args(kind.annotation)[0]}`" if kind else ""
            yield f"### `{place}`{with_kind}\n"
            yield f"{(section.__doc__ or '').strip()}\n"
            yield from _sections(section, f"{place}.")


def _rows(model: type[BaseModel], path: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield key, type, default and meaning of every key of a model."""
    for name, field in model.model_fields.items():
        if name == "kind":
            continue  # the section's heading says it
        inside = [place for place, _ in _nested(field.annotation, f"{path}{name}")]
        kind = f"see `{inside[0]}`" if inside else _type(field)
        meaning = field.description or "Where it comes from."
        yield f"`{name}`", kind, _default(field), meaning


def _nested(annotation: Any, path: str) -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield the sections that an annotation leads to, with their key paths."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield path, annotation
    elif origin is dict:
        yield from _nested(arguments[1], f"{path}.NAME")
    elif origin is tuple:
        yield from _nested(arguments[0], f"{path}[]")
    elif origin is typing.Annotated:
        yield from _nested(arguments[0], path)
    elif len(_choices(annotation)) > 1:
        for choice in _choices(annotation):
            yield from _nested(choice, path)


def _type(field: FieldInfo) -> str:
    """Return a field's type and its limits in the words of YAML; `null` stands last."""
    choices = [choice for choice in _choices(field.annotation) if choice is not type(None)]
    names = [_type_name(choice) for choice in choices]
    if any(getattr(constraint, "pattern", None) == NAME_PATTERN for constraint in field.metadata):
        names = ["name"]
    text = " ".join([" or ".join(names), *_limits(field.metadata, names[0])])
    return text if len(choices) == len(_choices(field.annotation)) else f"{text} or `null`"


def _choices(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union, or the one type that is none."""
    union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    return typing.get_args(annotation) if union else (annotation,)


def _type_name(annotation: Any) -> str:
    """Return one type in the words of YAML."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    plain = {str: "text", int: "integer", float: "number", bool: "boolean", Any: "any value"}
    if annotation in plain:
        return plain[annotation]
    if origin is typing.Annotated:
        return "name"
    if origin is Literal:
        return ", ".join(f"`{choice}`" for choice in arguments)
    if origin in (tuple, list):
        return f"list of {_plural(arguments[0])}"
    if origin is dict:
        return f"mapping to {_plural(arguments[1])}"
    if len(_choices(annotation)) > 1:
        return " or ".join(map(_type_name, _choices(annotation)))
    return getattr(annotation, "__name__", str(annotation))  # an option of a method may be anything


def _plural(annotation: Any) -> str:
    """Return what a list or a mapping holds."""
    if typing.get_origin(annotation) is dict:
        return "mappings"
    name = _type_name(annotation)
    return name if name == "text" or "`" in name else f"{name}s"


def _limits(constraints: list[Any], kind: str) -> Iterator[str]:
    """Yield the limits of a field, each as a short text."""
    for constraint in constraints:
        match constraint:
            case Gt(gt):
                yield f"> {gt}"
            case Ge(ge):
                yield f"≥ {ge}"
            case Lt(lt):
                yield f"< {lt}"
            case Le(le):
                yield f"≤ {le}"
            case MinLen(minimum):
                yield "(not empty)" if kind == "text" else f"(at least {minimum})"


def _default(field: FieldInfo) -> str:
    """Return a field's default as YAML, shortened if it is long."""
    if field.is_required():
        return "**required**"
    if field.default_factory is not None:
        return "its defaults" if any(_nested(field.annotation, "")) else "none"
    if isinstance(field.default, tuple) and len(field.default) > 4:
        first, second, *_, last = field.default
        return f"`[{first}, {second}, …, {last}]`"
    return f"`{json.dumps(field.default, default=str)}`".replace('"', "")


def _methods(methods: Mapping[str, MethodClass]) -> Iterator[str]:
    """Yield the table of all attribution methods, then each method's options."""
    yield markdown_table(
        ("name", "label", "family", "reference"),
        [(f"`{name}`", m.label, m.family, m.reference) for name, m in methods.items()],
    )
    options: Mapping[str, type[BaseModel]] = {n: m.Options for n, m in methods.items()}
    plain = [f"`{name}`" for name, model in options.items() if not model.model_fields]
    yield f"Without options: {', '.join(plain)}.\n"
    for name, model in options.items():
        if model.model_fields:
            yield f"### `{name}`\n"
            yield markdown_table(("option", "type", "default", "meaning"), list(_rows(model, "")))


def markdown_table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a Markdown table; cells may hold anything but a line break."""
    lines = [header, tuple("---" for _ in header), *rows]
    return "".join(f"| {' | '.join(_cell(cell) for cell in line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
