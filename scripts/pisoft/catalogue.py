"""What a catalogue holds: entries for models, masked models, datasets and methods."""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PositiveInt,
    field_validator,
    model_validator,
)

from pisoft.errors import did_you_mean

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Task = Literal["classification", "generation"]


def check_selection(names: Any) -> Any:
    """Return a selection (names, or `all`) as it is; it must not be empty or repeat a name."""
    if names != "all":
        repeated = sorted({name for name in names if list(names).count(name) > 1})
        if repeated:
            raise ValueError(f"listed twice: {', '.join(repeated)}")
        if not names:
            raise ValueError("nothing is selected")
    return names


Selection = Annotated[Literal["all"] | tuple[Name, ...], AfterValidator(check_selection)]


class Strict(BaseModel):
    """A frozen model that refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


# Models ---------------------------------------------------------------------------------------


class HubModel(Strict):
    """Weights and tokenizer from the Hugging Face hub (safetensors only)."""

    kind: Literal["hub"]
    repository: str = Field(description="Hub repository, `owner/name`.")
    revision: str = Field("main", description="Branch, tag or commit.")


class LocalModel(Strict):
    """Weights and tokenizer from a local folder as written by `save_pretrained`."""

    kind: Literal["local"]
    path: str = Field(description="Folder; `{local_root}` is replaced by the run's `local_root`.")


class TrainedModel(Strict):
    """A tiny model that a rule of the workflow trains on the embedded datasets."""

    kind: Literal["trained"]
    architecture: Literal["llama", "mistral"] = Field(description="Model class and chat template.")
    datasets: tuple[Name, ...] = Field(min_length=1, description="Embedded datasets to train on.")
    hidden_size: int = Field(96, gt=0, description="Width of the residual stream.")
    layers: int = Field(4, gt=0, description="Decoder layers.")
    heads: int = Field(4, gt=0, description="Query heads.")
    key_value_heads: int = Field(2, gt=0, description="Key/value heads (grouped-query attention).")
    vocabulary_size: int = Field(1200, gt=0, description="Entries of the trained tokenizer.")
    context: int = Field(256, gt=0, description="Longest sequence, tokens.")
    steps: int = Field(1200, gt=0, description="Optimiser steps.")
    batch_size: int = Field(32, gt=0, description="Dialogues per optimiser step.")
    learning_rate: float = Field(1e-3, gt=0, description="Peak learning rate.")
    training_records: int = Field(6000, gt=0, description="Records per dataset to train on.")
    held_out_records: int = Field(100, gt=0, description="Records per dataset to test on.")
    required_accuracy: float = Field(
        0.98, gt=0, le=1, description="Held-out accuracy below which the rule fails."
    )
    seed: int = Field(1, description="Seed of weights and batches.")


class Resources(Strict):
    """What one job with this model asks of the machine."""

    gpu: int = Field(0, ge=0, description="GPUs per job.")
    mem_mb: int = Field(4000, ge=300, description="Main memory per job, MB.")
    runtime: int = Field(60, gt=0, description="Wall-clock limit per job, minutes.")
    threads: int = Field(1, gt=0, description="CPU threads per job.")


class ModelEntry(Strict):
    """One explained language model."""

    label: str = Field(description="Name in tables and figures.")
    source: Annotated[HubModel | LocalModel | TrainedModel, Field(discriminator="kind")]
    dtype: Literal["float32", "bfloat16", "float16", "float64"] = Field(
        "float32", description="Type of weights and activations."
    )
    quantization: Literal["none", "nf4"] = Field(
        "none", description="4-bit weights through bitsandbytes (`nf4`)."
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="`auto` takes a free CUDA device if there is one."
    )
    chat_template: Literal["tokenizer", "plain"] = Field(
        "tokenizer",
        description="`plain` joins the messages by blank lines, for models without a template.",
    )
    token_budget: PositiveInt | None = Field(
        None,
        description="Tokens per forward batch; null: 1024 on a CPU, whose caches it suits, and "
        "16384 on a GPU. The number used is stored with every result.",
    )
    compile: bool = Field(
        False,
        description="Whether evaluation compiles feed-forward blocks and norms by torch.compile: "
        "a minute of warm-up per job, and results that differ by rounding.",
    )
    resources: Resources = Field(default_factory=Resources, description="Job resources.")


# Masked language models -----------------------------------------------------------------------


class TrainedMaskedModel(Strict):
    """A tiny model of RoBERTa's architecture that a rule trains on the embedded datasets."""

    kind: Literal["trained"]
    datasets: tuple[Name, ...] = Field(min_length=1, description="Embedded datasets to train on.")
    hidden_size: int = Field(96, gt=0, description="Width of the residual stream.")
    layers: int = Field(2, gt=0, description="Encoder layers.")
    heads: int = Field(4, gt=0, description="Attention heads.")
    vocabulary_size: int = Field(1200, gt=0, description="Entries of the trained tokenizer.")
    context: int = Field(256, gt=0, description="Longest sequence, tokens.")
    steps: int = Field(800, gt=0, description="Optimiser steps.")
    batch_size: int = Field(32, gt=0, description="Prompts per optimiser step.")
    learning_rate: float = Field(4e-3, gt=0, description="Peak learning rate.")
    training_records: int = Field(6000, gt=0, description="Records per dataset to train on.")
    held_out_records: int = Field(100, gt=0, description="Records per dataset to test on.")
    required_accuracy: float = Field(
        0.3,
        gt=0,
        le=1,
        description="Share of masked held-out record tokens ranked first, below which the rule "
        "fails (the most frequent token alone: about 0.1).",
    )
    seed: int = Field(1, description="Seed of weights, masks and batches.")


