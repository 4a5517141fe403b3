"""CP-LRP: layer-wise relevance propagation that conserves relevance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pisoft.attribution.modified_backward import ModifiedBackwardMethod

if TYPE_CHECKING:
    from pisoft.models.modified_backward import BackwardRules


class CpLrp(ModifiedBackwardMethod):
    """Relevance of the target's logit, with attention maps, gates and norms as constants.

    What is left is linear in the embeddings, so that in a model without biases and caps the scores
    of all tokens sum to the logit. The activation of a feed-forward block without a gate passes
    relevance on as it is, where the paper, which has no such rule, would lose some. Written from
    the equations; lxt, which has the method as well, has a licence without patent rights, and its
    README calls LRP patented.
    """

    label = "CP-LRP"
    reference = "Ali et al. (2022), XAI for Transformers: better explanations through conservative"

    def rules(self) -> BackwardRules:
        """Return rules under which every layer is linear."""
        from pisoft.models.modified_backward import CONSERVING

        return CONSERVING

    def forwards(self, prompt_tokens: float, steps: float) -> float:
        """A forward, and for every step a backward that leaves gates, queries and keys out."""
        return 1 + 0.6 * steps
