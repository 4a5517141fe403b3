"""FlashTrace: shares of the residual stream at the predicting position, summed over layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pisoft.attribution.flow import FlowMethod

if TYPE_CHECKING:
    import torch

    from pisoft.models.layers import LayerCall
    from pisoft.models.model import Batch, LanguageModel


class FlashTrace(FlowMethod):
    """Σ_k M_tj over layers k, M_tj the share of token j at the predicting position t.

    The shares are those of :func:`~pisoft.models.flow.attention_shares`, as in `ifr`, but not
    multiplied through the layers. A step's span is its one target token, and nothing hops over
    generated tokens. As in `ifr`, the position is the one that predicts the target, and values
    include their biases; the authors' code, which was not read, is said to differ in both.
    """

    label = "FlashTrace"
    reference = "Pan et al. (2026), Towards long-horizon interpretability"

    def forwards(self, prompt_tokens: float, steps: float) -> float:
        """One forward serves all steps; the output projection runs once more."""
        return 1.1

    def float32_forwards(self, prompt_tokens: float, steps: float) -> float:
        """The output projection of the values of each head."""
        return 0.1

    def attribute(self, model: LanguageModel, batch: Batch) -> list[torch.Tensor]:
        """Return sums of shares, one tensor (steps, prompt tokens) per sample."""
        import torch

        from pisoft.models.flow import attention_shares
        from pisoft.models.layers import visit_layers

        shares: list[list[torch.Tensor]] = [[] for _ in batch.samples]
        writes = self.writes(model)

        def add_layer(call: LayerCall) -> None:
            write = writes[call.inputs.layer]
            for index, sample in enumerate(batch.samples):
                keys, _ = attention_shares(
                    *(call, write, index, len(sample.steps), len(sample.read_ids)),
                    self.context.token_budget,
                )
                shares[index].append(keys[:, : len(sample.prompt_ids)])

        visit_layers(model, model.embed(batch.input_ids), batch.positions, add_layer)
        return [torch.stack(layer_shares).sum(dim=0) for layer_shares in shares]
