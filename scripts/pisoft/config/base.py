"""What run files and catalogue entries are made of: strict models, names, and words to choose."""

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

MOST_RECORDS = 1_000_000  # that the workflow makes of a dataset; they lie in memory


def _check_label(text: str) -> str:
    """Return a label without the spaces around it; tables, figures and pages must hold it."""
    if not text.strip():
        raise ValueError("must not be blank")
    categories = {unicodedata.category(character) for character in text}
    if categories & {"Cc", "Cs", "Zl", "Zp"} or {*text} & {"\ufffe", "\uffff"}:  # no XML either
        raise ValueError("must be one line without control characters")
    return text.strip()


Label = Annotated[str, AfterValidator(_check_label)]

Family = Literal["baseline", "attention", "gradient", "perturbation", "external", "control"]
"""What kind of method it is."""
Task = Literal["classification", "generation"]
Protocol = Literal["dynamic", "fixed"]
Scope = Literal["content", "user_turn", "all_but_bos", "all"]
Normalisation = Literal["minmax", "rank", "max"]
ScoresOf = Literal["own", "aggregated"]  # the step's, or the mean of all steps'
TargetToken = Literal["label", "generated"]  # which token, where the answer is a label word
Target = Literal[TargetToken, "contrastive", "span"]  # what scores explain
AttributedFunction = Literal["probability", "logit", "log_odds"]
Operator = Literal["remove", "zero"]
Ablation = Literal["zero", "mean", "unknown", "hide"]  # what a soft perturbation does to a token
Replacements = Literal["masked_model", "records"]  # where those of counterfactuals come from
FlipOf = Literal["label_word", "first_token"]  # what counts as the answer
TokenWeights = Literal["loosened", "original"]
Sampler = Literal["iid", "latin", "count"]
Clamp = Literal["draw", "mean", "none"]  # where Soft-NS is clamped at 0


def _check_selection(names: Any) -> Any:
    """Return a selection (names, or `all`) as it is; it must not be empty or repeat a name."""
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

# As the hub has them: no dash or dot at an end, nor two of them in a row.
_REPOSITORY = re.compile(r"(?!.*(?:--|\.\.))(?:[\w.-]{1,96}/)?[\w.-]{1,96}", re.ASCII)


def is_repository(name: str) -> bool:
    """Tell whether a repository of the hub may have a name."""
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
    """Put the text below each field into the JSON schema, when one is asked for.

    `use_attribute_docstrings` of pydantic also does so, but reads the sources at every import.
    """
    for parent in model.__mro__:
        if parent.__module__.startswith("pisoft."):
            (body,) = ast.parse(textwrap.dedent(inspect.getsource(parent))).body
            for field, text in itertools.pairwise(getattr(body, "body", ())):
                match field, text:
                    case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(words))):
                        key = schema["properties"][name]
                        key.setdefault("description", " ".join(words.split()))


LARGEST_NUMBER = 2**63 - 1  # whole; what files and random generators hold
_CONSTANTS = {"true": True, "false": False, "null": None}


def _as_yaml(value: Any) -> Any:
    """Return what the text of a number, `true` or `null` stands for, and int for NumPy's."""
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
    """A frozen model that refuses unknown keys; the text below a field is its description.

    Values have the types of YAML: `yes` is no number, and 1 is not true. Two kinds of texts are
    numbers nevertheless: those inside sections and lists of `--config`, all of whose values
    Snakemake reads as texts, and numbers such as 1e-3, which YAML 1.1 takes for a text.
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
        """Report an unknown key with its nearest match, and read texts that stand for numbers."""
        if not isinstance(section, dict):
            return validated(section)
        for key in map(str, section):
            if key not in cls.model_fields:
                context = {"key": key, "hint": did_you_mean(key, cls.model_fields)}
                raise PydanticCustomError("unknown_key", "unknown key{hint}", context)
        # YAML has no tuples. Lists inside lists stay what they are: aliases can nest billions.
        section = {k: tuple(v) if isinstance(v, list) else v for k, v in section.items()}
        try:
            checked = validated(section)
        except ValidationError as error:
            types = {"int_type", "float_type", "bool_type"}
            mistyped = {one["loc"][0] for one in error.errors() if one["type"] in types}
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
