"""Grad-ELLM: gradient-weighted values, gated by query-key similarity (paper §Grad-ELLM)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from pisoft.attribution.base import AttributionMethod, MethodOptions
from pisoft.config.base import TokenWeights
from pisoft.errors import BenchmarkError

if TYPE_CHECKING:
    import torch

    from pisoft.lm.attention import AttentionInputs
    from pisoft.lm.model import Batch, LanguageModel


class GradEllmOptions(MethodOptions):
    """What the paper leaves open, or varies."""

    layers: int | None = Field(
        None, gt=0, description="Decoder layers that are summed, counted from the last; null: all."
    )
    clip_layers: bool = Field(
        False, description="Take all layers, rather than refuse, if the model has fewer."
    )
    token_weights: TokenWeights = Field(
        "loosened",
        description="λ: min-max normalised query-key products over the prompt, or softmax "
        "attention.",
    )
    heads: Literal["merged", "per_head"] = Field(
        "merged",
        description="`merged`: one λ per token and one ReLU over all channels, as in Grad-ECLIP; "
        "`per_head`: λ and ReLU by query head, then summed.",
    )


class GradEllm(AttributionMethod):
    """H_i = Σ_layers ReLU(Σ_c w_c λ_i v_ic), w = ∂logit/∂(attention output) (paper Eq. 5).

    The attention output is taken before the output projection, at the predicting position. With
    `heads: merged`, λ comes from the query and key vectors of all heads joined (`loosened`), or
    is the mean of the heads' softmax attention (`original`).
    """

    label = "Grad-ELLM"
    family = "gradient"
    reference = "Huang and Chan, Faithfulness evaluation for decoder-only LLM attributions"
    Options = GradEllmOptions
    options: GradEllmOptions

    def check(self, model: LanguageModel) -> None:
        """Raise a BenchmarkError if more layers are asked for than the model has."""
        if self._depth(model) > model.layers:
            raise BenchmarkError(
                f"method 'grad_ellm': option layers: {self.options.layers} is more than the "
                f"{model.layers} decoder layers of model '{model.name}'"
            )

    def _depth(self, model: LanguageModel) -> int:
        """Return the number of layers that are summed."""
        wanted = self.options.layers or model.layers
        return min(wanted, model.layers) if self.options.clip_layers else wanted

    def attribute(self, model: LanguageModel, batch: Batch) -> list[torch.Tensor]:
        """Return raw scores, one tensor (steps, prompt tokens) per sample."""
        import torch

        from pisoft.lm.attention import AttentionRecorder
        from pisoft.lm.gradients import attributed_values

        first = model.layers - self._depth(model)
        chosen = range(first, model.layers)
        recorder = AttentionRecorder(layers=chosen, detach_at=first)
        embeddings = model.embed(batch.input_ids)
        logits = model.next_token_logits(embeddings, batch.positions, probe=recorder)
        values = attributed_values(logits, batch.targets, "logit")  # (B, S)
        outputs = [recorder.outputs[layer] for layer in chosen]
        samples = torch.arange(len(batch.samples), device=batch.device)
        scores = []
        for step in range(values.shape[1]):
            more = step + 1 < values.shape[1]
            gradients = torch.autograd.grad(values[:, step].sum(), outputs, retain_graph=more)
            positions = batch.positions[:, step]
            layer_scores = [
                self._layer_scores(
                    recorder.inputs[layer].rows(positions[:, None]),
                    gradient[samples, positions],
                    batch.prompt_mask,
                )
                for layer, gradient in zip(chosen, gradients, strict=True)
            ]
            scores.append(torch.stack(layer_scores).sum(dim=0))
        return batch.split(scores)

    def _layer_scores(
        self, row: AttentionInputs, weights: torch.Tensor, prompt: torch.Tensor
    ) -> torch.Tensor:
        """Return H_i of one layer, (B, T).

        Args:
            row: attention of the predicting position.
            weights: w, gradient of the target's logit, (B, H, D).
            prompt: true at prompt tokens, (B, T).
        """
        from pisoft.lm.precision import at_least_single

        value = at_least_single(row.per_query_head(row.value.detach()))
        channel_sums = (weights[:, :, None, :] * value).sum(dim=-1)  # Σ_c w_c v_ic, (B, H, T)
        token_weights = self._token_weights(row, prompt)  # (B, H or 1, T)
        if self.options.heads == "merged":
            channel_sums = channel_sums.sum(dim=1, keepdim=True)
        return (channel_sums * token_weights).relu().sum(dim=1)

    def _token_weights(self, row: AttentionInputs, prompt: torch.Tensor) -> torch.Tensor:
        """Return λ, (B, 1, T) if heads are merged, else (B, H, T)."""
        from pisoft.lm.precision import at_least_single

        merged = self.options.heads == "merged"
        if self.options.token_weights == "original":
            weights = at_least_single(row.probabilities().detach().squeeze(2))
            return weights.mean(dim=1, keepdim=True) if merged else weights
        products = at_least_single(row.scores().detach().squeeze(2))
        if merged:  # the product of joined vectors is the sum over heads
            products = products.sum(dim=1, keepdim=True)
        return _min_max(products, prompt[:, None, :])


def _min_max(values: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """Scale the allowed entries of the last axis to [0, 1]; all 1 if they are equal."""
    import torch

    low = values.masked_fill(~allowed, torch.inf).amin(dim=-1, keepdim=True)
    high = values.masked_fill(~allowed, -torch.inf).amax(dim=-1, keepdim=True)
    span = high - low
    return torch.where(span > 0, (values - low) / span, torch.ones_like(values))
