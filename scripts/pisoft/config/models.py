"""Catalogue entries of language models, explained and masked."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from pisoft.config.base import MOST_RECORDS, Label, Name, Repository, Revision, Strict

ADAPTER = "adapter_config.json"  # transformers would apply it to the weights beside it
MOST_LAYERS = 1000  # no model has more
MOST_WIDTH = 100_000  # likewise
MOST_STEPS = 1_000_000  # per training; a day on a GPU

Parameters = Annotated[
    float | None,
    Field(
        gt=0,
        description="Number of weights, from which `make plan` and the jobs' limits are computed; "
        "for a mixture of experts, the active ones.",
    ),
]
Layers = Annotated[
    int | None, Field(gt=0, description="Number of decoder layers, for the layer study.")
]


class HubModel(Strict):
    """Weights and tokenizer from the Hugging Face hub (safetensors only)."""

    kind: Literal["hub"]
    repository: Repository = Field(description="Hub repository, `owner/name`.")
    revision: Revision = Field("main", description="Branch, tag or commit.")
    parameters: Parameters = None
    layers: Layers = None


class LocalModel(Strict):
    """Weights and tokenizer from a local folder as written by `save_pretrained`."""

    kind: Literal["local"]
    path: str = Field(description="Folder; `{local_root}` is replaced by the run's `local_root`.")


class GgufModel(Strict):
    """Weights and tokenizer from a GGUF file, which the workflow dequantises."""

    kind: Literal["gguf"]
    path: str = Field(description="File; `{local_root}` is replaced by the run's `local_root`.")
    parameters: Parameters = None
    layers: Layers = None


class TrainedModel(Strict):
    """A tiny model that the workflow trains on embedded datasets."""

    kind: Literal["trained"]
    architecture: Literal["llama", "mistral"] = Field(description="Model class and chat template.")
    datasets: tuple[Name, ...] = Field(min_length=1, description="Embedded datasets to train on.")
    hidden_size: int = Field(96, gt=0, le=MOST_WIDTH, description="Width of the residual stream.")
    layers: int = Field(4, gt=0, le=MOST_LAYERS, description="Decoder layers.")
    heads: int = Field(4, gt=0, description="Query heads.")
    key_value_heads: int = Field(2, gt=0, description="Key/value heads (grouped-query attention).")
    vocabulary_size: int = Field(1200, gt=0, description="Entries of the trained tokenizer.")
    context: int = Field(256, gt=0, description="Longest sequence, tokens.")
    steps: int = Field(600, gt=0, le=MOST_STEPS)
    """Most optimiser steps; training stops early once the task is solved."""
    batch_size: int = Field(32, gt=0, description="Dialogues per optimiser step.")
    learning_rate: float = Field(3e-3, gt=0, description="Peak learning rate.")
    training_records: int = Field(
        4000, gt=0, le=MOST_RECORDS, description="Records per dataset to train on."
    )
    held_out_records: int = Field(
        100, gt=0, le=MOST_RECORDS, description="Records per dataset to test on."
    )
    required_accuracy: float = Field(0.98, gt=0, le=1)
    """The rule fails if held-out accuracy is lower."""
    seed: int = Field(1, ge=0, description="Seed of weights and batches.")

    @model_validator(mode="after")
    def _heads_fit(self) -> TrainedModel:
        if self.hidden_size % (2 * self.heads):
            raise ValueError(
                f"hidden_size: {self.hidden_size} is not allowed with {self.heads} heads, whose "
                f"width must be even; allowed are multiples of {2 * self.heads}"
            )
        if self.heads % self.key_value_heads:
            raise ValueError(
                f"key_value_heads: {self.key_value_heads} is not allowed with {self.heads} heads; "
                "allowed are numbers that divide it"
            )
        return self


ModelSource = HubModel | LocalModel | GgufModel | TrainedModel


class Resources(Strict):
    """Resources of each job of a model."""

    gpu: int = Field(0, ge=0, le=1, description="GPUs per job. Weights are never split.")
    mem_mb: int | None = Field(None, ge=300)
    """Main memory per job, MB; null: planned, with headroom."""
    runtime: int | None = Field(None, gt=0)
    """Wall-clock limit per job, minutes; null: planned, with headroom, if the profile states the
    GPU's `throughput`, else 60."""
    threads: int = Field(1, gt=0, description="CPU threads per job.")


# Default tokens per forward batch, by type of device.
TOKEN_BUDGETS = {"cpu": 1024, "cuda": 16384}


class ModelEntry(Strict):
    """One explained language model."""

    label: Label = Field(description="Name in tables and figures.")
    source: Annotated[ModelSource, Field(discriminator="kind")]
    dtype: Literal["float32", "bfloat16", "float16", "float64"] = "float32"
    """Type of weights and activations."""
    quantization: Literal["none", "nf4"] = "none"
    """`nf4`: 4-bit weights through bitsandbytes."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """`auto`: a free CUDA device if `resources.gpu` is 1, else the CPU."""
    chat_template: Literal["tokenizer", "plain"] = "tokenizer"
    """`plain` joins messages with blank lines, for models without a template."""
    token_budget: PositiveInt | None = None
    """Tokens per forward batch; null: 1024 on a CPU, 16384 on a GPU. Results record the number
    used."""
    compile: bool = False
    """Compile feed-forward blocks and norms with torch.compile for the evaluation. Warm-up takes a
    minute per job; results differ by rounding."""
    shard_factor: float = Field(1, gt=0)
    """Multiplies the `evaluation_shard_size` of every dataset for this model."""
    resources: Resources = Field(default_factory=Resources, description="Job resources.")

    @property
    def number_type(self) -> str:
        """Type of weights and activations, and of quantised weights, as text."""
        return self.dtype + ("" if self.quantization == "none" else f", {self.quantization}")

    @property
    def is_quantised_once(self) -> bool:
        """Whether a rule stores 4-bit weights, which spares other jobs the full hub weights."""
        return self.quantization != "none" and isinstance(self.source, HubModel)

    @property
    def is_converted(self) -> bool:
        """Whether a rule converts the weights that jobs load, from GGUF or to 4 bits."""
        return self.is_quantised_once or isinstance(self.source, GgufModel)

    @model_validator(mode="after")
    def _has_its_device(self) -> ModelEntry:
        if self.device == "cuda" and not self.resources.gpu:
            raise ValueError("device: is 'cuda', but resources.gpu is 0; allowed with 1")
        return self


class UnigramMaskedModel(Strict):
    """A unigram model of embedded datasets, counted by the workflow: proposes frequent tokens."""

    kind: Literal["unigram"]
    datasets: tuple[Name, ...] = Field(min_length=1, description="Embedded datasets to count in.")
    records: int = Field(
        2000, gt=0, le=MOST_RECORDS, description="Records per dataset, none of them evaluated."
    )
    vocabulary_size: int = Field(1200, gt=0, description="Entries of the trained tokenizer.")
    context: int = Field(256, gt=0, description="Longest sequence, tokens.")


class MaskedModelEntry(Strict):
    """One masked language model, which proposes replacement tokens."""

    label: Label = Field(description="Name in messages and reports.")
    source: Annotated[HubModel | LocalModel | UnigramMaskedModel, Field(discriminator="kind")]
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Type of weights and activations."""
    device: Literal["auto", "cpu"] = "auto"
    """`auto`: the device of the explained model."""
