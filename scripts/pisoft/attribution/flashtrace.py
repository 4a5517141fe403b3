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

    The shares come from :func:`~pisoft.models.flow.attention_shares`, as in `ifr`, but are not
    multiplied through the layers. A step's span is its single target token, without hops over
    generated tokens. As in `ifr`, t is the position that predicts the target, and values include
    biases; the authors' code, which was not read, reportedly differs in both.
    """

    label = "FlashTrace"
    reference = "Pan et al. (2026), Towards long-horizon interpretability"

    def forwards(self, prompt_tokens: float, steps: float) -> float:
        """One forward for all steps, and the output projection once more."""
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
