"""Reading YAML strictly, and saying in one sentence what is wrong with it."""

from __future__ import annotations

import re
import reprlib
import typing
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from pisoft.config.base import LONGEST_NAME, NAME_PATTERN
from pisoft.errors import BenchmarkError, did_you_mean

DEEPEST, MOST_VALUES = 50, 100_000  # of a YAML file; the largest of ours has 2,000 values
_MERGE = "tag:yaml.org,2002:merge"
# What pydantic says of a value of the wrong kind, in words of the file.
_WRONG_KINDS = {
    "bool": "must be true or false",
    "int": "must be a whole number",
    "float": "must be a number",
    "finite": "must be a finite number",
    "string": "must be a text",
    "tuple": "must be a list",
    "list": "must be a list",
    "dict": "must be a section of keys",
    "mapping": "must be a section of keys",
    "model": "must be a section of keys",
}
_NO_NAME = "must be letters, digits, '.', '_' and '-', with a letter or digit first"
_shown = reprlib.Repr()
_shown.maxstring = _shown.maxother = 200
_shown.maxlevel = 3


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML mapping, refusing duplicate keys.

    Raises:
        BenchmarkError: missing file, broken YAML, a duplicate key, or no mapping at the top.
    """
    try:
        with path.open(encoding="utf-8") as file:  # a loader of a file knows the file's name
            content = yaml.load(file, Loader=_StrictLoader)
    except OSError as error:
        raise BenchmarkError(f"{path}: cannot be read: {error.strerror}") from error
    except (
        yaml.YAMLError,
        ValueError,
        RecursionError,
    ) as error:  # of text, too: UnicodeDecodeError
        raise BenchmarkError(
            f"{path}: is not valid YAML: {' '.join(str(error).split())}"
        ) from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise BenchmarkError(f"{path}: must hold a mapping, found {type(content).__name__}")
    return content


class _StrictLoader(yaml.SafeLoader):
    """A safe loader that refuses keys given twice, endless aliases and what grows beyond bounds."""

    def get_single_node(self) -> yaml.Node | None:
        """Return the document, once its size with all aliases written out is known to be sane."""
        node = super().get_single_node()
        if node is not None:
            _written_out(node, {}, ())
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag == _MERGE:
                continue
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):  # `{{text}}` without quotes; refused below
                continue
            if key in seen:
                line = key_node.start_mark.line + 1
                raise BenchmarkError(
                    f"{key_node.start_mark.name}: line {line}: duplicate key '{key}'"
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def _written_out(node: yaml.Node, sizes: dict[int, int], above: tuple[int, ...]) -> int:
    """Return how many values a node has if each alias stands for what it names."""
    where = f"{node.start_mark.name}: line {node.start_mark.line + 1}"
    if isinstance(node, yaml.ScalarNode) and not _is_text(node.value):
        raise BenchmarkError(
            f"{where}: {node.value!r} holds half of a surrogate pair, no character"
        )
    if id(node) in above:
        raise BenchmarkError(f"{where}: an alias stands inside what it names")
    if len(above) > DEEPEST:
        raise BenchmarkError(f"{where}: sections are nested more than {DEEPEST} deep")
    if id(node) not in sizes:
        parts = [] if isinstance(node, yaml.ScalarNode) else node.value
        nodes = [part for pair in parts for part in (pair if isinstance(pair, tuple) else (pair,))]
        inner = (*above, id(node))
        sizes[id(node)] = 1 + sum(_written_out(part, sizes, inner) for part in nodes)
    if sizes[id(node)] > MOST_VALUES:
        raise BenchmarkError(f"{where}: aliases make more than {MOST_VALUES} values of it")
    return sizes[id(node)]


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def validate(schema: type[Any], raw: Any, where: str) -> Any:
    """Validate, turning pydantic's report into one readable sentence."""
    try:
        return schema.model_validate(raw)
    except ValidationError as error:
        raise BenchmarkError(_first_problem(schema, error, where)) from error


