"""Building blocks of run files and catalogue entries: strict models, names and enumerations."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import textwrap
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import suppress
from numbers import Integral
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from pisoft.errors import did_you_mean

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
LONGEST_NAME = 100  # characters; names become files and folders
Name = Annotated[str, Field(pattern=NAME_PATTERN, max_length=LONGEST_NAME)]

MOST_RECORDS = 1_000_000  # of a generated dataset; all are held in memory


def _check_label(text: str) -> str:
    """Return a label without surrounding spaces; it must be printable in tables and figures."""
    if not text.strip():
        raise ValueError("must not be blank")
    categories = {unicodedata.category(character) for character in text}
    if categories & {"Cc", "Cs", "Zl", "Zp"} or {*text} & {"\ufffe", "\uffff"}:  # not in XML
        raise ValueError("must be one line without control characters")
    return text.strip()


Label = Annotated[str, AfterValidator(_check_label)]

Family = Literal["baseline", "attention", "gradient", "perturbation", "external", "control"]
"""Kind of method."""
Task = Literal["classification", "generation"]
Protocol = Literal["dynamic", "fixed"]
Scope = Literal["content", "user_turn", "all_but_bos", "all"]
Normalisation = Literal["minmax", "rank", "max"]
ScoresOf = Literal["own", "aggregated"]  # scores of the step, or their mean over all steps
TargetToken = Literal["label", "generated"]  # explained token if the answer is a label word
Target = Literal[TargetToken, "contrastive", "span"]  # quantity that the scores explain
AttributedFunction = Literal["probability", "logit", "log_odds"]
Operator = Literal["remove", "zero"]
Ablation = Literal["zero", "mean", "unknown", "hide"]  # how a soft perturbation ablates a token
Replacements = Literal["masked_model", "records"]  # source of tokens for counterfactuals
FlipOf = Literal["label_word", "first_token"]  # answer whose flip is counted
TokenWeights = Literal["loosened", "original"]
Sampler = Literal["iid", "latin", "count"]
Clamp = Literal["draw", "mean", "none"]  # where Soft-NS is clamped at 0


def _check_selection(names: Any) -> Any:
    """Return a selection (names, or `all`) unchanged; it must be non-empty, without duplicates."""
    if names != "all":
        if repeated := sorted({name for name in names if list(names).count(name) > 1}):
            raise ValueError(f"listed twice: {', '.join(repeated)}")
        if not names:
            raise ValueError("nothing is selected")
    return names


Unique = AfterValidator(_check_selection)


def _are_texts(names: Any) -> bool:
    return isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)


def _all_or_names(names: Any) -> Any:
    if names != "all" and not _are_texts(names):
        hint = f"; write [{names}]" if isinstance(names, str) else ""
        raise ValueError(f"expected `all` or a list of names{hint}")
    return names


Selection = Annotated[Literal["all"] | tuple[Name, ...], BeforeValidator(_all_or_names), Unique]


def _increasing(numbers: Sequence[float]) -> Sequence[float]:
    if any(after <= before for before, after in itertools.pairwise(numbers)):
        raise ValueError("must increase")
    return numbers


Increasing = AfterValidator(_increasing)


def _one_or_more(names: Any) -> Any:
    listed = [names] if isinstance(names, str) else names
    if not _are_texts(listed):
        raise ValueError("expected a text or a list of texts")
    _check_selection(listed)
    return names


OneOrMore = Annotated[str | tuple[str, ...], BeforeValidator(_one_or_more)]


def _hub_name(name: str) -> str:
    if not re.fullmatch(r"[\w.+@=-]+(/[\w.+@=-]+)*", name) or {".", ".."} & set(name.split("/")):
        raise ValueError("must be letters, digits and '._+@=-', in parts between '/'")
    return name


Revision = Annotated[str, AfterValidator(_hub_name)]  # of a repository; part of a path

# The hub's rule: no dash or dot at either end, and no two in a row.
_REPOSITORY = re.compile(r"(?!.*(?:--|\.\.))(?:[\w.-]{1,96}/)?[\w.-]{1,96}", re.ASCII)


def is_repository(name: str) -> bool:
    """Return whether a name is valid for a hub repository."""
    parts = name.split("/")
    ends = {end for part in parts for end in (part[:1], part[-1:])}
    return _REPOSITORY.fullmatch(name) is not None and not ends & {"-", "."}


def _repository(name: str) -> str:
    if not is_repository(name):
        raise ValueError(
            "must be `owner/name`, in ASCII letters, digits and '._-', without '-' or '.' at "
            "either end or twice in a row"
        )
    return name


Repository = Annotated[str, AfterValidator(_repository)]  # part of a path


def _describe(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Copy each field's docstring into the JSON schema, when a schema is requested.

    Pydantic's `use_attribute_docstrings` does the same, but reads the sources at every import.
    """
    for parent in model.__mro__:
        if parent.__module__.startswith("pisoft."):
            (body,) = ast.parse(textwrap.dedent(inspect.getsource(parent))).body
            for field, text in itertools.pairwise(getattr(body, "body", ())):
                match field, text:
                    case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(words))):
                        key = schema["properties"][name]
                        key.setdefault("description", " ".join(words.split()))


LARGEST_NUMBER = 2**63 - 1  # largest integer of files and random generators
_CONSTANTS = {"true": True, "false": False, "null": None}


def _as_yaml(value: Any) -> Any:
    """Parse the text of a number, `true` or `null`; convert integers of NumPy to int."""
    if isinstance(value, tuple):
        return tuple(map(_as_yaml, value))
    if isinstance(value, str):
        if value.lower() in _CONSTANTS:
            return _CONSTANTS[value.lower()]
        for number in (int, float):
            with suppress(ValueError):
                return number(value)
    return int(value) if type(value) is not bool and isinstance(value, Integral) else value


class Strict(BaseModel):
    """A frozen model that rejects unknown keys; the docstring of a field is its description.

    Types are strict: `yes` is not a number, and 1 is not true. Two kinds of strings are parsed
    nevertheless: values inside sections and lists of `--config`, which Snakemake always passes as
    strings, and numbers such as 1e-3, which YAML 1.1 reads as strings.
    """

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        defer_build=True,
        json_schema_extra=_describe,
    )

    @model_validator(mode="wrap")
    @classmethod
    def _checked(cls, section: Any, validated: Callable[[Any], Self]) -> Self:
        """Reject unknown keys with their nearest match; parse strings that stand for numbers."""
        if not isinstance(section, dict):
            return validated(section)
        for key in map(str, section):
            if key not in cls.model_fields:
                context = {"key": key, "hint": did_you_mean(key, cls.model_fields)}
                raise PydanticCustomError("unknown_key", "unknown key{hint}", context)
        # YAML has no tuples. Nested lists stay unchanged: aliases can nest billions of them.
        section = {k: tuple(v) if isinstance(v, list) else v for k, v in section.items()}
        try:
            checked = validated(section)
        except ValidationError as error:
            types = {"int_type", "float_type", "bool_type"}
            problems = error.errors()
            mistyped = {problem["loc"][0] for problem in problems if problem["type"] in types}
            if not mistyped:
                raise
            typed = {str(key): _as_yaml(section[key]) for key in mistyped}
            checked = validated(section | typed)
        for key, value in checked:
            if isinstance(value, int) and abs(value) > LARGEST_NUMBER:
                raise PydanticCustomError(
                    "too_large", "must be below 2^63 (got {value})", {"key": key, "value": value}
                )
        return checked
