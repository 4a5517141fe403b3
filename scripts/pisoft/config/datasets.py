"""Catalogue entries of datasets."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from pisoft.config.base import HubName, Name, OneOrMore, Strict, Task
from pisoft.errors import did_you_mean
from pisoft.records import label_key, placeholders


class HubDataset(Strict):
    """Records from the Hugging Face hub."""

    kind: Literal["hub"]
    repository: HubName = Field(description="Hub repository, `owner/name`.")
    split: OneOrMore = Field(description="Split to read, or a list of splits, read in its order.")
    revision: HubName = Field("main", description="Branch, tag or commit.")
    configuration: str | None = Field(None, description="Hub configuration name, if any.")

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits to read, also if it is one."""
        return _listed(self.split)


class Rationale(Strict):
    """A text that lies in words, with a mark for each word that readers took for the reason."""

    words: str = Field(description="Column with a list of words: a text, words parted by a blank.")
    marks: str
    """Column with a list of 1 for each word that is evidence, else 0."""


class FileDataset(Strict):
    """Records from local files."""

    kind: Literal["file"]
    path: OneOrMore
    """File, or a list of files, read in its order; `{local_root}` is replaced by the run's
    `local_root`."""
    format: Literal["csv", "tsv", "jsonl", "parquet", "eraser"]
    """File format; `eraser`: ERASER's JSON lines, beside their folder `docs`."""
    columns: tuple[str, ...] | None = None
    """Column names of a csv or tsv file without a header line."""
    rationale: Rationale | None = None
    """Columns with words and marks of evidence; jsonl and parquet only."""

    @model_validator(mode="after")
    def _lists(self) -> FileDataset:
        if self.rationale is not None and self.format not in ("jsonl", "parquet"):
            raise ValueError(
                f"rationale: a {self.format} file holds no lists; allowed are jsonl and parquet"
            )
        return self

    @property
    def paths(self) -> tuple[str, ...]:
        """The files to read, also if it is one."""
        return _listed(self.path)


def _listed(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


class EmbeddedDataset(Strict):
    """Synthetic records with planted evidence, made by the workflow."""

    kind: Literal["embedded"]
    task: Literal["sentiment", "why"] = Field(description="Generator.")
    records: int = Field(200, gt=0, description="Records to make.")
    seed: int = Field(0, description="Seed of the records; training uses another.")


class TextField(Strict):
    """Where one text field comes from."""

    column: str = Field(description="Column of the source.")
    first_sentences: int | None = Field(None, gt=0)
    """Keep only the first N sentences of the column."""


def _column(given: Any) -> Any:
    """`text: sentence` is short for `text: {column: sentence}`."""
    return {"column": given} if isinstance(given, str) else given


FieldEntry = Annotated[TextField, BeforeValidator(_column, json_schema_input_type=str | TextField)]


class Labels(Strict):
    """How the source's label column maps to the words the model is asked to answer with."""

    column: str = Field(description="Column of the source.")
    # YAML reads `0:` as a number and `true:` as a boolean; labels are compared as text.
    words: dict[Annotated[str, BeforeValidator(label_key)], str] = Field(min_length=2)
    """Label word for each value of the column."""

    @field_validator("words")
    @classmethod
    def _distinct(cls, words: dict[str, str]) -> dict[str, str]:
        if len(set(words.values())) < len(words):
            raise ValueError(f"label words must differ, got {sorted(words.values())}")
        for key, word in words.items():
            if not word.strip():
                raise ValueError(f"the label word of '{key}' is empty")
        return words


class Message(Strict):
    """One turn of the prompt; `{field}` inserts a text field of the record."""

    role: Literal["system", "user"] = Field(description="Who speaks.")
    content: str = Field(min_length=1, description="Text with `{field}` placeholders.")


class ExpectedRecords(Strict):
    """What `make plan` goes by until the run has built its prompts; no result depends on it."""

    content_tokens: float = Field(gt=0, description="Mean tokens of a record's fields together.")
    records: int | None = Field(None, gt=0)
    """Records of the source; needed if all of them are sampled."""


class DatasetEntry(Strict):
    """One dataset, its prompt and its target."""

    label: str = Field(description="Name in tables and figures.")
    task: Task = Field(description="`classification` (label words) or `generation` (open text).")
    source: Annotated[HubDataset | FileDataset | EmbeddedDataset, Field(discriminator="kind")]
    fields: dict[Name, FieldEntry] = Field(min_length=1)
    """Text fields of a record; `text: sentence` is short for `text: {column: sentence}`."""
    labels: Labels | None = Field(None, description="Label column; classification only.")
    id_column: str | None = None
    """Column with a unique id; without it the id is a hash of the texts."""
    cluster_column: str | None = None
    """Column whose value records share that are not independent, such as their text; intervals and
    tests then resample these clusters."""
    answer_column: str | None = None
    """Column with a reference answer (kept, not used by the metrics)."""
    messages: tuple[Message, ...] = Field(min_length=1, description="The prompt, turn by turn.")
    samples: int | None = Field(None, gt=0)
    """Records to sample, equally many per label; null takes all."""
    shard_size: int | None = Field(None, gt=0)
    """Samples of one job, cut down to whole blocks, one at least: what a kill can cost, and what is
    not computed again when samples are added. Null: all are one job."""
    truncate: Name | None = None
    """Field shortened when a prompt is too long; null: the longest one."""
    expected: ExpectedRecords | None = None
    """Estimates for `make plan`, which needs them before there are prompts."""

    @property
    def has_evidence(self) -> bool:
        """Whether the records say which words decide: planted ones, ERASER's, or marked ones."""
        source = self.source
        if isinstance(source, FileDataset):
            return source.format == "eraser" or source.rationale is not None
        return source.kind == "embedded"

    @property
    def ranking_obstacle(self) -> str | None:
        """Why the records cannot be ranked by flips of the label word; None: they can."""
        is_open = self.task == "generation"
        return "open generation has no label word that could flip" if is_open else None

    @property
    def label_words(self) -> tuple[str, ...]:
        """What the model is asked to answer with; empty: anything."""
        return tuple(self.labels.words.values()) if self.labels else ()

    @model_validator(mode="after")
    def _consistent(self) -> DatasetEntry:
        if (self.task == "classification") != (self.labels is not None):
            need = "needs" if self.task == "classification" else "takes no"
            raise ValueError(f"a {self.task} dataset {need} `labels`")
        used = {name for message in self.messages for name in placeholders(message.content)}
        for name in sorted(used - set(self.fields)):
            raise ValueError(
                f"messages use the field '{name}', which `fields` does not define"
                + did_you_mean(name, self.fields)
            )
        if not used:
            raise ValueError("messages use no field of the record, so nothing could be explained")
        if self.truncate is not None and self.truncate not in used:
            raise ValueError(f"truncate: '{self.truncate}'" + did_you_mean(self.truncate, used))
        return self