class MaskedModelEntry(Strict):
    """One masked language model, which proposes replacements for tokens."""

    label: str = Field(description="Name in messages and reports.")
    source: Annotated[HubModel | LocalModel | TrainedMaskedModel, Field(discriminator="kind")]
    dtype: Literal["float32", "bfloat16", "float16"] = Field(
        "float32", description="Type of weights and activations."
    )
    device: Literal["auto", "cpu"] = Field(
        "auto", description="`auto` is the device of the explained model."
    )


# Datasets -------------------------------------------------------------------------------------


class HubDataset(Strict):
    """Records from the Hugging Face hub."""

    kind: Literal["hub"]
    repository: str = Field(description="Hub repository, `owner/name`.")
    split: str = Field(description="Split to read.")
    revision: str = Field("main", description="Branch, tag or commit.")
    configuration: str | None = Field(None, description="Hub configuration name, if any.")


class FileDataset(Strict):
    """Records from one local file."""

    kind: Literal["file"]
    path: str = Field(description="File; `{local_root}` is replaced by the run's `local_root`.")
    format: Literal["csv", "tsv", "jsonl", "parquet"] = Field(description="File format.")
    columns: tuple[str, ...] | None = Field(
        None, description="Column names of a csv or tsv file without a header line."
    )


class EmbeddedDataset(Strict):
    """Synthetic records with planted evidence, made by the workflow."""

    kind: Literal["embedded"]
    task: Literal["sentiment", "why"] = Field(description="Generator.")
    records: int = Field(200, gt=0, description="Records to make.")
    seed: int = Field(0, description="Seed of the records; training uses another.")


class TextField(Strict):
    """Where one text field comes from."""

    column: str = Field(description="Column of the source.")
    first_sentences: int | None = Field(
        None, gt=0, description="Keep only the first N sentences of the column."
    )


class Labels(Strict):
    """How the source's label column maps to the words the model is asked to answer with."""

    column: str = Field(description="Column of the source.")
    words: dict[str, str] = Field(
        min_length=2, description="Label word for each value of the column."
    )

    @field_validator("words", mode="before")
    @classmethod
    def _keys_as_text(cls, words: Any) -> Any:
        """YAML reads `0:` as a number and `true:` as a boolean; labels are compared as text."""
        if not isinstance(words, Mapping):
            return words
        return {label_key(key): word for key, word in words.items()}

    @field_validator("words")
    @classmethod
    def _distinct(cls, words: dict[str, str]) -> dict[str, str]:
        if len(set(words.values())) < len(words):
            raise ValueError(f"label words must differ, got {sorted(words.values())}")
        return words


class Message(Strict):
    """One turn of the prompt; `{field}` inserts a text field of the record."""

    role: Literal["system", "user"] = Field(description="Who speaks.")
    content: str = Field(min_length=1, description="Text with `{field}` placeholders.")


class DatasetEntry(Strict):
    """One dataset, its prompt and its target."""

    label: str = Field(description="Name in tables and figures.")
    task: Task = Field(description="`classification` (label words) or `generation` (open text).")
    source: Annotated[HubDataset | FileDataset | EmbeddedDataset, Field(discriminator="kind")]
    fields: dict[Name, TextField] = Field(min_length=1, description="Text fields of a record.")
    labels: Labels | None = Field(None, description="Label column; classification only.")
    id_column: str | None = Field(
        None, description="Column with a unique id; without it the id is a hash of the texts."
    )
    answer_column: str | None = Field(
        None, description="Column with a reference answer (kept, not used by the metrics)."
    )
    messages: tuple[Message, ...] = Field(min_length=1, description="The prompt, turn by turn.")
    samples: int | None = Field(
        None, gt=0, description="Records to sample, equally many per label; null takes all."
    )
    truncate: Name | None = Field(
        None, description="Field shortened when a prompt is too long; null: the longest one."
    )

    @field_validator("fields", mode="before")
    @classmethod
    def _short_form(cls, fields: Any) -> Any:
        """`text: sentence` is short for `text: {column: sentence}`."""
        if not isinstance(fields, Mapping):
            return fields
        return {k: {"column": v} if isinstance(v, str) else v for k, v in fields.items()}

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


# Methods --------------------------------------------------------------------------------------


class MethodEntry(Strict):
    """One attribution method with its options."""

    method: Name | None = Field(
        None, description="File in `scripts/pisoft/attribution/`; null: the entry's own name."
    )
    label: str | None = Field(None, description="Name in tables; null: the method's own label.")
    options: dict[str, Any] = Field(
        default_factory=dict, description="Options of the method; see `Options` in its file."
    )


def label_key(value: Any) -> str:
    """Return the text under which a label value is looked up (`True` → `"true"`, `1.0` → `"1"`)."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = str(value)
    return text.lower() if text in ("True", "False") else text


def placeholders(template: str) -> list[str]:
    """Return the field names that a message template inserts, in order."""
    return [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]
