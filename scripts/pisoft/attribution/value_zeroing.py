"""Value zeroing, in closed form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from pisoft.attribution.base import AttributionMethod, MethodOptions
from pisoft.errors import BenchmarkError

if TYPE_CHECKING:
    import torch

    from pisoft.lm.attention import AttentionInputs
    from pisoft.lm.model import Batch, LanguageModel


class ValueZeroingOptions(MethodOptions):
    """How a layer's distances become scores; the defaults are what Inseq does."""

    threshold: float = Field(
        1e-5,
        ge=0,
        description="Cosine distances below it count as 0, as in Inseq; 0: all count.",
    )
    normalise_layers: bool = Field(
        True,
        description="Divide a layer's distances by their sum over all tokens read, generated ones "
        "included, as in Inseq. Else the layers of the largest distances rule the mean.",
    )
    final_norm: bool = Field(
        True,
        description="Compare the last layer's output behind the final norm, as Inseq does, or as "
        "it leaves the layer.",
    )
    layers: int | None = Field(
        None,
        gt=0,
        description="Decoder layers whose mean is taken, counted from the last; null: all, as in "
        "Inseq.",
    )


class ValueZeroing(AttributionMethod):
    """Cosine distance of a layer's output when token i's value vector is zero, mean over layers.

    By default, distances of a layer become shares of their sum, as in Inseq, which the paper uses.

    Zeroing the value of token i in one layer changes its attention output at the predicting
    position by −Σ_h p_hi·v_hi, and nothing else there depends on that value. So all tokens
    together cost one pass through output projection, residual, norm and feed-forward block: two
    forward-equivalents, where the definition takes one forward per token. That pass is in float32
    at least: in a long prompt, one token changes the output by little more than a 16-bit type can
    tell. Inseq takes 1 − cos in float32, which is off by some 1e-7, so that a distance beside the
    threshold may count here and not there.
    """

    label = "Value Zeroing"
    family = "perturbation"
    reference = "Mohebbi et al. (2023), Quantifying context mixing in transformers"
    needs_attention = True
    Options = ValueZeroingOptions
    options: ValueZeroingOptions

    def check(self, model: LanguageModel) -> None:
        """Raise a BenchmarkError if the model has fewer layers than are asked for, or other ones.

        The closed form follows layers as Llama and Mistral have them.
        """
        super().check(model)
        from pisoft.lm.layers import layers_are_followed

        self.last_layers(model, self.options.layers)
        if not layers_are_followed(model):
            raise BenchmarkError(
                f"method 'value_zeroing': decoder layers of class "
                f"{type(model.decoder.layers[0]).__name__} (model '{model.name}') do more behind "
                "attention than output projection, residual, norm and feed-forward block, or are "
                "followed by more than a norm; "
                "known to work: LlamaDecoderLayer, MistralDecoderLayer"
            )

    def forwards(self, prompt_tokens: float, steps: float) -> float:
        """A forward, and for every step the better part of another: what comes behind attention."""
        return 1 + steps

    def attribute(self, model: LanguageModel, batch: Batch) -> list[torch.Tensor]:
        """Return mean distances, or shares, one tensor (steps, prompt tokens) per sample."""
        import torch

        from pisoft.lm.layers import LayerVisitor, tail_modules
        from pisoft.lm.precision import at_least_single, computing_in_single

        chosen = self.last_layers(model, self.options.layers)
        steps = batch.positions.shape[1]
        totals = [torch.zeros(batch.input_ids.shape, device=batch.device) for _ in range(steps)]

        def add_layer(
            layer: torch.nn.Module,
            residual: torch.Tensor,
            attended: torch.Tensor,
            inputs: AttentionInputs,
        ) -> None:
            if inputs.layer not in chosen:
                return
            behind = self._behind(model, inputs.layer)
            row = inputs.rows(batch.positions)
            values = at_least_single(row.per_query_head(row.value))  # (B, H, T, D)
            probabilities = at_least_single(row.probabilities())  # (B, H, S, T)
            residual, attended = at_least_single(residual), at_least_single(attended)
            with computing_in_single(*tail_modules(layer), behind):
                for step, weights in enumerate(probabilities.unbind(dim=2)):
                    removed = (weights[..., None] * values).transpose(1, 2).flatten(start_dim=2)
                    distances = _distances(
                        layer, behind, residual[:, step], attended[:, step], removed
                    )
                    totals[step] = totals[step] + self._layer_scores(distances) / len(chosen)

        visitor = LayerVisitor(model, batch.positions, add_layer)
        with torch.no_grad(), visitor.listening():
            model.hidden_states(model.embed(batch.input_ids), probe=visitor)
        return batch.split(totals)

    def _behind(self, model: LanguageModel, layer: int) -> torch.nn.Module:
        """Return what a layer's output passes before it is compared."""
        import torch

        normed = self.options.final_norm and layer == model.layers - 1
        return model.decoder.norm if normed else torch.nn.Identity()

    def _layer_scores(self, distances: torch.Tensor) -> torch.Tensor:
        """Return the scores (B, T) of one layer's distances (B, T), 0 behind the position."""
        scores = distances.masked_fill(distances < self.options.threshold, 0)
        if not self.options.normalise_layers:
            return scores
        total = scores.sum(dim=-1, keepdim=True)
        return scores / total.where(total > 0, 1)


def _distances(
    layer: torch.nn.Module,
    behind: torch.nn.Module,
    residual: torch.Tensor,
    attended: torch.Tensor,
    removed: torch.Tensor,
) -> torch.Tensor:
    """Return cosine distances (B, T) of a layer's output at one position.

    Args:
        layer: the decoder layer.
        behind: what its output passes before it is compared.
        residual: its input at the position, (B, d).
        attended: its attention output there, (B, H·D).
        removed: what each token contributes to that, (B, T, H·D).
    """
    import torch

    from pisoft.lm.layers import layer_output

    # The clean output is the row of a token that contributes nothing: from the same matrix product,
    # so that rounding does not set it apart.
    removed = torch.nn.functional.pad(removed, (0, 0, 0, 1))
    outputs = behind(layer_output(layer, residual[:, None], attended[:, None] - removed))
    return _cosine_distance(outputs[:, :-1], outputs[:, -1:])


def _cosine_distance(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return 1 − cos(a, b) over the last axis, without the cancellation of that subtraction.

    1 − cos = (‖a − b‖² − (‖a‖ − ‖b‖)²) / (2‖a‖‖b‖), and ‖a‖ − ‖b‖ = (a − b)·(a + b)/(‖a‖ + ‖b‖).
    """
    lengths = a.norm(dim=-1), b.norm(dim=-1)
    difference = a - b
    stretch = (difference * (a + b)).sum(dim=-1) / (lengths[0] + lengths[1])
    apart = difference.square().sum(dim=-1) - stretch.square()
    return (apart / (2 * lengths[0] * lengths[1])).clamp(min=0)
