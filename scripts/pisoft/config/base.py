"""What run files and catalogue entries are made of: strict models, names, and words to choose."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import textwrap
import unicodedata
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from pisoft.errors import did_you_mean

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"

LONGEST_NAME = 100  # characters; names become files and folders
Name = Annotated[str, Field(pattern=NAME_PATTERN, max_length=LONGEST_NAME)]


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
Target = Literal["label", "generated"]  # what is explained where the answer is a label word
AttributedFunction = Literal["probability", "logit"]
Operator = Literal["remove", "zero"]
Ablation = Literal["zero", "mean", "unknown", "hide"]  # what a soft perturbation does to a token
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


def _no_single_name(names: Any) -> Any:
    if isinstance(names, str) and names != "all":
        raise ValueError(f"expected `all` or a list of names; write [{names}]")
    return names


Selection = Annotated[Literal["all"] | tuple[Name, ...], BeforeValidator(_no_single_name), Unique]


def _increasing(numbers: Sequence[float]) -> Sequence[float]:
    if any(after <= before for before, after in itertools.pairwise(numbers)):
        raise ValueError("must increase")
    return numbers


Increasing = AfterValidator(_increasing)


def _one_or_more(names: Any) -> Any:
    listed = [names] if isinstance(names, str) else names
    if not isinstance(listed, list | tuple) or not all(isinstance(name, str) for name in listed):
        raise ValueError("expected a text or a list of texts")
    _check_selection(listed)
    return names


OneOrMore = Annotated[str | tuple[str, ...], BeforeValidator(_one_or_more)]


def _hub_name(name: str) -> str:
    if not re.fullmatch(r"[\w.+@=-]+(/[\w.+@=-]+)*", name) or {".", ".."} & set(name.split("/")):
        raise ValueError("must be letters, digits and '._+@=-', in parts between '/'")
    return name


# A repository or a revision; both become parts of paths.
HubName = Annotated[str, AfterValidator(_hub_name)]


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


class Strict(BaseModel):
    """A frozen model that refuses unknown keys; the text below a field is its description."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        defer_build=True,
        json_schema_extra=_describe,
    )

    @model_validator(mode="before")
    @classmethod
    def _reject_unknown_keys(cls, section: Any) -> Any:
        """Report an unknown key with its nearest match."""
        for key in map(str, section if isinstance(section, dict) else ()):
            if key not in cls.model_fields:
                context = {"key": key, "hint": did_you_mean(key, cls.model_fields)}
                raise PydanticCustomError("unknown_key", "unknown key{hint}", context)
        return section