def validate_name(name: Any, where: str) -> None:
    """Check that a name may become part of a path and of a command line.

    Raises:
        BenchmarkError: it may not.
    """
    if not isinstance(name, str) or not re.fullmatch(NAME_PATTERN, name):
        raise BenchmarkError(f"{where}: {_shown.repr(name)} {_NO_NAME}")
    if len(name) > LONGEST_NAME:
        raise BenchmarkError(
            f"{where}: {_shown.repr(name)} is longer than {LONGEST_NAME} characters"
        )


def _first_problem(schema: type[BaseModel], error: ValidationError, where: str) -> str:
    """Name key path, bad value, what is allowed and the nearest match of the first problem."""
    # A misspelt key says more than the required key that is missing because of it.
    problem = min(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
    loc = problem["loc"]
    path = [part for index, part in enumerate(loc) if not _is_union_tag(index, loc)]
    key_path = ".".join(str(part) for part in path)
    place = f"{where}: {key_path}" if key_path else where
    if problem["type"] == "extra_forbidden":
        allowed = _keys_at(schema, loc[:-1])
        return f"{place}: unknown key" + did_you_mean(str(path[-1]), allowed)
    if problem["type"] == "missing":
        return f"{place}: is required and missing"
    if problem["type"] == "literal_error":
        expected = problem["ctx"]["expected"].replace(" or ", ", ").replace("'", "")
        allowed = [choice.strip() for choice in expected.split(",")]
        return f"{place}: '{problem['input']}' is not allowed" + did_you_mean(
            str(problem["input"]), allowed
        )
    kind = problem["type"].partition("_")[0]
    if problem["type"] == "union_tag_not_found":
        return f"{place}.kind: is required and missing"
    if problem["type"] == "union_tag_invalid":
        allowed = [tag.strip(" '") for tag in problem["ctx"]["expected_tags"].split(",")]
        tag = problem["ctx"]["tag"]
        return f"{place}.kind: '{tag}' is not allowed" + did_you_mean(tag, allowed)
    value = "" if isinstance(problem["input"], dict) else f" (got {_shown.repr(problem['input'])})"
    if problem["type"] == "string_pattern_mismatch":
        return f"{place}: {_NO_NAME}{value}"
    if problem["type"] in {
        f"{kind}_type",
        f"{kind}_parsing",
        f"{kind}_from_float",
        "finite_number",
    }:
        return f"{place}: {_WRONG_KINDS[kind]}{value}"
    message = problem["msg"].removeprefix("Value error, ").replace("Input should", "must")
    return f"{place}: {message[:1].lower() + message[1:]}{value}"


def _is_union_tag(index: int, loc: tuple[Any, ...]) -> bool:
    """Tell pydantic's union markers in a location from keys of the file."""
    return "[" in str(loc[index]) or (index > 0 and loc[index - 1] == "source")


def _keys_at(schema: type[BaseModel], loc: tuple[Any, ...]) -> list[str]:
    """Return the keys allowed in the section at a location of the schema."""
    models: list[type[BaseModel]] = [schema]
    for index, part in enumerate(loc):
        if "[" in str(part):
            continue
        if _is_union_tag(index, loc):
            models = [
                m for m in models if part in typing.get_args(m.model_fields["kind"].annotation)
            ]
        else:  # a field of the schema, or else a key or an index inside a mapping or list
            nested = [
                found
                for model in models
                if part in model.model_fields
                for found in _models_in(model.model_fields[part].annotation)
            ]
            models = nested or models
    return [key for model in models for key in model.model_fields]


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """Return every pydantic model mentioned in a type annotation."""
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return [annotation] if issubclass(annotation, BaseModel) else []
    return [model for part in typing.get_args(annotation) for model in _models_in(part)]


def selected(selection: Any, available: Iterable[str], where: str) -> list[str]:
    """Resolve `all` or a list of names; an unknown name is an error with the nearest match."""
    names = list(available)
    if selection == "all":
        return names
    for name in selection:
        if name not in names:
            raise BenchmarkError(f"{where}: unknown name '{name}'" + did_you_mean(name, names))
    return list(selection)
