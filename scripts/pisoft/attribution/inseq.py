"""Any attribution method of the Inseq library, by its name in Inseq."""

from __future__ import annotations

import copy
import random
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from pisoft.attribution.base import AttributionMethod, GradientOptions
from pisoft.datasets.hub import first_line
from pisoft.errors import BenchmarkError, did_you_mean
from pisoft.seeds import keyed_generator

if TYPE_CHECKING:
    import torch

    from pisoft.models.model import Batch, ExplainedSample, LanguageModel

# What each does with Inseq 0.7.1 and transformers 5.23.
REFUSED = {
    "dummy": "it gives no scores",
    "grad_ellm": "it is a method of this benchmark, which has it under its own name",
    "layer_deeplift": "it gives every token the score zero",
    "layer_integrated_gradients": "it gives every token the score zero",
    "reagent": "it crashes or gives NaN, and needs a part-of-speech tagger's download",
    "value_zeroing": "it cannot read the decoder layers of transformers 5",
}
DISCRETIZED = "discretized_integrated_gradients"
NEED_SCIKIT_LEARN = (DISCRETIZED, "lime")
_OF_PATHS = ("n_steps", "method", "internal_batch_size", "return_convergence_delta")
# The other methods, and the arguments of their attribution: importing Inseq takes seconds, so this
# is checked without it.
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "attention": (),
    "deeplift": ("return_convergence_delta", "custom_attribution_func"),
    DISCRETIZED: _OF_PATHS,
    "gradient_shap": ("n_samples", "stdevs", "return_convergence_delta"),
    "input_x_gradient": (),
    "integrated_gradients": _OF_PATHS,
    "layer_gradient_x_activation": ("attribute_to_layer_input", "grad_kwargs"),
    "lime": ("n_samples", "perturbations_per_eval", "show_progress"),
    "occlusion": ("sliding_window_shapes", "strides", "perturbations_per_eval", "show_progress"),
    "saliency": ("abs",),
    "sequential_integrated_gradients": _OF_PATHS,
}
# Of their constructors.
LOAD_ARGUMENTS = dict.fromkeys(
    (
        "deeplift",
        DISCRETIZED,
        "gradient_shap",
        "integrated_gradients",
        "layer_gradient_x_activation",
        "sequential_integrated_gradients",
    ),
    ("multiply_by_inputs",),
)


class InseqOptions(GradientOptions):
    """The method of Inseq and its arguments."""

    attributed_function: Literal["probability", "logit"] = Field(
        "probability",
        description="The function of the target token that is explained: its probability or its "
        "logit.",
    )
    method: str = Field("occlusion", description="Name of the method in Inseq.")
    arguments: dict[str, Any] = Field(
        default_factory=dict, description="Arguments of its attribution, such as `{n_steps: 20}`."
    )
    load_arguments: dict[str, Any] = Field(
        default_factory=dict,
        description="Arguments of its constructor, such as `{multiply_by_inputs: false}`.",
    )
    layer: int | None = Field(
        None,
        description="Decoder layer, for methods that read attention; negative: counted from the "
        "last; null: mean over layers.",
    )

    @model_validator(mode="after")
    def _offered_by_inseq(self) -> InseqOptions:
        name = self.method
        if name in REFUSED:
            raise ValueError(f"method: '{name}' is refused: {REFUSED[name]}")
        if name not in ARGUMENTS:
            raise ValueError(
                f"method: '{name}' is not a method of Inseq" + did_you_mean(name, ARGUMENTS)
            )
        for option, table in (("arguments", ARGUMENTS), ("load_arguments", LOAD_ARGUMENTS)):
            allowed = table.get(name, ())
            for argument in getattr(self, option):
                if argument not in allowed:  # Inseq might ignore it
                    hint = did_you_mean(argument, allowed)
                    raise ValueError(f"{option}: '{name}' takes no '{argument}'{hint}")
        if self.layer is not None and name != "attention":
            raise ValueError(
                f"layer: {self.layer} is for methods that read attention, not for '{name}'; leave "
                "it out"
            )
        return self


