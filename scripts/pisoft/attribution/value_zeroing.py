"""Value zeroing, without a forward per token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from pisoft.attribution.base import AttributionMethod, MethodOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from pisoft.models.layers import LayerCall
    from pisoft.models.model import Batch, LanguageModel


class ValueZeroingOptions(MethodOptions):
    """How a layer's distances become scores; the defaults are Inseq's."""

    threshold: float = Field(
        1e-5,
        ge=0,
        lt=2,
        description="Cosine distances below this count as 0, as in Inseq; 0: none do.",
    )
    normalise_layers: bool = Field(
        True,
        description="Divide a layer's distances by their sum over all tokens, generated ones "
        "included, as in Inseq. false: layers with large distances dominate the mean.",
    )
    final_norm: bool = Field(
        True,
        description="Compare the last layer's output after the final norm, as in Inseq. false: "
        "before it.",
    )
    layers: int | None = Field(
        None,
        gt=0,
        description="Number of decoder layers to average, counted from the last; null: all, as in "
        "Inseq.",
    )


class ValueZeroing(AttributionMethod):
    """Cosine distance of a layer's output when token i's value vector is zero, mean over layers.

    By default, the distances of a layer become shares of their sum, as in Inseq and the paper.

    Zeroing the value of token i in one layer changes its attention output at the predicting
    position by −Σ_h p_hi·v_hi, and nothing else at that position. All tokens together therefore
    cost one pass through the modules after attention, about two forward passes, instead of one
    forward per token. The pass is in float32 or better: in a long prompt, one token changes the
    output by little more than 16-bit precision resolves. Inseq computes 1 − cos in float32, with an
    error of about 1e-7, so a distance near the threshold may count here but not in Inseq.
    """

    label = "Value Zeroing"
    family = "perturbation"
    reference = "Mohebbi et al. (2023), Quantifying context mixing in transformers"
    has_target = False
    needs_attention = True
    Options = ValueZeroingOptions
    options: ValueZeroingOptions

    def check(self, model: LanguageModel) -> None:
        """Raise a BenchmarkError if layers cannot be followed, or option `layers` exceeds them.

        The layers are tested on a dozen tokens, against zeroing their values one by one.
        """
        super().check(model)
        self.last_layers(model, self.options.layers)
        self._behind(model)

    def _behind(self, model: LanguageModel) -> Sequence[torch.nn.Module]:
        """Return the modules after the last layer, once layers have proved to be followed."""
        from pisoft.models.layers import modules_behind, require_rows

        def followed(model: LanguageModel) -> Sequence[torch.nn.Module]:
            require_rows(model)
            return modules_behind(model) if self.options.final_norm else []

        return self.prepared(model, followed)

    def forwards(self, prompt_tokens: float, steps: float) -> float:
        """One forward, and per step most of another: the modules after attention."""
        return 1 + steps

    def float32_forwards(self, prompt_tokens: float, steps: float) -> float:
        """All modules after attention."""
        return steps

    def attribute(self, model: LanguageModel, batch: Batch) -> list[torch.Tensor]:
        """Return mean distances, or shares, one tensor (steps, prompt tokens) per sample."""
        import torch

        from pisoft.models.layers import visit_layers
        from pisoft.models.precision import computing_in_float32

        chosen = self.last_layers(model, self.options.layers)
        final = self._behind(model)
        steps = batch.positions.shape[1]
        totals = [torch.zeros(batch.input_ids.shape, device=batch.device) for _ in range(steps)]

        def add_layer(call: LayerCall) -> None:
            if call.inputs.layer not in chosen:
                return
            behind = final if call.inputs.layer == model.layers - 1 else []
            with computing_in_float32(call.layer, *behind):
                for step, removed in enumerate(call.contributions()):
                    outputs = call.without_tokens(step, removed)
                    for module in behind:
                        outputs = module(outputs)
                    distances = _cosine_distance(outputs[:, :-1], outputs[:, -1:])
                    totals[step] = totals[step] + self._layer_scores(distances) / len(chosen)

        visit_layers(model, model.embed(batch.input_ids), batch.positions, add_layer)
        return batch.split(totals)

    def _layer_scores(self, distances: torch.Tensor) -> torch.Tensor:
        """Return the scores (B, T) from one layer's distances (B, T), 0 after the position."""
        scores = distances.masked_fill(distances < self.options.threshold, 0)
        if not self.options.normalise_layers:
            return scores
        total = scores.sum(dim=-1, keepdim=True)
        return scores / total.where(total > 0, 1)


def _cosine_distance(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return 1 − cos(a, b) over the last axis, without the cancellation of that subtraction.

    1 − cos = (‖a − b‖² − (‖a‖ − ‖b‖)²) / (2‖a‖‖b‖), and ‖a‖ − ‖b‖ = (a − b)·(a + b)/(‖a‖ + ‖b‖).
    """
    lengths = a.norm(dim=-1), b.norm(dim=-1)
    difference = a - b
    stretch = (difference * (a + b)).sum(dim=-1) / (lengths[0] + lengths[1])
    apart = difference.square().sum(dim=-1) - stretch.square()
    return (apart / (2 * lengths[0] * lengths[1])).clamp(min=0)
