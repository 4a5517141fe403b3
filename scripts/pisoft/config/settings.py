"""Job settings, whose fields declare where in the configuration their values come from."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar, Self, get_args

from pydantic import ConfigDict

from pisoft.config.base import Strict
from pisoft.config.resolved import Config
from pisoft.errors import BenchmarkError


@dataclass(frozen=True)
class At:
    """Source of a field's value: a path (`models.{model}.dtype`), a wildcard, or a function.

    Braces hold wildcards of the rule; a star stands for all keys of a mapping whose value is not
    None. The parameters of a function are names of wildcards, or `config`.
    """

    source: str | Callable[..., Any]

    @cached_property
    def wildcards(self) -> tuple[str, ...]:
        """The wildcards that the value depends on, and `config` if a function takes it."""
        if callable(self.source):
            return tuple(inspect.signature(self.source).parameters)
        return tuple(re.findall(r"{(\w+)}", self.source))

    def value(self, context: Mapping[str, Any]) -> Any:
        """Return the value, or None if its section is switched off."""
        if callable(self.source):
            return self.source(**{name: context[name] for name in self.wildcards})
        if self.source.startswith("{"):
            return self.source.format_map(context)
        return _follow(context["config"], self.source.split("."), context)


def _follow(value: Any, path: list[str], context: Mapping[str, Any]) -> Any:
    if not path or value is None:
        return value
    key, tail = path[0].format_map(context), path[1:]
    if key == "*":
        values = {name: _follow(child, tail, context) for name, child in value.items()}
        return {name: child for name, child in values.items() if child is not None}
    return _follow(value[key] if isinstance(value, dict) else getattr(value, key), tail, context)


class JobSettings(Strict):
    """Settings of one job."""

    model_config = ConfigDict(strict=False)  # the values are validated already

    sorts_keys: ClassVar[bool] = True  # False: the order of keys matters
    section: ClassVar[str | None] = None  # path of fields without an `At`

    def __init_subclass__(cls, section: str | None = None, **keywords: Any) -> None:
        if section is not None:
            cls.section = section
        super().__init_subclass__(**keywords)

    @classmethod
    @cache
    def wildcards(cls) -> tuple[str, ...]:
        """Return the wildcards that the settings depend on."""
        names = (name for source in cls.sources().values() for name in source.wildcards)
        return tuple(dict.fromkeys(name for name in names if name != "config"))

    @classmethod
    @cache
    def sources(cls) -> dict[str, At]:
        """Return the source of each field; fields without one keep their default."""
        fields = cls.model_fields
        below = {name: At(f"{cls.section}.{name}") for name in fields if cls.section is not None}
        marks = ((name, mark) for name, field in fields.items() for mark in field.metadata)
        return below | {name: mark for name, mark in marks if isinstance(mark, At)}

    @classmethod
    def from_config(cls, config: Config, **wildcards: str) -> Self:
        """Return the settings of the job with these wildcards.

        Raises:
            BenchmarkError: the run file switches off a section that the job needs.
        """
        context = {"config": config, "operator": "", "variant": "", **wildcards}
        values = {}
        for name, at in cls.sources().items():
            value = values[name] = at.value(context)
            if value is None and type(None) not in get_args(cls.model_fields[name].annotation):
                source = str(at.source).removeprefix("run_file.")
                raise BenchmarkError(f"{source.partition('.')[0]}: is null, which switches it off")
        return cls(**values)

    def to_json(self) -> str:
        """Return canonical JSON without markup, as Snakemake's report embeds it."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=self.sorts_keys)
        return text.translate({ord(character): f"\\u{ord(character):04x}" for character in "<>&"})