class InseqMethod(AttributionMethod):
    """An attribution method of Inseq, step by step on token ids.

    Inseq's own loop reads text, which may be tokenised differently, and drops rows that hold the
    padding token. Here every step is passed as ids, and the ids of the result are compared. Scores
    are aggregated by Inseq's defaults (L2 norm over channels, mean over layers and heads), but not
    divided by their sum, because the evaluation normalises them.
    """

    label = "Inseq"
    family = "perturbation"
    reference = "Sarti et al. (2023), Inseq: an interpretability toolkit for sequence generation"

    Options = InseqOptions
    options: InseqOptions
    _loaded: Any = None

    def check(self, model: LanguageModel) -> None:
        """Refuse a missing layer, a missing scikit-learn, and models with embeddings per layer.

        Inseq would pass on only a part of embeddings that enter every layer.
        """
        if model.layer_width:
            raise BenchmarkError(
                f"method 'inseq': model '{model.name}' embeds tokens in every layer, and Inseq "
                "gives it input embeddings only"
            )
        if self.options.method in NEED_SCIKIT_LEARN and find_spec("sklearn") is None:
            raise BenchmarkError(f"{self._where} needs scikit-learn, which is not installed")
        layer = self.options.layer
        if layer is not None and not -model.layers <= layer < model.layers:
            raise BenchmarkError(
                f"method 'inseq': option layer: {layer} is not a layer of model '{model.name}' "
                f"(allowed: {-model.layers} to {model.layers - 1})"
            )

    def forwards(self, prompt_tokens: float, steps: float) -> float:
        """The passes of Inseq per step, with Inseq's default arguments."""
        arguments = self.options.arguments
        points = arguments.get("n_steps", 50)
        passes = {
            "attention": 1,
            "deeplift": 4,  # the baseline beside the input
            DISCRETIZED: 2 * arguments.get("n_steps", 30),
            "gradient_shap": 2 * arguments.get("n_samples", 5),
            "integrated_gradients": 2 * points,
            "lime": arguments.get("n_samples", 50),
            "occlusion": 1 + prompt_tokens,
            "sequential_integrated_gradients": 2 * points * prompt_tokens,
        }
        return steps * passes.get(self.options.method, 2)

    def attribute(self, model: LanguageModel, batch: Batch) -> list[torch.Tensor]:
        """Return raw scores, one tensor (steps, prompt tokens) per sample.

        Raises:
            BenchmarkError: a sample is longer than the model's context, or Inseq fails.
        """
        import torch

        inseq = self._inseq(model)
        with _lent(model):
            return [
                torch.stack([self._step_scores(inseq, model, one) for one in sample.apart()])
                for sample in batch.samples
            ]

    @property
    def _where(self) -> str:
        return f"method 'inseq': option method: '{self.options.method}'"

    def _inseq(self, model: LanguageModel) -> Any:
        """Return Inseq's wrapper of the model with the method, created once."""
        if self._loaded is None or self._loaded.model is not model.network:
            with _lent(model):
                self._loaded = self._load(model)
        return self._loaded

    def _load(self, model: LanguageModel) -> Any:
        from inseq.models import HuggingfaceModel

        arguments = dict(self.options.load_arguments)
        with tempfile.TemporaryDirectory() as folder:
            if self.options.method == DISCRETIZED:
                # Its cache of neighbours goes by the model's name, whatever the weights.
                arguments["cache_dir"] = Path(folder)
            try:
                return HuggingfaceModel.load(
                    model.network,
                    self.options.method,
                    tokenizer=copy.deepcopy(model.tokenizer),  # Inseq changes it
                    device=model.device.type,
                    **arguments,
                )
            except Exception as error:  # of Inseq, Captum or transformers, undocumented
                raise BenchmarkError(
                    f"{self._where} cannot be prepared for model '{model.name}': {_summary(error)}"
                ) from error

    def _step_scores(
        self, inseq: Any, model: LanguageModel, sample: ExplainedSample
    ) -> torch.Tensor:
        """Return the scores of a sample with one step, (prompt tokens,)."""
        from pisoft.models.batching import is_out_of_memory

        (step,), (target,), ids = sample.steps, sample.target_ids, sample.read_ids
        where = f"{self._where}: sample {sample.sample_id}, step {step}"
        if model.context is not None and len(ids) > model.context:
            raise BenchmarkError(
                f"{where}: {len(ids)} tokens are more than the {model.context} that model "
                f"'{model.name}' can read, and Inseq must not cut them"
            )
        generator = keyed_generator(self.context.seed, "inseq", sample.sample_id, step)
        try:
            with _seeded(generator, model.device):
                output = _attribute_ids(
                    inseq, sample, self.options.attributed_function, self.options.arguments
                )
        except Exception as error:  # whatever a value in `arguments` leads to
            if is_out_of_memory(error):  # the engine knows what to do
                raise
            raise BenchmarkError(f"{where}: Inseq fails: {_summary(error)}") from error
        scores = self._token_scores(inseq, output)
        read = [[token.id for token in row] for row in (output.prefix[0], output.target[0])]
        if read != [ids, [target]] or len(scores) != len(ids):
            raise BenchmarkError(
                f"{where}: Inseq scored {len(scores)} tokens with ids {read}, not {[ids, [target]]}"
            )
        return scores[: len(sample.prompt_ids)]

    def _token_scores(self, inseq: Any, output: Any) -> torch.Tensor:
        """Reduce Inseq's output for one step to one score per token, (T,)."""
        from inseq.data import GranularFeatureAttributionStepOutput

        scores = output.target_attributions[0].double()  # (T, ...), float32 from Inseq
        if inseq.attribution_method.is_final_step_method:
            scores = scores[:, -1]  # of all positions, the predicting one
        if isinstance(output, GranularFeatureAttributionStepOutput):
            return scores.norm(dim=-1)
        if self.options.layer is not None:
            scores = scores[:, self.options.layer]
        return scores.reshape(len(scores), -1).mean(dim=1)


