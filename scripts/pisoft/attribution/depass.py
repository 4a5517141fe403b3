"""DePass: every token's component of the hidden state that predicts the target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pisoft.attribution.base import AttributionMethod

if TYPE_CHECKING:
    import torch

    from pisoft.models.components import ComponentForward
    from pisoft.models.model import Batch, ExplainedSample, LanguageModel


class DePass(AttributionMethod):
    """w · x_i, x_i the component of token i in the final hidden state, w the target's unembedding.

    Components come from :class:`~pisoft.models.components.ComponentForward`. Every token read,
    generated ones included, has a component, and all biases share another; the scores of all
    components sum to the logit. Written from the paper's equations; its code was not read.
    """

    label = "DePass"
    family = "attention"
    reference = "Hong et al. (2025), DePass: unified feature attributing"
    non_negative = False
    needs_attention = True

    def check(self, model: LanguageModel) -> None:
        """Raise a BenchmarkError if hidden states cannot be decomposed, tried on a dozen tokens."""
        super().check(model)
        self._forward(model)

    def _forward(self, model: LanguageModel) -> ComponentForward:
        from pisoft.models.components import ComponentForward

        return self.prepared(model, ComponentForward)

    def forwards(self, prompt_tokens: float, steps: float) -> float:
        """Two forwards, and the components through a part of the weights.

        On average, a position holds the components of half the tokens, one of the biases, and a row
        of zeros. They pass through the value, output, gate and down projections, about 0.63 of a
        layer's weights.
        """
        return 2 + 0.63 * (2 + prompt_tokens / 2)

    def float32_forwards(self, prompt_tokens: float, steps: float) -> float:
        """All but the first forward."""
        return self.forwards(prompt_tokens, steps) - 1

    def attribute(self, model: LanguageModel, batch: Batch) -> list[torch.Tensor]:
        """Return signed scores, one tensor (steps, prompt tokens) per sample.

        Samples are read one at a time to save memory.
        """
        return [self._scores(model, sample) for sample in batch.samples]

    def _scores(self, model: LanguageModel, sample: ExplainedSample) -> torch.Tensor:
        import torch

        from pisoft.models.gradients import attributed_values
        from pisoft.models.model import Batch
        from pisoft.models.precision import at_least_float32

        batch = Batch([sample], model.device)
        components, hidden = self._forward(model).components(
            batch.input_ids, batch.positions[0], self.context.token_budget
        )
        with torch.enable_grad():  # the gradient at the final hidden state is the unembedding's row
            hidden = hidden.requires_grad_(True)
            values = attributed_values(model.logits(hidden[None]), batch.targets, "logit")
            (rows,) = torch.autograd.grad(values.sum(), hidden)
        scores = (components * at_least_float32(rows)[:, None]).sum(dim=-1)  # (S, C)
        return scores[:, 1 : 1 + len(sample.prompt_ids)]
