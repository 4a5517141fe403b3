"""GIM: gradient interaction modifications."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pisoft.attribution.modified_backward import ModifiedBackwardMethod

if TYPE_CHECKING:
    import torch

    from pisoft.models.model import LanguageModel
    from pisoft.models.modified_backward import BackwardRules


class Gim(ModifiedBackwardMethod):
    """Σ_c (x_ic − space_c) g_ic, with g of a backward pass in which attention is softer.

    The softmax is differentiated at temperature 2, without the factor ½; norms divide by constants;
    gradients are scaled by ½ at values and both branches of a gated feed-forward block, and by ¼ at
    queries and keys. The baseline is the embedding of a space's first token; if the tokenizer has
    no token for a space, that of the unknown, else padding, else end token.
    """

    label = "GIM"
    reference = "Edin et al. (2025), GIM: improved interpretability for large language models"

    def rules(self) -> BackwardRules:
        """Return the factors and the temperature of the paper."""
        from pisoft.models.modified_backward import BackwardRules

        return BackwardRules(
            constant_norms=True,
            query_key=0.25,
            value=0.5,
            softmax_temperature=2,
            gated=0.5,
            constant_routing=True,
        )

    def difference(self, model: LanguageModel, input_ids: torch.Tensor) -> torch.Tensor:
        """Return the embeddings less that of a space, (B, T, d), float32 or better.

        Raises:
            BenchmarkError: the tokenizer has none of these tokens.
        """
        import torch

        from pisoft.models.ablation import reference_token

        tokens = model.tokenizer.encode(" ", add_special_tokens=False)
        use = f"method '{self.name}' needs in place of a space"
        space = tokens[0] if tokens else reference_token(model, use)
        baseline = model.embed(torch.full_like(input_ids, space))
        return super().difference(model, input_ids) - baseline
