"""Strict reading of YAML, with one-line error messages."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from pisoft.errors import BenchmarkError, did_you_mean

# Wording of pydantic's errors in terms of the file, by the beginning of the error's type.
_WORDS = {
    "missing": "is required and missing",
    "union_tag_not_found": "is required and missing",
    "string_pattern": "must be letters, digits, '.', '_' and '-', with a letter or digit first",
    "bool_": "must be true or false",
    "int_": "must be a whole number",
    "float_": "must be a number",
    "finite_": "must be a finite number",
    "string_type": "must be a text",
    "tuple_type": "must be a list",
    "dict_type": "must be a section of keys",
    "model_": "must be a section of keys",
}
_shown = reprlib.Repr()
_shown.maxstring = _shown.maxother = 200
_shown.maxlevel = 3


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML mapping, refusing duplicate keys.

    Raises:
        BenchmarkError: missing file, broken YAML, a duplicate key, or no mapping at the top.
    """
    try:
        with path.open(encoding="utf-8") as file:  # an open file tells the loader its name
            content = yaml.load(file, Loader=_StrictLoader) or {}
    except OSError as error:
        raise BenchmarkError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # or UnicodeDecodeError
        raise BenchmarkError(f"{path}: is not valid YAML: {error}") from error
    if not isinstance(content, dict):
        raise BenchmarkError(f"{path}: must hold a mapping, found {type(content).__name__}")
    return content


class _StrictLoader(yaml.SafeLoader):
    """A safe loader that rejects duplicate keys, and numbers and booleans only YAML 1.1 has."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: list[Any] = []
        for key_node, _ in node.value:
            if key_node.tag.endswith(":merge"):
                continue
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise _refusal(key_node, f"duplicate key '{key}'")
            seen.append(key)
        return super().construct_mapping(node, deep)

    def construct_plain(self, node: yaml.ScalarNode) -> Any:
        """Return a number or boolean; reject notations of YAML 1.1 like `1:30`, `010` and `yes`."""
        value = yaml.SafeLoader.yaml_constructors[node.tag](self, node)
        if re.search(r"^[-+]?0\d|:", text := node.value) or (
            isinstance(value, bool) and text.lower() != str(value).lower()
        ):
            raise _refusal(
                node,
                f"{text} means {str(value).lower()} in YAML; write that, or '{text}' for a text",
            )
        return value

    def construct_text(self, node: yaml.ScalarNode) -> str:
        """Return a text; reject lone surrogates such as `"\ud83d"`, which no file can hold."""
        if re.search("[\ud800-\udfff]", text := str(self.construct_scalar(node))):
            raise _refusal(node, f"{text!a} holds half of a surrogate pair, which is no character")
        return text


def _refusal(node: yaml.Node, problem: str) -> BenchmarkError:
    mark = node.start_mark
    return BenchmarkError(f"{mark.name}: line {mark.line + 1}: {problem}")


for _kind in ("bool", "int", "float"):
    _StrictLoader.add_constructor(f"tag:yaml.org,2002:{_kind}", _StrictLoader.construct_plain)
_StrictLoader.add_constructor("tag:yaml.org,2002:str", _StrictLoader.construct_text)


def validate(schema: type[Any], raw: Any, where: str) -> Any:
    """Validate, turning pydantic's report into one readable sentence."""
    try:
        return schema.model_validate(raw)
    except ValidationError as error:
        raise BenchmarkError(problems_of(error, where)[0]) from error


def problems_of(error: ValidationError, where: str) -> list[str]:
    """Return a sentence for each problem, unknown keys first.

    A misspelt key says more than the required key that is missing because of it.
    """
    problems = error.errors(include_url=False)
    unknown_first = sorted(problems, key=lambda problem: problem["type"] != "unknown_key")
    return [_sentence(problem, where) for problem in unknown_first]


def _sentence(problem: Mapping[str, Any], where: str) -> str:
    """Describe a problem by its key path, bad value, allowed values and nearest match."""
    kind, context, value = problem["type"], problem.get("ctx", {}), problem["input"]
    value = list(value) if isinstance(value, tuple) else value  # as written in the file
    loc = problem["loc"]  # includes union tags: the kind of a source, and tags in brackets
    keys = [str(key) for key, before in zip(loc, (None, *loc), strict=False) if before != "source"]
    keys = [key for key in keys if "[" not in key]
    if kind.startswith("union_tag"):
        keys, value = [*keys, "kind"], context.get("tag")
    if "key" in context:
        keys.append(context["key"])
    location = ": ".join(filter(None, (where, ".".join(keys))))
    if expected := context.get("expected") or context.get("expected_tags"):
        allowed = re.findall("'([^']+)'", expected)
        return f"{location}: '{value}' is not allowed" + did_you_mean(str(value), allowed)
    wording = (words for beginning, words in _WORDS.items() if kind.startswith(beginning))
    message = problem["msg"].removeprefix("Value error, ").replace(" after validation,", ",")
    message = re.sub(r"^\w+ should", "must", message)  # Input, Tuple, Dictionary, String
    sentence = f"{location}: {next(wording, message[:1].lower() + message[1:])}"
    quiet = isinstance(value, dict) or kind in ("missing", "union_tag_not_found")
    if quiet:
        return sentence
    hint = "; null switches off an optional section" if value is False else ""
    return f"{sentence} (got {_shown.repr(value)}){hint if kind.startswith('model_') else ''}"


def selected(selection: Any, available: Iterable[str], where: str) -> list[str]:
    """Resolve `all` or a list of names; an unknown name is an error with the nearest match."""
    names = list(available)
    for name in [] if selection == "all" else selection:
        if name not in names:
            raise BenchmarkError(f"{where}: unknown name '{name}'" + did_you_mean(name, names))
    return names if selection == "all" else list(selection)
