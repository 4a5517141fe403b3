"""Attribution methods: catalogue entries, and what the workflow knows of a selected one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from pydantic import BaseModel, Field

from pisoft.config.base import Family, Name, Strict
from pisoft.config.validation import validate
from pisoft.errors import BenchmarkError


class MethodEntry(Strict):
    """One attribution method with its options."""

    method: Name | None = Field(
        None, description="File in `scripts/pisoft/attribution/`; null: the entry's own name."
    )
    label: str | None = Field(None, description="Name in tables; null: the method's own label.")
    family: Family | None = Field(
        None, description="Methods that tables put together; null: the method's own family."
    )
    options: dict[str, Any] = Field(
        default_factory=dict, description="Options of the method; see `Options` in its file."
    )


class MethodClass(Protocol):
    """What a method's class says of it; see :class:`pisoft.attribution.base.AttributionMethod`."""

    @property
    def label(self) -> str:
        """Name in tables and figures."""

    @property
    def family(self) -> str:
        """What kind of method it is."""

    @property
    def reference(self) -> str:
        """Citation, one line."""

    @property
    def needs_masked_model(self) -> bool:
        """Whether the masked language model is to be loaded for it."""

    @property
    def Options(self) -> type[BaseModel]:
        """Its options and their defaults."""


LoadMethod = Callable[[str], MethodClass]
"""Looks a method's class up by its file's name, or raises a BenchmarkError.

It is passed in, so that the configuration need not know the room of the methods, which reads it.
"""


class Method(Strict):
    """A selected method: its entry, completed by what its file says."""

    file: str  # in scripts/pisoft/attribution/, without ending
    label: str
    family: str
    needs_masked_model: bool
    options: dict[str, Any]  # as the entry has them
    resolved: dict[str, Any]  # the same with their defaults: equal if two entries do the same


def resolve_method(name: str, entry: MethodEntry, load_method: LoadMethod, where: str) -> Method:
    """Return a method that exists and has the options it is given.

    Raises:
        BenchmarkError: unknown file, or an illegal option; the message begins with `where`.
    """
    file = entry.method or name
    try:
        found = load_method(file)
    except BenchmarkError as error:
        raise BenchmarkError(f"{where}: {error}") from error
    options: BaseModel = validate(found.Options, entry.options, f"{where}: options")
    return Method(
        file=file,
        label=entry.label or found.label,
        family=entry.family or found.family,
        needs_masked_model=found.needs_masked_model,
        options=entry.options,
        resolved=options.model_dump(mode="json"),
    )
