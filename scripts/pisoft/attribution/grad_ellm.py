"""Grad-ELLM: gradient-weighted values, gated by query-key similarity (paper §Grad-ELLM)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from pisoft.attribution.base import AttributionMethod, MethodOptions
from pisoft.config.base import TokenWeights

if TYPE_CHECKING:
    import torch

    from pisoft.models.attention import AttentionInputs
    from pisoft.models.model import Batch, LanguageModel


class GradEllmOptions(MethodOptions):
    """Choices that the paper leaves open or varies."""

    layers: int | None = Field(
        None, gt=0, description="Number of decoder layers to sum, counted from the last; null: all."
    )
    clip_layers: bool = Field(
        False, description="Sum all layers, instead of failing, if the model has fewer."
    )
    token_weights: TokenWeights = Field(
        "loosened",
        description="λ. `loosened`: min-max normalised query-key similarities of the tokens within "
        "the layer's attention span; `original`: the model's attention weights.",
    )
    similarity: Literal["dot", "cosine"] = Field(
        "dot",
        description="Similarity of query and key for loosened λ. `dot`: dot product, as in the "
        "paper's formula; `cosine`: cosine, as in Grad-ECLIP's code, which computes it "
        "after the output projection.",
    )
    normalise_over: Literal["prompt", "content"] = Field(
        "prompt",
        description="Tokens over which loosened λ is min-max normalised. `prompt`: all of the "
        "prompt, as we read the paper; `content`: those of the record, with λ of the "
        "others clipped to [0, 1], as Grad-ECLIP's code excludes the class token of an "
        "image.",
    )
    heads: Literal["merged", "per_head"] = Field(
        "merged",
        description="`merged`: one λ per token and one sum over all channels, as in Grad-ECLIP's "
        "code; `per_head`: one λ and one sum per query head.",
    )
    relu: Literal["layer", "sum"] = Field(
        "layer",
        description="Where ReLU applies. `layer`: to every layer (and head, with `per_head`), "
        "before the sum, as in the paper's equation; `sum`: to the sum over layers and "
        "heads, as in Grad-ECLIP's code for several layers of the text encoder.",
    )

    @model_validator(mode="after")
    def _read_what_is_given(self) -> GradEllmOptions:
        if self.token_weights == "original" and (self.similarity, self.normalise_over) != (
            "dot",
            "prompt",
        ):
            raise ValueError("similarity and normalise_over apply only to token_weights: loosened")
        return self


class GradEllm(AttributionMethod):
    """H_i = Σ_layers ReLU(Σ_c w_c λ_i v_ic), w = ∂logit/∂(attention output) (paper Eq. 5).

    The attention output is taken before the output projection, at the predicting position. Queries
    and keys include rotary embeddings. λ is 0 for tokens outside the layer's sliding window. With
    `heads: merged`, λ comes from the concatenated query and key vectors of all heads (`loosened`),
    or is the heads' mean softmax attention (`original`). `relu: sum` takes ReLU(Σ_layers Σ_c …).
    """

    label = "Grad-ELLM"
    family = "gradient"
    reference = "Huang and Chan, Faithfulness evaluation for decoder-only LLM attributions"
    needs_attention = True
    Options = GradEllmOptions
    options: GradEllmOptions

    def check(self, model: LanguageModel) -> None:
        """Raise a BenchmarkError if option `layers` exceeds the model's."""
        super().check(model)
        self._layers(model)

    def _layers(self, model: LanguageModel) -> range:
        count = self.options.layers
        if count is not None and self.options.clip_layers:
            count = min(count, model.layers)
        return self.last_layers(model, count)

    def attribute(self, model: LanguageModel, batch: Batch) -> list[torch.Tensor]:
        """Return raw scores, one tensor (steps, prompt tokens) per sample."""
        import torch

        from pisoft.models.attention import AttentionRecorder
        from pisoft.models.gradients import attributed_values, gradients_by_step

        chosen = self._layers(model)
        scaled_over = (
            batch.prompt_mask if self.options.normalise_over == "prompt" else batch.content_mask
        )
        recorder = AttentionRecorder(layers=chosen, detach_at=chosen[0])
        embeddings = model.embed(batch.input_ids)
        logits = model.next_token_logits(embeddings, batch.positions, probe=recorder)
        values = attributed_values(logits, batch.targets, "logit")  # (B, S)
        outputs = [recorder.outputs[layer] for layer in chosen]
        samples = torch.arange(len(batch.samples), device=batch.device)
        scores = []
        steps = gradients_by_step(values, outputs)
        for positions, gradients in zip(batch.positions.unbind(dim=1), steps, strict=True):
            layer_scores = [
                self._layer_scores(
                    recorder.inputs[layer].rows(positions[:, None]),
                    gradient[samples, positions],
                    scaled_over,
                )
                for layer, gradient in zip(chosen, gradients, strict=True)
            ]
            scores.append(torch.stack(layer_scores).sum(dim=0).relu())
        return batch.split(scores)

    def _layer_scores(
        self, row: AttentionInputs, weights: torch.Tensor, scaled_over: torch.Tensor
    ) -> torch.Tensor:
        """Return H_i of one layer, (B, T); without the ReLU if it applies to the sum over layers.

        `weights` is w, (B, H, D); `scaled_over` marks the tokens of the min-max normalisation, (B,
        T).
        """
        from pisoft.models.precision import at_least_float32

        value = at_least_float32(row.per_query_head(row.value.detach()))
        channel_sums = (weights[:, :, None, :] * value).sum(dim=-1)  # Σ_c w_c v_ic, (B, H, T)
        token_weights = self._token_weights(row, scaled_over)  # (B, H or 1, T)
        if self.options.heads == "merged":
            channel_sums = channel_sums.sum(dim=1, keepdim=True)
        contributions = channel_sums * token_weights
        if self.options.relu == "layer":
            contributions = contributions.relu()
        return contributions.sum(dim=1)

    def _token_weights(self, row: AttentionInputs, scaled_over: torch.Tensor) -> torch.Tensor:
        """Return λ, (B, 1, T) if heads are merged, else (B, H, T)."""
        from pisoft.models.precision import at_least_float32

        merged = self.options.heads == "merged"
        if self.options.token_weights == "original":
            weights = at_least_float32(row.probabilities().detach().squeeze(2))
            return weights.mean(dim=1, keepdim=True) if merged else weights
        similarities = at_least_float32(row.scores().detach().squeeze(2))
        if merged:  # the product of joined vectors is the sum over heads
            similarities = similarities.sum(dim=1, keepdim=True)
        if self.options.similarity == "cosine":  # the query's norm is one for all tokens
            squares = at_least_float32(row.per_query_head(row.key.detach())).square().sum(dim=-1)
            squares = squares.sum(dim=1, keepdim=True) if merged else squares
            similarities = similarities / squares.sqrt()
        visible = row.visible().squeeze(2)  # (B, 1, T)
        weights = _min_max(similarities, scaled_over[:, None, :] & visible).clamp(0, 1)
        return weights.masked_fill(~visible, 0)


def _min_max(values: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """Scale the last axis so that its allowed entries span [0, 1]; all 1 if they are equal."""
    import torch

    low = values.masked_fill(~allowed, torch.inf).amin(dim=-1, keepdim=True)
    high = values.masked_fill(~allowed, -torch.inf).amax(dim=-1, keepdim=True)
    span = high - low
    return torch.where(span > 0, (values - low) / span, torch.ones_like(values))
