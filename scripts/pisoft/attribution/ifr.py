"""Information flow routes: shares of the residual stream, multiplied through the layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pisoft.attribution.flow import FlowMethod

if TYPE_CHECKING:
    import torch

    from pisoft.models.layers import LayerCall
    from pisoft.models.model import Batch, LanguageModel


class InformationFlowRoutes(FlowMethod):
    """Row of the predicting position of Π_layers M, M_tj the share of token j at position t.

    The shares come from :func:`~pisoft.models.flow.attention_shares`; the residual's share is on
    the diagonal, so the rows of M sum to one. Feed-forward blocks move nothing between positions,
    so they change no score. The paper extracts a graph of large shares; the product covers all
    routes. The authors' code is CC BY-NC and was not read.
    """

    label = "IFR"
    reference = "Ferrando and Voita (2024), Information flow routes"

    def forwards(self, prompt_tokens: float, steps: float) -> float:
        """One forward serves all steps; attention and the output projection run twice more."""
        return 1.2

    def float32_forwards(self, prompt_tokens: float, steps: float) -> float:
        """Output projections: one at all positions, and one of the values of each head."""
        return 0.2

    def elements(self, tokens: float) -> float:
        """One per layer, head, channel and pair of tokens, which dominates on long prompts.

        Assumes layers of 12 · width² weights and heads of 128 channels.
        """
        return tokens**2 / 2 / (12 * 128)

    def attribute(self, model: LanguageModel, batch: Batch) -> list[torch.Tensor]:
        """Return shares, one tensor (steps, prompt tokens) per sample."""
        import torch

        from pisoft.models.flow import attention_shares
        from pisoft.models.layers import visit_layers

        lengths = [len(sample.read_ids) for sample in batch.samples]
        routes: list[torch.Tensor] = [torch.eye(length) for length in lengths]
        writes = self.writes(model)

        def add_layer(call: LayerCall) -> None:
            write = writes[call.inputs.layer]
            for index, length in enumerate(lengths):
                keys, residual = attention_shares(
                    call, write, index, length, length, self.context.token_budget
                )
                routes[index] = (keys + residual.diag()) @ routes[index].to(keys)

        every = torch.arange(max(lengths), device=batch.device).expand(len(lengths), -1)
        visit_layers(model, model.embed(batch.input_ids), every, add_layer)
        return [
            route[positions[: len(sample.steps)], : len(sample.prompt_ids)]
            for route, positions, sample in zip(routes, batch.positions, batch.samples, strict=True)
        ]
