"""Base class of methods that multiply the input by the gradient of a modified backward pass."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from pisoft.attribution.base import AttributionMethod
from pisoft.errors import BenchmarkError

if TYPE_CHECKING:
    import torch

    from pisoft.models.model import Batch, LanguageModel
    from pisoft.models.modified_backward import BackwardRules, ModifiedBackward


class ModifiedBackwardMethod(AttributionMethod):
    """Σ_c (x_ic − b_ic) g_ic over the embedding channels, signed.

    g is the gradient of the target's logit under the :meth:`rules` of a subclass, and b a baseline,
    zero by default.
    """

    family = "gradient"
    non_negative = False
    needs_attention = True
    modifies_backward = True
    explains_spans = True

    @abstractmethod
    def rules(self) -> BackwardRules:
        """Return the rules of the backward pass."""

    def difference(self, model: LanguageModel, input_ids: torch.Tensor) -> torch.Tensor:
        """Return x − b (B, T, d) of token ids (B, T), float32 or better."""
        from pisoft.models.precision import at_least_float32

        return at_least_float32(model.embed(input_ids))

    def check(self, model: LanguageModel) -> None:
        """Raise a BenchmarkError if the model is quantised or its backward pass cannot be modified.

        This is tested on a dozen tokens; see :mod:`pisoft.models.modified_backward`.
        """
        super().check(model)
        if getattr(model.network, "is_quantized", False):
            raise BenchmarkError(
                f"method '{self.name}': model '{model.name}': its weights are quantised, but "
                "a modified backward pass needs weights that are not (quantization: none)"
            )
        self._engine(model)

    def _engine(self, model: LanguageModel) -> ModifiedBackward:
        from pisoft.models.modified_backward import ModifiedBackward

        return self.prepared(model, ModifiedBackward)

    def attribute(self, model: LanguageModel, batch: Batch) -> list[torch.Tensor]:
        """Return signed scores, one tensor (steps, prompt tokens) per sample."""
        from pisoft.models.gradients import embedding_gradients

        difference = self.difference(model, batch.input_ids)
        with self._engine(model).applied(self.rules()) as probe:
            steps = embedding_gradients(model, batch, "logit", probe=probe)
            return batch.split([(difference * gradients).sum(dim=-1) for gradients in steps])
