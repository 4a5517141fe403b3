"""Attribution methods: catalogue entries, and what the workflow knows of a selected one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field, model_validator

from pisoft.config.base import Family, Label, Name, Strict, Target
from pisoft.config.studies import Control, Permuted
from pisoft.config.validation import validate
from pisoft.errors import BenchmarkError

EXPORT = "`make export CONFIG=…` writes a file to begin with"


class ScoresFile(Strict):
    """Imported scores, in a file that `make export` prepares."""

    kind: Literal["scores"]
    path: str
    """Parquet file; `{model}`, `{dataset}` and `{local_root}` are replaced."""

    def path_of(self, model: str, dataset: str) -> str:
        """Return the file with the scores of a model on a dataset."""
        return self.path.replace("{model}", model).replace("{dataset}", dataset)


class MethodEntry(Strict):
    """One attribution method with its options."""

    source: Annotated[ScoresFile | Control | None, Field(discriminator="kind")] = None
    """Source of scores that no method computes: a file, or the evidence; null: `method` computes
    them."""
    method: Name | None = None
    """File in `scripts/pisoft/attribution/`; null: the entry's name."""
    label: Label | None = None
    """Name in tables; null: the method's label, or the entry's name for imported scores."""
    family: Family | None = None
    """Group in tables; null: the method's family, `external` for imported scores, `control` for
    constructed ones."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the method; see below."""
    target: Target | None = None
    """What the method explains, if it has a target; null: the run's `target`."""

    @model_validator(mode="after")
    def _computed_or_not(self) -> MethodEntry:
        if self.source is not None and (self.method or self.options or self.target):
            raise ValueError(
                "scores that are not attributed, by `source`, take no `method`, `options` or "
                "`target`"
            )
        return self


class MethodClass(Protocol):
    """What a method's class says of it; see :class:`pisoft.attribution.base.AttributionMethod`."""

    label: str
    family: Family
    reference: str
    needs_model: bool
    needs_masked_model: bool
    half_shards: bool
    scoped: bool
    modifies_backward: bool
    has_target: bool
    explains_spans: bool
    Options: Any  # a pydantic model


LoadMethod = Callable[[str], MethodClass]
"""Looks a method's class up by its file's name, or raises a BenchmarkError.

It is passed in, so that the configuration need not know the room of the methods, which reads it.
"""


class Method(Strict):
    """A selected method: its entry, completed by what its file says."""

    label: str
    family: str
    file: str | None = None  # in scripts/pisoft/attribution/, without ending; None: not computed
    source: ScoresFile | Control | Permuted | None = None  # of the scores of one that is not
    needs_model: bool = True
    needs_masked_model: bool = False
    half_shards: bool = False  # so slow that its jobs have half as many samples
    scoped: bool = False  # computes scores of tokens in the run's scope only
    modifies_backward: bool = False
    target: Target | None = None  # None: the run's
    options: dict[str, Any] = Field(default_factory=dict)  # as the entry has them
    # The same with their defaults: equal if two entries do the same.
    resolved: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def from_control(cls, control: Control) -> Method:
        """Return the method whose scores are constructed."""
        return cls(label=control.label, family="control", source=control)


def resolve_method(
    name: str, entry: MethodEntry, load_method: LoadMethod, target: Target, where: str
) -> Method:
    """Return a method that exists and has the options it is given; `target` is the run's.

    Raises:
        BenchmarkError: unknown file, an illegal option, a target of a method that has none, or a
            span of one that explains single tokens; the message begins with `where`.
    """
    if entry.source is not None:
        method = Method(label=name, family="external", source=entry.source)
        if isinstance(entry.source, Control):
            method = Method.from_control(entry.source)
        texts = {"label": entry.label, "family": entry.family}
        return method.model_copy(update={key: text for key, text in texts.items() if text})
    file = entry.method or name
    try:
        method_class = load_method(file)
    except BenchmarkError as error:
        raise BenchmarkError(f"{where}: {error}") from error
    options = validate(method_class.Options, entry.options, f"{where}: options")
    if entry.target and not method_class.has_target:
        raise BenchmarkError(
            f"{where}: target: '{entry.target}' is not allowed: scores of '{file}' are the same "
            "for every target"
        )
    is_span = (entry.target or target) == "span"
    if is_span and method_class.has_target and not method_class.explains_spans:
        raise BenchmarkError(
            f"{where}: target: 'span' is not allowed: '{file}' explains single tokens; set "
            "`target` of its entry to label, generated or contrastive"
        )
    differing = options.model_dump(mode="json", exclude_defaults=True)
    if entry.target not in (None, target):
        differing["target"] = entry.target
    return Method(
        label=entry.label or _with_options(method_class.label, differing),
        family=entry.family or method_class.family,
        file=file,
        needs_model=method_class.needs_model,
        needs_masked_model=method_class.needs_masked_model,
        half_shards=method_class.half_shards,
        scoped=method_class.scoped,
        modifies_backward=method_class.modifies_backward,
        target=entry.target,
        options=entry.options,
        resolved=options.model_dump(mode="json"),
    )


def _with_options(label: str, options: Mapping[str, Any]) -> str:
    """Return a method's label with options, by which entries of one method differ."""
    texts = (
        f"{key}: {value if isinstance(value, str) else json.dumps(value)}"
        for key, value in options.items()
    )
    return f"{label} ({', '.join(texts)})" if options else label
