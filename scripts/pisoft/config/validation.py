"""Reading YAML strictly, and saying in one sentence what is wrong with it."""

from __future__ import annotations

import typing
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from pisoft.errors import BenchmarkError, did_you_mean


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML mapping, refusing duplicate keys.

    Raises:
        BenchmarkError: missing file, broken YAML, a duplicate key, or no mapping at the top.
    """
    try:
        with path.open(encoding="utf-8") as file:  # a loader of a file knows the file's name
            content = yaml.load(file, Loader=_UniqueKeyLoader)
    except OSError as error:
        raise BenchmarkError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BenchmarkError(
            f"{path}: is not valid YAML: {' '.join(str(error).split())}"
        ) from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise BenchmarkError(f"{path}: must hold a mapping, found {type(content).__name__}")
    return content


class _UniqueKeyLoader(yaml.SafeLoader):
    """A safe loader for which a key given twice in one mapping is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
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


def validate(schema: type[Any], raw: Any, where: str) -> Any:
    """Validate, turning pydantic's report into one readable sentence."""
    try:
        return schema.model_validate(raw)
    except ValidationError as error:
        raise BenchmarkError(_first_problem(schema, error, where)) from error


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
    message = problem["msg"].removeprefix("Value error, ")
    value = "" if isinstance(problem["input"], dict) else f" (got {problem['input']!r})"
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
