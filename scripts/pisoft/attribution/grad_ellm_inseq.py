"""Grad-ELLM as implemented in Inseq's repository, which differs from the paper's equations."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from pydantic import Field

from pisoft.attribution.base import AttributionMethod, MethodOptions
from pisoft.errors import BenchmarkError

if TYPE_CHECKING:
    import torch

    from pisoft.models.model import Batch, LanguageModel

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")


class GradEllmInseqOptions(MethodOptions):
    """Which layers are summed."""

    layers: int | None = Field(
        1,
        gt=0,
        description="Number of decoder layers to sum, counted from the last. 1: the last, as in "
        "Inseq's repository; null: all.",
    )


class GradEllmInseq(AttributionMethod):
    """H_i = Σ_layers ReLU(λ_i Σ_c w_c v_ic), w = ∂logit/∂(attention output after `o_proj`).

    λ is the cosine similarity of the concatenated queries and keys of all heads, without rotary
    embeddings, min-max normalised over all tokens read; 0 if all are equal. With grouped queries,
    the concatenated keys and values are repeated as a whole, which pairs other heads than attention
    does. Sliding windows are ignored.
    """

    label = "Grad-ELLM (Inseq repository)"
    family = "gradient"
    reference = "inseq-team/inseq, commit 4624b49, inseq/attr/feat/ops/grad_ellm.py"
    needs_attention = True
    Options = GradEllmInseqOptions
    options: GradEllmInseqOptions

    def check(self, model: LanguageModel) -> None:
        """Raise a BenchmarkError if a layer lacks a projection, or their widths do not fit."""
        super().check(model)
        layers = self.last_layers(model, self.options.layers)
        for layer in layers:
            if problem := _problem(model.blocks[layer] if model.blocks else None):
                raise BenchmarkError(
                    f"method '{self.name}': model '{model.name}': layer {layer}: {problem}"
                )

    def forwards(self, prompt_tokens: float, steps: float) -> float:
        """One forward; backward passes reach only the summed layers, which counts as nothing."""
        return 1 if self.options.layers == 1 else 1 + steps

    def attribute(self, model: LanguageModel, batch: Batch) -> list[torch.Tensor]:
        """Return raw scores, one tensor (steps, prompt tokens) per sample."""
        import torch

        from pisoft.models.gradients import attributed_values, gradients_by_step

        layers = self.last_layers(model, self.options.layers)
        recorded: list[dict[str, torch.Tensor]] = [{} for _ in layers]

        def record(index: int, name: str, output: torch.Tensor) -> torch.Tensor:
            if index == 0 and name == "o_proj":  # gradients are not needed before it
                output = output.detach().requires_grad_(True)
            recorded[index].setdefault(name, output)
            return output

        with ExitStack() as stack:  # until the last backward pass, which may run layers again
            for index, layer in enumerate(layers):
                attention: Any = model.blocks[layer].self_attn
                for name in PROJECTIONS:
                    handle = getattr(attention, name).register_forward_hook(
                        lambda _, __, output, index=index, name=name: record(index, name, output)
                    )
                    stack.callback(handle.remove)
            logits = model.next_token_logits(model.embed(batch.input_ids), batch.positions)
            values = attributed_values(logits, batch.targets, "logit")  # (B, S)
            scores = []
            steps = gradients_by_step(values, [parts["o_proj"] for parts in recorded])
            for positions, gradients in zip(batch.positions.unbind(dim=1), steps, strict=True):
                layer_scores = [
                    _layer_scores(parts, gradient, positions)
                    for parts, gradient in zip(recorded, gradients, strict=True)
                ]
                scores.append(torch.stack(layer_scores).sum(dim=0))
        return batch.split(scores)


def _problem(layer: torch.nn.Module | None) -> str:
    """Return why a layer's projections do not fit together; empty if they do."""
    attention = getattr(layer, "self_attn", None)
    parts: list[Any] = [getattr(attention, name, None) for name in PROJECTIONS]
    query, key, value, output = (getattr(part, "out_features", 0) for part in parts)
    if not query * key * value * output:
        return f"no self_attn with linear {', '.join(PROJECTIONS[:3])} and {PROJECTIONS[3]}"
    if query != output or query != parts[3].in_features or key != value or query % key:
        return (
            f"widths of queries, keys, values and output: {query}, {key}, {value} and {output}: "
            "the output must be as wide as queries, and these a multiple of keys and values"
        )
    return ""


def _layer_scores(
    parts: dict[str, torch.Tensor], gradient: torch.Tensor, positions: torch.Tensor
) -> torch.Tensor:
    """Return H_i of one layer, (B, T).

    Arguments are the outputs of its projections, (B, T, width), the gradient of the target's logit
    at the attention output, (B, T, d), and the predicting positions, (B,).
    """
    import torch

    from pisoft.models.precision import at_least_float32

    query, key, value = (at_least_float32(parts[name].detach()) for name in PROJECTIONS[:3])
    samples = torch.arange(len(positions), device=positions.device)
    repeats = query.shape[-1] // key.shape[-1]
    key, value = key.repeat(1, 1, repeats), value.repeat(1, 1, repeats)
    cosine = torch.cosine_similarity(query[samples, positions, None], key, dim=-1)
    read = torch.arange(key.shape[1], device=positions.device) <= positions[:, None]
    low = cosine.masked_fill(~read, torch.inf).amin(dim=-1, keepdim=True)
    span = cosine.masked_fill(~read, -torch.inf).amax(dim=-1, keepdim=True) - low
    rounding = 100 * torch.finfo(span.dtype).eps  # cosines of equal tokens differ by less
    weights = torch.where(read & (span > rounding), (cosine - low) / span, 0)
    sums = (at_least_float32(gradient)[samples, positions, None] * value).sum(dim=-1)
    return (weights * sums).relu()
