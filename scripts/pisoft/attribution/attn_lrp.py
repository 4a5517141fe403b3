"""AttnLRP: layer-wise relevance propagation through attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pisoft.attribution.modified_backward import ModifiedBackwardMethod

if TYPE_CHECKING:
    from pisoft.models.modified_backward import BackwardRules


class AttnLrp(ModifiedBackwardMethod):
    """Relevance of the target's logit, the softmax linearised at its input.

    A product splits its relevance evenly between its factors: ½ at values, ¼ at queries and keys,
    and ½ at both branches of a gated feed-forward block. Norms and activations pass relevance
    through. The softmax absorbs some relevance, so it is not conserved. The rules of DPA (arXiv
    2603.19742) are the same in closed form. Written from the equations; the licence of the authors'
    library, lxt, grants no patent rights, and its README calls LRP patented.
    """

    label = "AttnLRP"
    reference = "Achtibat et al. (2024), AttnLRP: attention-aware layer-wise relevance propagation"

    def rules(self) -> BackwardRules:
        """Return ε-rules, the uniform rule for products, and the exact softmax."""
        from pisoft.models.modified_backward import BackwardRules

        return BackwardRules(
            constant_norms=True,
            query_key=0.25,
            value=0.5,
            gated=0.5,
            constant_routing=True,
            linear_activations=True,
        )
