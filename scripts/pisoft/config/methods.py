"""Attribution methods: catalogue entries, and selected methods completed from their classes."""

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
    """Source of scores that are not computed: a file, or constructed scores; null: `method`
    computes them."""
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
    """Target of the explanation, for methods that have one; null: the run's `target`."""

    @model_validator(mode="after")
    def _computed_or_not(self) -> MethodEntry:
        if self.source is not None and (self.method or self.options or self.target):
            raise ValueError(
                "scores that are not attributed, by `source`, take no `method`, `options` or "
                "`target`"
            )
        return self


class MethodClass(Protocol):
    """Declarations of a method's class; see :class:`pisoft.attribution.base.AttributionMethod`."""

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
"""Looks up a method's class by the name of its file, or raises a BenchmarkError.

Passed in because the methods import the configuration.
"""


class Method(Strict):
    """A selected method: its catalogue entry, completed from its class."""

    label: str
    family: str
    file: str | None = None  # in scripts/pisoft/attribution/, without suffix; None: not computed
    source: ScoresFile | Control | Permuted | None = None  # of scores that are not computed
    needs_model: bool = True
    needs_masked_model: bool = False
    half_shards: bool = False  # slow: its jobs have half as many samples
    scoped: bool = False  # scores only tokens in the run's scope
    modifies_backward: bool = False
    target: Target | None = None  # None: the run's
    options: dict[str, Any] = Field(default_factory=dict)  # as written in the entry
    # Options with defaults filled in: equal for equivalent entries.
    resolved: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def from_control(cls, control: Control) -> Method:
        """Return the method of constructed scores."""
        return cls(label=control.label, family="control", source=control)


def resolve_method(
    name: str, entry: MethodEntry, load_method: LoadMethod, target: Target, where: str
) -> Method:
    """Resolve an entry to a method with valid options; `target` is the run's.

    Raises:
        BenchmarkError: unknown file, invalid option, a target for a method that takes none, or a
            span for a method that explains single tokens; the message begins with `where`.
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
    """Append options to a method's label, which distinguish entries of one method."""
    texts = (
        f"{key}: {value if isinstance(value, str) else json.dumps(value)}"
        for key, value in options.items()
    )
    return f"{label} ({', '.join(texts)})" if options else label
