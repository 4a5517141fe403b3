"""Grad-ELLM inside the Inseq library: importing this module registers it as `grad_ellm`.

import inseq
import pisoft.attribution.inseq_bridge
model = inseq.load_model("meta-llama/Llama-3.1-8B-Instruct", "grad_ellm", layers=4)
model.attribute("Why is the sky blue?").show()
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from inseq.attr.feat.internals_attribution import InternalsAttributionRegistry
from inseq.data import CoarseFeatureAttributionStepOutput, FeatureAttributionOutput

from pisoft.attribution import load_method
from pisoft.attribution.base import AttributionMethod, Context
from pisoft.config.validation import validate
from pisoft.errors import BenchmarkError
from pisoft.models.attention import ATTENTION_NAME, attention_implementation
from pisoft.models.model import Batch, ExplainedSample, LanguageModel


class GradEllmAttribution(InternalsAttributionRegistry):
    """Grad-ELLM as an attribution method of Inseq, with the scores of our `grad_ellm`.

    Pass the options of :class:`pisoft.attribution.grad_ellm.GradEllmOptions` to `inseq.load_model`,
    or to `attribute` for one call. The logit is always the explained function. Only the prompt is
    scored: tokens generated before a step are NaN, like Inseq's tokens after it.

    Raises:
        BenchmarkError: an unknown option, or more layers than the model has.
    """

    method_name = "grad_ellm"

    def __init__(self, attribution_model: Any, **options: Any) -> None:
        self._options = options
        self._prompt_tokens: int | None = None
        self._explained: LanguageModel | None = None
        _grad_ellm(options)
        super().__init__(attribution_model)

    def get_attribution_args(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Split the arguments of `attribute` into the options of Grad-ELLM and the others."""
        fields = load_method(self.method_name).Options.model_fields
        ours = {name: value for name, value in kwargs.items() if name in fields}
        return ours, {name: value for name, value in kwargs.items() if name not in fields}

    def prepare_and_attribute(
        self, sources: Sequence[str], targets: Sequence[str], **arguments: Any
    ) -> list[FeatureAttributionOutput]:
        """Attribute one text at a time, without padding, whatever the `batch_size`.

        Token weights are scaled over the prompt, whose end is known only here.
        """
        arguments["batch_size"] = None
        outputs = []
        for source, target in zip(sources, targets, strict=True):
            encoded = self.attribution_model.encode(
                [source], add_special_tokens=not arguments.get("skip_special_tokens", False)
            )
            self._prompt_tokens = encoded.input_ids.shape[1]
            try:
                outputs += super().prepare_and_attribute([source], [target], **arguments)
            finally:
                self._prompt_tokens = None
        return outputs

    def attribute_step(
        self,
        attribute_fn_main_args: Mapping[str, Any],
        attribution_args: Mapping[str, Any] | None = None,
    ) -> CoarseFeatureAttributionStepOutput:
        """Return scores (1, tokens read) of the next token's logit, NaN after the prompt."""
        ids, target, *_ = attribute_fn_main_args["additional_forward_args"]
        if self._prompt_tokens is None or len(ids) != 1:
            raise BenchmarkError(
                "inseq: grad_ellm works through `attribute` of a loaded model only"
            )
        read, prompt = ids[0].tolist(), self._prompt_tokens
        sample = ExplainedSample(
            "inseq", read[:prompt], read[prompt:], [len(read) - prompt], target.flatten().tolist()
        )
        method = _grad_ellm({**self._options, **(attribution_args or {})})
        with self._model() as model:
            method.check(model)
            (scores,) = method.attribute(model, Batch([sample], model.device))  # (1, prompt)
        unscored = scores.new_full((1, len(read) - prompt), torch.nan)
        return CoarseFeatureAttributionStepOutput(
            target_attributions=torch.cat([scores, unscored], dim=1), step_scores={}
        )

    @contextmanager
    def _model(self) -> Iterator[LanguageModel]:
        """Wrap Inseq's model as a :class:`LanguageModel`: frozen, with the attention probe."""
        network = self.attribution_model.model
        trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
        with attention_implementation(network, ATTENTION_NAME):
            try:
                if self._explained is None or self._explained.network is not network:
                    self._explained = LanguageModel(network, network.config.name_or_path)
                network.eval().requires_grad_(False)
                yield self._explained
            finally:
                for parameter in trained:
                    parameter.requires_grad_(True)


def _grad_ellm(options: Mapping[str, Any]) -> AttributionMethod:
    method = load_method("grad_ellm")
    return method(validate(method.Options, dict(options), "inseq: grad_ellm"), Context(seed=0))