def _attribute_ids(
    inseq: Any, sample: ExplainedSample, function: str, arguments: Mapping[str, Any]
) -> Any:
    """Return Inseq's step output for a sample of one step.

    The baseline is Inseq's: the unknown, else padding, else end-of-sequence token at every
    position, except at end-of-sequence tokens.
    """
    import torch
    from inseq.data import BatchEmbedding, BatchEncoding, DecoderOnlyBatch

    input_ids = torch.tensor([sample.read_ids], device=inseq.model.device)
    targets = torch.tensor(sample.target_ids, device=inseq.model.device)

    def contrast(args: Any) -> torch.Tensor:
        """Return the target's logit less the foil's, for each row that Inseq reads."""
        logits = args.attribution_model.output2logits(args.forward_output)
        return logits[:, sample.target_ids[0]] - logits[:, sample.foil_ids[0]]

    ends = input_ids == inseq.eos_token_id
    baseline_ids = input_ids.where(ends, inseq.tokenizer.unk_token_id)
    tokens, target_tokens = (
        inseq.convert_ids_to_tokens(row[None], skip_special_tokens=False)
        for row in (input_ids[0], targets)
    )
    batch = DecoderOnlyBatch(
        BatchEncoding(input_ids, torch.ones_like(input_ids), tokens, baseline_ids),
        BatchEmbedding(inseq.embed(input_ids), inseq.embed(baseline_ids)),
    )
    output = inseq.attribution_method.filtered_attribute_step(
        batch,
        target_ids=targets[:, None],
        attributed_fn=contrast if sample.foil_ids else inseq.get_attributed_fn(function),
        attribution_args=dict(arguments),  # occlusion adds its own
    )
    return inseq.formatter.enrich_step_output(inseq, output, batch, target_tokens, targets)


@contextmanager
def _lent(model: LanguageModel) -> Iterator[None]:
    """Lend a network to Inseq with eager attention, and restore it afterwards.

    Inseq only knows the current `cuda` device and sets a missing padding token. It would also keep
    a cache that it never reads and that checkpointed layers would fill twice.
    """
    import torch

    from pisoft.models.attention import attention_implementation

    device = model.device
    on_device = torch.cuda.device(device) if device.type == "cuda" else nullcontext()
    config = model.network.config
    inner = config.get_text_config()
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):  # Inseq looks no further
        setattr(config, name, getattr(inner, name, None))
    padding, use_cache = config.pad_token_id, inner.use_cache
    inner.use_cache = False
    with attention_implementation(model.network, "eager"), on_device:
        try:
            yield
        finally:
            config.pad_token_id, inner.use_cache = padding, use_cache


@contextmanager
def _seeded(generator: np.random.Generator, device: torch.device) -> Iterator[None]:
    """Seed the random streams of Inseq and Captum, and restore them afterwards."""
    import torch

    states = random.getstate(), np.random.get_state()
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        seed = int(generator.integers(2**32))
        torch.manual_seed(seed)
        np.random.seed(seed)
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])


def _summary(error: Exception) -> str:
    return f"{type(error).__name__}: {first_line(error)}"
