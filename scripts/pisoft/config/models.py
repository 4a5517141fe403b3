"""Catalogue entries of language models, explained and masked."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from pisoft.config.base import HubName, Name, Strict

Parameters = Annotated[
    float | None,
    Field(
        gt=0,
        description="Number of weights, which `make plan` and the jobs' limits go by; of a mixture "
        "of experts, those that a token is multiplied by.",
    ),
]
Layers = Annotated[
    int | None,
    Field(
        gt=0,
        description="Number of decoder layers: which depth of a layer study is all of them.",
    ),
]


class HubModel(Strict):
    """Weights and tokenizer from the Hugging Face hub (safetensors only)."""

    kind: Literal["hub"]
    repository: HubName = Field(description="Hub repository, `owner/name`.")
    revision: HubName = Field("main", description="Branch, tag or commit.")
    parameters: Parameters = None
    layers: Layers = None


class LocalModel(Strict):
    """Weights and tokenizer from a local folder as written by `save_pretrained`."""

    kind: Literal["local"]
    path: str = Field(description="Folder; `{local_root}` is replaced by the run's `local_root`.")


class GgufModel(Strict):
    """Weights and tokenizer from one GGUF file, which a rule of the workflow dequantises."""

    kind: Literal["gguf"]
    path: str = Field(description="File; `{local_root}` is replaced by the run's `local_root`.")
    parameters: Parameters = None
    layers: Layers = None


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
    steps: int = Field(600, gt=0)
    """Optimiser steps at most; fewer if the task is solved before."""
    batch_size: int = Field(32, gt=0, description="Dialogues per optimiser step.")
    learning_rate: float = Field(3e-3, gt=0, description="Peak learning rate.")
    training_records: int = Field(4000, gt=0, description="Records per dataset to train on.")
    held_out_records: int = Field(100, gt=0, description="Records per dataset to test on.")
    required_accuracy: float = Field(0.98, gt=0, le=1)
    """Held-out accuracy below which the rule fails."""
    seed: int = Field(1, description="Seed of weights and batches.")


ModelSource = HubModel | LocalModel | GgufModel | TrainedModel


class Resources(Strict):
    """What one job with this model asks of the machine."""

    gpu: int = Field(0, ge=0, le=1, description="GPUs per job. Weights are never split.")
    mem_mb: int | None = Field(None, ge=300)
    """Main memory per job, MB; null: as planned, with room."""
    runtime: int | None = Field(None, gt=0)
    """Wall-clock limit per job, minutes; null: as planned, with room, on a GPU whose `throughput`
    the profile states; 60 elsewhere."""
    threads: int = Field(1, gt=0, description="CPU threads per job.")


# Tokens per forward batch where nothing else is said, by kind of device.
TOKEN_BUDGETS = {"cpu": 1024, "cuda": 16384}


class ModelEntry(Strict):
    """One explained language model."""

    label: str = Field(description="Name in tables and figures.")
    source: Annotated[ModelSource, Field(discriminator="kind")]
    dtype: Literal["float32", "bfloat16", "float16", "float64"] = "float32"
    """Type of weights and activations."""
    quantization: Literal["none", "nf4"] = "none"
    """4-bit weights through bitsandbytes (`nf4`)."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """`auto` is a free CUDA device if `resources.gpu` is 1, and the CPU if it is 0."""
    chat_template: Literal["tokenizer", "plain"] = "tokenizer"
    """`plain` joins the messages by blank lines, for models without a template."""
    token_budget: PositiveInt | None = None
    """Tokens per forward batch; null: 1024 on a CPU, whose caches it suits, and 16384 on a GPU. The
    number used is stored with every result."""
    compile: bool = False
    """Whether evaluation compiles feed-forward blocks and norms by torch.compile: a minute of
    warm-up per job, and results that differ by rounding."""
    shard_factor: float = Field(1, gt=0)
    """A dataset's `shard_size` times this is that of the model's jobs."""
    resources: Resources = Field(default_factory=Resources, description="Job resources.")

    @property
    def number_type(self) -> str:
        """The type of weights and activations, with that of quantised weights, in words."""
        return self.dtype + ("" if self.quantization == "none" else f", {self.quantization}")

    @model_validator(mode="after")
    def _has_its_device(self) -> ModelEntry:
        if self.device == "cuda" and not self.resources.gpu:
            raise ValueError("device: is 'cuda', but resources.gpu is 0; allowed with 1")
        return self


class UnigramMaskedModel(Strict):
    """A masked model that a rule makes: it proposes tokens of embedded datasets by frequency."""

    kind: Literal["unigram"]
    datasets: tuple[Name, ...] = Field(min_length=1, description="Embedded datasets to count in.")
    records: int = Field(2000, gt=0, description="Records per dataset, none of them evaluated.")
    vocabulary_size: int = Field(1200, gt=0, description="Entries of the trained tokenizer.")
    context: int = Field(256, gt=0, description="Longest sequence, tokens.")


class MaskedModelEntry(Strict):
    """One masked language model, which proposes replacements for tokens."""

    label: str = Field(description="Name in messages and reports.")
    source: Annotated[HubModel | LocalModel | UnigramMaskedModel, Field(discriminator="kind")]
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Type of weights and activations."""
    device: Literal["auto", "cpu"] = "auto"
    """`auto` is the device of the explained model."""
